"""`holdfast sessions`: lists, shows and changes sessions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.audit import print_audit
from holdfast.cli.command_runner import fail, run_on_host
from holdfast.cli.help import HelpfulGroup
from holdfast.cli.output import brief, json_option, moment, one_line, print_json, print_table
from holdfast.cli.session_budget import budget
from holdfast.cli.session_choice import run_on_session, session_argument
from holdfast.cli.session_inputs import inbox, instructions
from holdfast.cli.session_link import link
from holdfast.cli.session_list import list_options, list_sessions
from holdfast.cli.session_removal import pin, purge, unpin
from holdfast.cli.session_undo import undo
from holdfast.cli.tree import background, interrupt, tree

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session_message import SessionMessage

SHOWN_MESSAGES = 20
KEPT = "{session} is deleted; its events are still stored. `holdfast sessions purge {session}` removes them for good."


@click.group("sessions", cls=HelpfulGroup, invoke_without_command=True)
@list_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """List sessions, newest first, or change one."""
    if context.invoked_subcommand is None:
        run_on_host(lambda client: list_sessions(client, **options))


@command.command("list")
@list_options
def listing(**options: Any) -> None:
    """List sessions, newest first, as `holdfast sessions` does."""
    run_on_host(lambda client: list_sessions(client, **options))


@command.command(short_help="Show a session and its latest messages.")
@session_argument
@json_option
def show(session_id: str, as_json: bool) -> None:
    """Show a session: its settings, pending inputs and latest messages."""
    run_on_session(session_id, lambda client, id: _show(client, id, as_json))


@command.command(short_help="Show who admitted, approved and changed what.")
@session_argument
@json_option
def audit(session_id: str, as_json: bool) -> None:
    """Show who admitted, approved and changed what in a session and those below it, oldest first."""
    run_on_session(
        session_id,
        lambda client, id: print_audit(
            lambda after: client.sessions.audit(id, after=after), as_json=as_json, tree=True
        ),
    )


@command.command()
@session_argument
@click.argument("title", nargs=-1, required=True)
def rename(session_id: str, title: tuple[str, ...]) -> None:
    """Give a session a title."""
    text = " ".join(title).strip()
    if not text:
        raise click.BadParameter("the title is empty", param_hint="TITLE")
    run_on_session(session_id, lambda client, id: _done(client.sessions.rename(id, title=text)))


@command.command()
@session_argument
@click.option("--undo", "restore", is_flag=True, help="Restore an archived session.")
def archive(session_id: str, restore: bool) -> None:
    """Archive a session, so that lists do not show it."""
    run_on_session(session_id, lambda client, id: _done(client.sessions.archive(id, archived=not restore)))


@command.command()
@session_argument
@click.option("--keep-children", is_flag=True, help="Keep the sessions of its subagents, without a parent.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
def delete(session_id: str, keep_children: bool, yes: bool) -> None:
    """Stop a session and delete it with the sessions of its subagents.

    No list shows them any more. Their events stay in the database, with everything that was said, and so do files that
    tools saved: `holdfast sessions purge` removes these too."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("standard input is not a terminal, so nobody can confirm; --yes deletes without asking")
    run_on_session(session_id, lambda client, id: _delete(client, id, keep_children=keep_children, ask=not yes))


@command.command(short_help="Make a new session that shares the conversation of one.")
@session_argument
@click.option("--before", metavar="MESSAGE", help="Share only what comes before this message.")
@json_option
def fork(session_id: str, before: str | None, as_json: bool) -> None:
    """Make a new session that shares the conversation of a session, and print its id.

    No message is copied. From then on the two sessions change independently. An answer that is still being written is
    not shared."""
    run_on_session(session_id, lambda client, id: _fork(client, id, before, as_json))


@command.command()
@session_argument
@click.option("--instructions", metavar="TEXT", help="What the summary should keep or leave out.")
def compact(session_id: str, instructions: str | None) -> None:
    """Summarise older messages of a session now."""
    run_on_session(session_id, lambda client, id: _done(client.sessions.compact(id, instructions=instructions)))


@command.command()
@session_argument
@click.option("--continue/--abandon", "go_on", default=None, help="Continue from history, or end the turn.")
@click.option("--yes", is_flag=True, help="Allow every request without asking.")
def recover(session_id: str, go_on: bool | None, yes: bool) -> None:
    """Continue or abandon a turn that was interrupted when its process ended, and those of sessions below it.

    Continuing sends a new request from the recorded history; tool calls of the interrupted turn are not repeated.
    Abandoning ends the turn; prompts that are pending are answered after that."""
    if go_on is None:
        raise click.UsageError("either --continue or --abandon is needed")
    from holdfast.cli.turn import abandon_session, continue_session

    sys.exit((continue_session if go_on else abandon_session)(session_id, yes=yes))


