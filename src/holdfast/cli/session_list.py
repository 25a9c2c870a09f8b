"""The list of `holdfast sessions`: what each session is called, when it changed, and what it does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import click

from holdfast.cli.output import brief, columns, json_option, moment, one_line, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session import Session

T = TypeVar("T", bound="Callable[..., object]")

PAGE = 100
AT_ONCE = 500
"""Sessions whose state is asked for in one request."""
NARROW = 72
"""Below this width a session is two lines, because an id takes 30 columns."""


def list_options(listing: T) -> T:
    """Add the options of a list of sessions."""
    for option in (
        json_option,
        click.option(
            "--interrupted", is_flag=True, help="Only sessions with unfinished work that no process continues."
        ),
        click.option("--archived", is_flag=True, help="Only archived sessions."),
        click.option("--children", is_flag=True, help="Sessions of subagents too."),
        click.option("--all", "everywhere", is_flag=True, help="Sessions of every directory, those of subagents too."),
        click.option(
            "--directory",
            type=click.Path(exists=True, file_okay=False),
            help="Sessions of this directory.  [default: the current one]",
        ),
        click.option("--search", metavar="TEXT", help="Only sessions with this text in their title."),
        click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list."),
    ):
        listing = option(listing)
    return listing


async def list_sessions(
    client: AsyncClient,
    limit: int,
    search: str | None,
    directory: str | None,
    everywhere: bool,
    children: bool,
    archived: bool,
    interrupted: bool,
    as_json: bool,
) -> int:
    if everywhere and directory is not None:
        raise click.UsageError("--all and --directory cannot be combined")
    here = None if everywhere else os.path.realpath(directory or os.getcwd())
    children = children or everywhere
    left = await client.sessions.interrupted()
    broken = {turn.session_id if children else turn.root_id for turn in left}
    found: list[Session] = []
    parent_id = None if children else "null"
    async for session in _all(client, here, search=search, archived=archived, parent_id=parent_id):
        if session.id in broken or not interrupted:
            found.append(session)
            if len(found) == limit:
                break
    if as_json:
        print_json(found)
        return 0
    if not found:
        kind = f"{'interrupted ' if interrupted else ''}{'archived ' if archived else ''}sessions"
        about = f" with {one_line(search)!r} in their title" if search else ""
        where = "" if everywhere else f" in {one_line(str(here))}"
        click.echo(f"no {kind}{about}{where}", err=True)
        return 0
    states = await _states(client, found, broken)
    if columns() < NARROW:
        _print_narrow(found, states)
    else:
        _print_table(found, states, everywhere=everywhere)
    return 0


def _print_table(found: Sequence[Session], states: dict[str, str], *, everywhere: bool) -> None:
    forks = any(session.fork is not None for session in found)
    parents = any(session.children for session in found)
    headings = ["SESSION", "UPDATED", "STATE", *(["CHILDREN"] if parents else []), "TITLE"]
    headings += ["FORK OF"] if forks else []
    headings += ["DIRECTORY"] if everywhere else []
    rows = (
        (
            session.id,
            moment(session.time.updated),
            states[session.id],
            *([session.children or ""] if parents else []),
            brief(session.title),
            *([session.fork.session_id if session.fork is not None else ""] if forks else []),
            *([session.location.directory] if everywhere else []),
        )
        for session in found
    )
    print_table(headings, rows)


def _print_narrow(found: Sequence[Session], states: dict[str, str]) -> None:
    width = columns()
    for session in found:
        click.echo(session.id)
        click.echo(f"  {brief(f'{states[session.id]}: {session.title}', max(width - 2, 10))}")


async def _states(client: AsyncClient, found: Sequence[Session], broken: set[str | None]) -> dict[str, str]:
    """`broken` are roots of trees with unfinished work that no process continues, and such sessions themselves: an idle
    root is named after what is below it."""
    states: dict[str, str] = {}
    for start in range(0, len(found), AT_ONCE):
        ids = ",".join(session.id for session in found[start : start + AT_ONCE])
        for told in (await client.sessions.overview(ids=ids)).items:
            below = told.state == "idle" and told.session.id in broken
            states[told.session.id] = "interrupted" if below else told.status
    return {session.id: states.get(session.id, "") for session in found}


async def _all(
    client: AsyncClient, directory: str | None, *, search: str | None, archived: bool, parent_id: str | None
) -> AsyncIterator[Session]:
    page = await client.sessions.list(
        limit=PAGE, directory=directory, search=search, archived=archived, parent_id=parent_id
    )
    while page.items:
        for session in page.items:
            yield session
        if page.next is None:
            return
        page = await client.sessions.list(cursor=page.next)
