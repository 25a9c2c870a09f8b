"""Which session an argument means: an id, the beginning of an id, or a title. The same for every command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.completion import complete
from holdfast.cli.output import brief, moment, one_line
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session import Session

    Work = Callable[[AsyncClient, str], Coroutine[Any, Any, int]]

SHOWN = 10
"""Candidates that are listed."""
NAME_CHARACTERS = 1000

_WHOLE_ID = pattern(r"ses_[0-9A-Za-z]{26}\Z")


class NoSession(Exception):
    """No session of the database is meant by an argument."""


session_argument = click.argument("session_id", metavar="SESSION", shell_complete=complete("sessions"))


def run_on_session(name: str, work: Work) -> NoReturn:
    """Open the runtime in this process, run `work` with the id of the session that `name` means, and exit."""

    async def chosen(client: AsyncClient) -> int:
        return await work(client, await session_of(client, name))

    run_on_host(chosen)


async def session_of(client: AsyncClient, name: str, directory: str | None = None) -> str:
    """The id of the session that `name` means. A whole id is not looked up. Raises a usage error that lists the
    candidates if there are several, and NoSession."""
    if _WHOLE_ID.match(name) is not None:
        return name
    here = os.path.realpath(directory or os.getcwd())
    found = await _found(client, name, here)
    if not found:
        raise NoSession(
            f"No session {brief(name)} in this database: it is no id, no beginning of an id, and in no title. "
            "`holdfast sessions --all` lists the sessions."
        )
    if len(found) > 1:
        raise click.UsageError(_several(name, found))
    return found[0].id


async def newest_session(client: AsyncClient, directory: str | None = None) -> str:
    """The session of a directory, without a parent, that changed last. Raises NoSession."""
    here = os.path.realpath(directory or os.getcwd())
    found = (await client.sessions.overview(directory=here, limit=1)).items
    if not found:
        raise NoSession(f"No sessions in {one_line(here)}. `holdfast sessions --all` lists those of other directories.")
    return found[0].session.id


async def _found(client: AsyncClient, name: str, here: str) -> list[Session]:
    """A server of another version may not look up names; it still knows ids."""
    from holdfast.client.errors import ApiError

    if not name or len(name) > NAME_CHARACTERS or "\x00" in name:
        return []
    try:
        return await client.sessions.find(name=name, directory=here, limit=SHOWN + 1)
    except ApiError as error:
        if error.status not in (404, 405):
            raise
        return [await client.sessions.get(name)]


def _several(name: str, found: list[Session]) -> str:
    lines = [f"  {each.id}  {moment(each.time.updated)}  {brief(each.title, 60)}" for each in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append("  … and more")
    return "\n".join((f"several sessions fit {brief(name)!r}; name one of them:", *lines))
