"""`holdfast usage`: what a session and its subagents used, or the sessions of a directory by day and model."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.completion import complete
from holdfast.cli.output import json_option, one_line, print_json, print_table
from holdfast.cli.session_choice import run_on_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.ledger import LedgerEntry
    from holdfast.schema.session import Tokens

DAYS = 30
PAGE = 100
REQUESTS = 1000
"""Requests of a session that are read at once."""
DAY_SECONDS = 86_400
COLUMNS = ("REQUESTS", "IN", "CACHED", "OUT", "COST")


class Sum:
    """Requests that belong together."""

    def __init__(self) -> None:
        self.requests = 0
        self.input = self.read = self.output = 0
        self.cost = 0.0

    def add(self, requests: int, tokens: Tokens, cost: float) -> None:
        self.requests += requests
        self.input += tokens.input + tokens.cache.read + tokens.cache.write
        self.read += tokens.cache.read
        self.output += tokens.output + tokens.reasoning
        self.cost += cost

    @property
    def cells(self) -> tuple[str, ...]:
        cached = f"{100 * self.read // self.input} %" if self.input else ""
        return f"{self.requests:,}", f"{self.input:,}", cached, f"{self.output:,}", f"${self.cost:.4f}"

    @property
    def record(self) -> dict[str, object]:
        used = {"input": self.input, "cached": self.read, "output": self.output, "cost": self.cost}
        return {"requests": self.requests, **used}


@click.command("usage", short_help="Show tokens, cache and cost of a session or of a directory.")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=complete("sessions"))
@click.option(
    "--days", type=click.IntRange(1, 3650), default=DAYS, show_default=True, help="Without SESSION: how many."
)
@json_option
def command(session_id: str | None, days: int, as_json: bool) -> None:
    """Show the tokens, the share of the input that came from the provider's cache, and the cost of SESSION: of itself,
    and with its subagents.

    Without SESSION: of the sessions of this directory and their subagents, by day and model."""
    if session_id is not None:
        run_on_session(session_id, lambda client, id: _of_session(client, id, as_json))
    run_on_host(lambda client: _of_directory(client, os.path.realpath(os.getcwd()), days, as_json))


async def _of_session(client: AsyncClient, session_id: str, as_json: bool) -> int:
    found = await client.sessions.usage(session_id)
    if as_json:
        print_json(found)
        return 0
    rows = []
    for name, total in (("this session", found.own), (f"all {found.tree.sessions} sessions", found.tree)):
        used = Sum()
        used.add(total.turns, total.tokens, total.cost)
        rows.append((name, *used.cells))
    print_table(("OF", *COLUMNS), rows if found.tree.sessions > 1 else rows[:1], right=COLUMNS)
    return 0


async def _of_directory(client: AsyncClient, directory: str, days: int, as_json: bool) -> int:
    since = int((time.time() - days * DAY_SECONDS) * 1000)
    sums: defaultdict[tuple[str, str], Sum] = defaultdict(Sum)
    async for entry in _requests(client, directory, since):
        if entry.tokens is None:
            continue
        model = f"{entry.model.provider_id}/{entry.model.id}" if entry.model is not None else "(unknown)"
        sums[(_day(entry.time), model)].add(1, entry.tokens, entry.cost or 0.0)
    if as_json:
        print_json([{"day": day, "model": model, **used.record} for (day, model), used in sorted(sums.items())])
        return 0
    if not sums:
        click.echo(f"no usage in {one_line(directory)} within {days} days", err=True)
        return 0
    rows = [(day, model, *used.cells) for (day, model), used in sorted(sums.items())]
    whole = Sum()
    for used in sums.values():
        whole.requests += used.requests
        whole.input, whole.read, whole.output = (
            whole.input + used.input,
            whole.read + used.read,
            whole.output + used.output,
        )
        whole.cost += used.cost
    print_table(("DAY", "MODEL", *COLUMNS), [*rows, ("total", "", *whole.cells)], right=COLUMNS)
    return 0


async def _requests(client: AsyncClient, directory: str, since: int) -> AsyncIterator[LedgerEntry]:
    """The requests of the sessions of a directory and of those below them, since a time in milliseconds."""
    for archived in (False, True):
        page = await client.sessions.overview(directory=directory, archived=archived, limit=PAGE)
        while page.items:
            for told in page.items:
                if told.session.time.updated < since:
                    break
                for node in (await client.sessions.tree(told.session.id)).nodes:
                    async for entry in _of_one(client, node.id, since):
                        yield entry
            if page.next is None or page.items[-1].session.time.updated < since:
                break
            page = await client.sessions.overview(cursor=page.next)


async def _of_one(client: AsyncClient, session_id: str, since: int) -> AsyncIterator[LedgerEntry]:
    before: int | None = None
    while True:
        page = await client.sessions.ledger(session_id, limit=REQUESTS, before=before)
        for entry in page.items:
            if entry.time >= since:
                yield entry
        if not page.has_more or not page.items or page.items[0].time < since:
            return
        before = page.items[0].seq


def _day(millis: int) -> str:
    return f"{dt.datetime.fromtimestamp(millis / 1000).astimezone():%Y-%m-%d}"