@command.command()
@session_argument
@json_option
def waits(session_id: str, as_json: bool) -> None:
    """Show what a session waits for, since when, and what ends the wait."""
    run_on_session(session_id, lambda client, id: _waits(client, id, as_json))


command.add_command(tree)
command.add_command(purge)
command.add_command(pin)
command.add_command(unpin)
command.add_command(interrupt)
command.add_command(background)
command.add_command(inbox)
command.add_command(budget)
command.add_command(instructions)
command.add_command(link)
command.add_command(undo)


async def _delete(client: AsyncClient, session_id: str, *, keep_children: bool, ask: bool) -> int:
    from holdfast.cli.terminal import Terminal

    below = (await client.sessions.tree(session_id, limit=1)).count - 1 if ask and not keep_children else 0
    also = f" with {below} session{'s' if below > 1 else ''} below it" if below else ""
    if ask and not await Terminal().confirm(f"Delete {session_id}{also}?"):
        return fail(f"{session_id} was not deleted.")
    await client.sessions.delete(session_id, children="keep" if keep_children else None)
    click.echo(KEPT.format(session=session_id), err=True)
    return 0


async def _fork(client: AsyncClient, session_id: str, before: str | None, as_json: bool) -> int:
    from holdfast.schema.session import ForkBefore, ForkThrough

    boundary = ForkBefore(message_id=before) if before is not None else ForkThrough()
    forked = await client.sessions.fork(session_id, boundary=boundary)
    if as_json:
        print_json(forked)
    else:
        click.echo(forked.id)
    return 0


async def _done(work: Coroutine[Any, Any, object]) -> int:
    await work
    return 0


async def _show(client: AsyncClient, session_id: str, as_json: bool) -> int:
    session = await client.sessions.get(session_id)
    pending = await client.sessions.pending(session_id)
    messages = (await client.sessions.messages(session_id, limit=SHOWN_MESSAGES)).items
    if as_json:
        print_json({"session": session, "pending": pending, "messages": messages})
        return 0
    tokens = session.tokens
    facts = {
        "session": session.id,
        "title": session.title,
        "directory": session.location.directory,
        "agent": session.agent or "(default)",
        "model": f"{session.model.provider_id}/{session.model.id}" if session.model else "(default)",
        "created": moment(session.time.created),
        "updated": moment(session.time.updated),
        "tokens": f"{tokens.input:,} in, {tokens.output:,} out, {tokens.cache.read:,} from cache",
        "cost": f"${session.cost:.4f}",
    }
    if session.fork is not None:
        boundary = session.fork.boundary
        facts["fork of"] = f"{session.fork.session_id}, {boundary.type} {boundary.message_id}"
    if session.time.archived is not None:
        facts["archived"] = moment(session.time.archived)
    if session.time.pinned is not None:
        facts["pinned"] = moment(session.time.pinned)
    for name, fact in facts.items():
        click.echo(f"{name:<10} {one_line(fact)}")
    for receipt in pending:
        click.echo(f"{'pending':<10} {brief(receipt.prompt.text)}")
    if messages:
        click.echo()
    for message in reversed(messages):
        click.echo(f"{moment(message.time.created)}  {_line(message)}")
    return 0


async def _waits(client: AsyncClient, session_id: str, as_json: bool) -> int:
    found = await client.sessions.waits(session_id)
    if as_json:
        print_json(found)
    elif found:
        rows = ((wait.kind, moment(wait.since), wait.what, wait.ends) for wait in found)
        print_table(("KIND", "SINCE", "WAITS FOR", "ENDS WHEN"), rows)
    else:
        click.echo(f"{session_id} does not wait for anything", err=True)
    return 0


def _line(message: SessionMessage) -> str:
    from holdfast.schema.session_message import AssistantMessage, TextPart, ToolPart

    kind = str(message.__struct_config__.tag)
    if not isinstance(message, AssistantMessage):
        said = getattr(message, "text", None) or getattr(message, "summary", "")
        return f"{kind:<10} {brief(said)}"
    texts = [part.text for part in message.content if isinstance(part, TextPart)]
    calls = [f"[{part.name}]" for part in message.content if isinstance(part, ToolPart)]
    failed = [f"[failed: {message.error.message}]"] if message.error else []
    return f"{kind:<10} {brief(' '.join((*texts, *calls, *failed)))}"
