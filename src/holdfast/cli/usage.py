"""`holdfast usage`: what a session and its subagents used, or what all requests to models of a period used."""

from __future__ import annotations

import csv
import datetime as dt
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.command_runner import run_on_host
from holdfast.cli.completion import complete
from holdfast.cli.output import json_option, one_line, print_json, print_table
from holdfast.cli.session_choice import run_on_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session import Tokens
    from holdfast.schema.usage import UsageReport, UsageRow, UsageSum

DAYS = 30
GROUPS = ("day", "project", "session", "model")
DEFAULT_GROUPS = ("day", "model")
SUMS = ("requests", "input", "cached", "output", "cost", "saved", "unpriced")
COLUMNS = ("REQUESTS", "IN", "CACHED", "OUT", "COST")
UNKNOWN = "(unknown)"
FORMULA = ("=", "+", "-", "@")
"""How text begins that a spreadsheet would compute."""


class Question(NamedTuple):
    """What the options ask for."""

    by: tuple[str, ...]
    since: int
    until: int | None
    offset: int
    directory: str | None

    async def ask(self, client: AsyncClient, session_id: str | None = None) -> UsageReport:
        return await client.system.usage(
            by=",".join(self.by),
            since=self.since,
            until=self.until,
            offset=self.offset,
            directory=self.directory,
            session=session_id,
        )


