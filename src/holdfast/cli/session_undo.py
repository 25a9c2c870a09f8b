"""`holdfast sessions undo`: takes back the last prompt of a session, with the changes of files that followed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast.cli.command_runner import fail
from holdfast.cli.output import brief, json_option, one_line, print_json
from holdfast.cli.session_choice import run_on_session, session_argument

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session_message import UserMessage

PAGE = 100
FIRST_STAYS = " (the first prompt of a session stays in it, without an answer)"


@click.command("undo", short_help="Take back the last prompt of a session, with its changes of files.")
@session_argument
@click.option("--keep-files", is_flag=True, help="Leave the files as they are.")
@json_option
def undo(session_id: str, keep_files: bool, as_json: bool) -> None:
    """Remove the last prompt of SESSION and everything after it from the conversation, and restore the files that its
    tools changed since. The first prompt itself stays; what follows it is removed.

    Files are restored in a git repository only. The events stay in the log. A session that is at work has to be
    interrupted before."""
    run_on_session(session_id, lambda client, id: _undo(client, id, keep_files=keep_files, as_json=as_json))


async def _undo(client: AsyncClient, session_id: str, *, keep_files: bool, as_json: bool) -> int:
    if session_id in await client.sessions.active():
        return fail(f"{session_id} is at work. `holdfast sessions interrupt {session_id}` stops it.")
    found = await _last_prompt(client, session_id)
    if found is None:
        return fail(f"{session_id} has nothing that could be taken back.")
    staged = await client.sessions.stage_revert(session_id, message_id=found.boundary, files=not keep_files)
    await client.sessions.commit_revert(session_id)
    prompt = found.prompt
    if as_json:
        told = {"messageID": prompt.id, "text": prompt.text, "removed": found.removed, "files": staged.files or ()}
        print_json(told)
        return 0
    click.echo(f"took back: {brief(prompt.text)}" + ("" if found.removed else FIRST_STAYS))
    for file in staged.files or ():
        done = "removed" if file.status == "deleted" else "restored"
        click.echo(f"  {done:<8} {one_line(file.path)}  +{file.additions} -{file.deletions}")
    if keep_files:
        click.echo("  files were left as they are")
    elif staged.snapshot is None:
        click.echo("  files were left as they are: only in a git repository their former state is known")
    elif not staged.files:
        click.echo("  no file had changed")
    return 0


class LastPrompt(NamedTuple):
    prompt: UserMessage
    boundary: str
    """The message after which everything leaves: the one before the prompt, or the prompt if it is the first."""
    removed: bool
    """Whether the prompt leaves too."""


async def _last_prompt(client: AsyncClient, session_id: str) -> LastPrompt | None:
    """None if there is no prompt, or if it is the first message and nothing follows it."""
    from holdfast.schema.session_message import UserMessage

    prompt: UserMessage | None = None
    newest: str | None = None
    page = await client.sessions.messages(session_id, limit=PAGE)
    while page.items:
        newest = newest or page.items[0].id
        for message in page.items:
            if prompt is not None:
                return LastPrompt(prompt, message.id, removed=True)
            if isinstance(message, UserMessage):
                prompt = message
        if page.next is None:
            break
        page = await client.sessions.messages(session_id, cursor=page.next)
    return LastPrompt(prompt, prompt.id, removed=False) if prompt is not None and prompt.id != newest else None
