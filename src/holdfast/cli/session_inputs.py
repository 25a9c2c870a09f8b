"""`holdfast sessions inbox` and `holdfast sessions instructions`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.output import brief, json_option, moment, print_json, print_table
from holdfast.cli.session_choice import run_on_session, session_argument

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient


@click.command("inbox", short_help="List the pending inputs of a session, or change one.")
@session_argument
@click.option("--cancel", metavar="INPUT", help="Withdraw this input.")
@click.option("--steer", metavar="INPUT", help="Let this queued input join at once, and show the answer.")
@click.option("--queue", metavar="INPUT", help="Let this steer wait until the session would go idle.")
@click.option("--yes", is_flag=True, help="With --steer: allow every request without asking.")
@json_option
def inbox(session_id: str, cancel: str | None, steer: str | None, queue: str | None, yes: bool, as_json: bool) -> None:
    """List what was sent to SESSION and is not part of the conversation yet, oldest first."""
    if sum(given is not None for given in (cancel, steer, queue)) > 1:
        raise click.UsageError("--cancel, --steer and --queue cannot be combined")
    if steer is not None:
        from holdfast.cli.turn import steer_input

        sys.exit(steer_input(session_id, steer, yes=yes))
    run_on_session(session_id, lambda client, id: _inbox(client, id, cancel, queue, as_json))


@click.command("instructions", short_help="List the instruction entries of a session, or change them.")
@session_argument
@click.option("--set", "entries", nargs=2, multiple=True, metavar="KEY VALUE", help="Add or replace an entry.")
@click.option("--remove", "removed", multiple=True, metavar="KEY", help="Remove an entry.")
@json_option
def instructions(
    session_id: str, entries: tuple[tuple[str, str], ...], removed: tuple[str, ...], as_json: bool
) -> None:
    """List the instruction entries of SESSION: facts that its model is told. A change reaches the model before its next
    turn. VALUE is text, or any other JSON."""
    run_on_session(session_id, lambda client, id: _instructions(client, id, entries, removed, as_json))


async def _inbox(client: AsyncClient, session_id: str, cancel: str | None, queue: str | None, as_json: bool) -> int:
    if cancel is not None:
        await client.sessions.cancel_input(session_id, inbox_id=cancel)
    if queue is not None:
        await client.sessions.queue_input(session_id, inbox_id=queue)
    if cancel is not None or queue is not None:
        return 0
    found = await client.sessions.inbox(session_id)
    if as_json:
        print_json(found)
    elif found:
        rows = ((item.id, moment(item.time_created), item.delivery, brief(item.payload.text)) for item in found)
        print_table(("INPUT", "SENT", "DELIVERY", "TEXT"), rows)
    else:
        click.echo(f"{session_id} has no pending input", err=True)
    return 0


async def _instructions(
    client: AsyncClient,
    session_id: str,
    entries: tuple[tuple[str, str], ...],
    removed: tuple[str, ...],
    as_json: bool,
) -> int:
    for key, value in entries:
        await client.sessions.put_instruction(session_id, key=key, value=_value(value))
    for key in removed:
        await client.sessions.remove_instruction(session_id, key=key)
    if entries or removed:
        return 0
    found = await client.sessions.instructions(session_id)
    if as_json:
        print_json(found)
    elif found:
        print_table(("KEY", "VALUE"), ((entry.key, brief(_shown(entry.value))) for entry in found))
    else:
        click.echo(f"{session_id} has no instruction entries", err=True)
    return 0


def _value(text: str) -> Any:
    """JSON if it is an object, a list, a number or a truth value; otherwise the text itself."""
    import msgspec

    from holdfast.schema.codec import decode_any

    try:
        value = decode_any(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if value is None or isinstance(value, str) else value


def _shown(value: Any) -> str:
    from holdfast.schema.codec import encode_text

    return value if isinstance(value, str) else encode_text(value)