@click.command("usage", short_help="Show tokens, cache and cost by day, project, model or session.")
@click.argument("session_id", metavar="[SESSION]", required=False, shell_complete=complete("sessions"))
@click.option(
    "--by",
    type=click.Choice(GROUPS),
    multiple=True,
    help="What to group by; repeatable. By day and model, unless given. A session is told with its subagents.",
)
@click.option("--days", type=click.IntRange(1, 3650), help=f"How many days up to now; {DAYS} unless given.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="From the beginning of this day on.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Up to the end of this day.")
@click.option("--all", "everywhere", is_flag=True, help="All directories, not only this one.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values instead of a table.")
@json_option
def command(
    session_id: str | None,
    by: tuple[str, ...],
    days: int | None,
    since: dt.datetime | None,
    until: dt.datetime | None,
    everywhere: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the requests to models, their tokens, the share of the input that came from the provider's cache, the cost,
    and what the cache saved: what the cached tokens would have cost more, at the prices of that time.

    Without SESSION: of the sessions of this directory and their subagents, by day and model. With SESSION: of itself,
    and with its subagents; with one of --by, --days, --since or --until of both together, by these."""
    if days is not None and since is not None:
        raise click.UsageError("--days and --since exclude each other")
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    if session_id is not None and everywhere:
        raise click.UsageError("--all is for usage without SESSION")
    directory = None if everywhere or session_id is not None else os.path.realpath(os.getcwd())
    question = _question(by, days, since, until, directory)
    if session_id is None:
        run_on_host(lambda client: _report(client, question, None, as_csv, as_json))
    if by or days or since or until or as_csv:
        run_on_session(session_id, lambda client, id: _report(client, question, id, as_csv, as_json))
    run_on_session(session_id, lambda client, id: _of_session(client, id, as_json))


def _question(
    by: tuple[str, ...],
    days: int | None,
    since: dt.datetime | None,
    until: dt.datetime | None,
    directory: str | None,
) -> Question:
    now = dt.datetime.now().astimezone()
    end = (until + dt.timedelta(days=1)).astimezone() if until is not None else None
    begin = since.astimezone() if since is not None else (end or now) - dt.timedelta(days=days or DAYS)
    if begin > (end or now):
        raise click.UsageError(f"the period ends before it begins, on {begin:%Y-%m-%d}")
    groups = tuple(group for group in GROUPS if group in (by or DEFAULT_GROUPS))
    offset = now.utcoffset() or dt.timedelta()
    return Question(
        groups, max(0, _millis(begin)), _millis(end) if end else None, int(offset.total_seconds()) // 60, directory
    )


def _millis(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1000)


async def _report(client: AsyncClient, question: Question, session_id: str | None, as_csv: bool, as_json: bool) -> int:
    found = await question.ask(client, session_id)
    if as_json:
        print_json([_record(question.by, row) for row in found.rows])
    elif as_csv:
        _print_csv(question.by, found.rows)
    elif not found.rows:
        days = f"{_date(found.since)} to {_date(found.until)}"
        where = f" in {one_line(question.directory)}" if question.directory is not None else ""
        click.echo(f"no usage{where} from {days}", err=True)
    else:
        _print_report(question.by, found)
    return 0


def _print_report(by: Sequence[str], found: UsageReport) -> None:
    rows = [(*(_name(group, row) for group in by), *_cells(row), _saved(row)) for row in found.rows]
    total = ("total", *[""] * (len(by) - 1), *_cells(found.total), _saved(found.total))
    columns = (*COLUMNS, "SAVED")
    print_table((*(group.upper() for group in by), *columns), [*rows, total], right=columns)
    if found.total.unpriced:
        click.echo(
            f"{found.total.unpriced:,} requests with cached tokens are not in SAVED: their prices are not recorded",
            err=True,
        )


def _print_csv(by: Sequence[str], rows: Sequence[UsageRow]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*_headings(by), *SUMS])
    for row in rows:
        writer.writerow([_plain(value) for value in _record(by, row).values()])


def _headings(by: Sequence[str]) -> list[str]:
    return [name for group in by for name in (("session", "title") if group == "session" else (group,))]


def _record(by: Sequence[str], row: UsageRow) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for group in by:
        names[group] = _name(group, row, id=True)
        if group == "session":
            names["title"] = row.session.title if row.session is not None else ""
    return {
        **names,
        "requests": row.requests,
        "input": _input(row.tokens),
        "cached": row.tokens.cache.read,
        "output": row.tokens.output + row.tokens.reasoning,
        "cost": row.cost,
        "saved": row.saved,
        "unpriced": row.unpriced,
    }


def _name(group: str, row: UsageRow, *, id: bool = False) -> str:
    if group == "day":
        return row.day or UNKNOWN
    if group == "project":
        return row.project.directory or row.project.id if row.project is not None else UNKNOWN
    if group == "session":
        told = row.session
        return UNKNOWN if told is None else told.id if id else f"{told.id} {told.title}"
    return f"{row.model.provider_id}/{row.model.id}" if row.model is not None else UNKNOWN


def _plain(value: object) -> object:
    """Foreign text on one line, and never a formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _cells(used: UsageSum) -> tuple[str, ...]:
    return _sums(used.requests, used.tokens, used.cost)


def _sums(requests: int, tokens: Tokens, cost: float) -> tuple[str, ...]:
    whole = _input(tokens)
    cached = f"{100 * tokens.cache.read // whole} %" if whole else ""
    return f"{requests:,}", f"{whole:,}", cached, f"{tokens.output + tokens.reasoning:,}", f"${cost:.4f}"


def _saved(used: UsageSum) -> str:
    if not used.tokens.cache.read + used.tokens.cache.write:
        return ""
    known = f"${used.saved:.4f}" if used.saved >= 0 else f"-${-used.saved:.4f}"
    return known if not used.unpriced else f"{known} ?" if used.saved else "?"


def _input(tokens: Tokens) -> int:
    return tokens.input + tokens.cache.read + tokens.cache.write


def _date(millis: int) -> str:
    return f"{dt.datetime.fromtimestamp(millis / 1000).astimezone():%Y-%m-%d}"


async def _of_session(client: AsyncClient, session_id: str, as_json: bool) -> int:
    found = await client.sessions.usage(session_id)
    if as_json:
        print_json(found)
        return 0
    rows = [
        (name, *_sums(total.turns, total.tokens, total.cost))
        for name, total in (("this session", found.own), (f"all {found.tree.sessions} sessions", found.tree))
    ]
    print_table(("OF", *COLUMNS), rows if found.tree.sessions > 1 else rows[:1], right=COLUMNS)
    return 0
