"""`holdfast context`: shows the System Context of a session, and what changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.output import brief, heading, json_option, moment, print_json, print_table, printable
from holdfast.cli.session_choice import run_on_session, session_argument

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.insight import ContextSourceInfo, PrefixBreakInfo, RequestContextInfo
    from holdfast.schema.typed_event import Event


@click.command("context", short_help="Show what a session's model is told, and what changed it.")
@session_argument
@json_option
def command(session_id: str, as_json: bool) -> None:
    """Show the System Context of SESSION: the beginning of every request to its model.

    Lists the baseline; each source with what the model was told last; every change since, with its sources; and the
    requests that did not begin like the one before, with the reason. Sources are not read again."""
    run_on_session(session_id, lambda client, id: _show(client, id, as_json))


async def _show(client: AsyncClient, session_id: str, as_json: bool) -> int:
    from holdfast.schema.insight import RequestContextAbsent

    context = await client.sessions.request_context(session_id)
    if as_json:
        print_json(context)
    elif isinstance(context, RequestContextAbsent):
        click.echo("no System Context yet: no prompt was promoted, or the session has moved since", err=True)
    else:
        await _print(client, session_id, context)
    return 0


async def _print(client: AsyncClient, session_id: str, context: RequestContextInfo) -> None:
    _heading(f"Baseline, since event {context.baseline_seq}")
    click.echo(printable(context.baseline))
    _heading("Sources")
    print_table(("SOURCE", "STATE", "BYTES", "TOLD LAST"), map(_source, context.sources), right=("BYTES",))
    if context.changes:
        _heading("Changes since, newest first")
    for change in context.changes:
        event = await _event_at(client, session_id, change.seq)
        click.echo(printable(f"event {change.seq}, {_time(event)}: {', '.join(change.keys)}"))
        click.echo(printable("\n".join(f"    {line}" for line in _text(event).splitlines())))
    _heading("Requests that did not begin like the one before them, newest first")
    rows = [
        (found.seq, _time(await _event_at(client, session_id, found.seq)), _causes(found))
        for found in context.prefix_breaks
    ]
    if rows:
        print_table(("EVENT", "TIME", "BECAUSE OF"), rows, right=("EVENT",))
    else:
        click.echo("none")


def _causes(found: PrefixBreakInfo) -> str:
    by = f" ({', '.join(found.plugins)})" if found.plugins else ""
    return ", ".join(cause + by if cause == "hook" else cause for cause in found.causes)


def _heading(text: str) -> None:
    click.echo(f"\n{heading(text)}")


def _source(source: ContextSourceInfo) -> tuple[object, ...]:
    import msgspec

    from holdfast.schema.insight import Current, UnavailableSince

    match source.state:
        case Current():
            state = "current"
        case UnavailableSince(since=since):
            state = f"unavailable since {moment(since)}"
        case removed:
            state = f"removed {moment(removed.since)}"
    told = "" if isinstance(source.value, msgspec.UnsetType) else brief(bytes(source.value).decode())
    return source.key, state, source.bytes, told


async def _event_at(client: AsyncClient, session_id: str, seq: int) -> Event | None:
    """The event at that sequence, or the next public one."""
    found = await client.sessions.history(session_id, after=seq - 1 if seq else None, limit=1)
    return next(iter(found.events), None)


def _time(event: Event | None) -> str:
    found = _fields(event).get("timestamp")
    return moment(found) if isinstance(found, int) else "?"


def _text(event: Event | None) -> str:
    return str(_fields(event).get("text", ""))


def _fields(event: Event | None) -> dict[str, object]:
    from holdfast.schema.codec import decode_any, encode

    return dict(decode_any(encode(event.data))) if event is not None else {}
