"""`holdfast sessions undo`: takes back the last prompt of a session, with the changes of files that followed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.command_runner import fail
from holdfast.cli.output import brief, json_option, one_line, print_json
from holdfast.cli.session_choice import run_on_session, session_argument

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session_message import UserMessage

PAGE = 100


@click.command("undo", short_help="Take back the last prompt of a session, with its changes of files.")
@session_argument
@click.option("--keep-files", is_flag=True, help="Leave the files as they are.")
@json_option
def undo(session_id: str, keep_files: bool, as_json: bool) -> None:
    """Remove the last prompt of SESSION and everything after it from the conversation, and restore the files that its
    tools changed since.

    Files are restored in a git repository only. The events stay in the log. A session that is at work has to be
    interrupted before."""
    run_on_session(session_id, lambda client, id: _undo(client, id, keep_files=keep_files, as_json=as_json))


async def _undo(client: AsyncClient, session_id: str, *, keep_files: bool, as_json: bool) -> int:
    if session_id in await client.sessions.active():
        return fail(f"{session_id} is at work. `holdfast sessions interrupt {session_id}` stops it.")
    prompt = await _last_prompt(client, session_id)
    if prompt is None:
        return fail(f"{session_id} has nothing that could be taken back.")
    staged = await client.sessions.stage_revert(session_id, message_id=prompt.id, files=not keep_files, before=True)
    await client.sessions.commit_revert(session_id)
    if as_json:
        told = {"messageID": prompt.id, "text": prompt.text, "removed": True, "files": staged.files or ()}
        print_json(told)
        return 0
    click.echo(f"took back: {brief(prompt.text)}")
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


async def _last_prompt(client: AsyncClient, session_id: str) -> UserMessage | None:
    from holdfast.schema.session_message import UserMessage

    page = await client.sessions.messages(session_id, limit=PAGE)
    while page.items:
        for message in page.items:
            if isinstance(message, UserMessage):
                return message
        if page.next is None:
            break
        page = await client.sessions.messages(session_id, cursor=page.next)
    return None
