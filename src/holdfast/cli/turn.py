"""Runs a prompt: opens a runtime, admits the prompt, follows the Session, and returns the exit code."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from holdfast.cli.answer import Answer
from holdfast.cli.answering import Answering
from holdfast.cli.attendance import Attendance
from holdfast.cli.calls import known_command
from holdfast.cli.command_runner import execute, fail
from holdfast.cli.following import Follower, Paused
from holdfast.cli.notes import opening_notes, stopping_note, unfinished_note
from holdfast.cli.opening import location_of, open_client, open_session
from holdfast.cli.run import Ask
from holdfast.cli.screen import JsonScreen, Screen
from holdfast.cli.session_budget import PAUSED, is_paused
from holdfast.schema.deferred import deferred
from holdfast.schema.inbox import InboxUser
from holdfast.schema.prompt import FileInput, JsonFormat, PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.cli import result, shell
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.prompt import Admission
else:
    result = deferred("holdfast.cli.result")
    shell = deferred("holdfast.cli.shell")


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


def continue_session(session_id: str, *, yes: bool) -> int:
    """Continue a turn that was interrupted with its process, and show it like any other."""
    return execute(_continue(session_id, yes))


def steer_input(session_id: str, input_id: str, *, yes: bool) -> int:
    """Let a queued input join at the next safe boundary, and show the turn."""
    return execute(_steer(session_id, input_id, yes))


async def _run(ask: Ask) -> int:
    screen: Screen = JsonScreen() if ask.as_json else Screen(quiet=ask.quiet, structured=ask.schema is not None)
    attendance = Attendance.of_process(yes=ask.yes)
    async with AsyncExitStack() as stack:
        opened = await open_client(ask, attendance, screen, stack)
        client = opened.client
        found = await client.sessions.get(ask.session_id) if ask.session_id is not None else None
        location = location_of(ask, found)
        for note in await opening_notes(opened, ask, location, attendance):
            screen.note(note)
        if ask.command is not None:
            ask = await known_command(client, ask, location)
        session = await open_session(opened, ask, found, location, screen)
        screen.opened(session)
        answering = Answering(client, session.id, screen, attendance)
        if ask.shell is not None:
            return await shell.run_shell(client, session.id, ask.shell, screen, answering)
        answer = Answer()
        follower = Follower(client, session.id, screen, answering, answer)

        async def admit() -> None:
            receipt = await _admit(client, session.id, ask)
            screen.admitted(receipt)
            _note_choices(screen, ask, receipt)
            answer.expect(receipt.id)
            follower.position = receipt.admitted_seq - 1

        try:
            await follower.follow(admit)
        except Paused as paused:
            if isinstance(screen, JsonScreen):
                screen.ended(await result.result_of(client, session.id, answer, replies=True, paused=str(paused)))
            return _paused(session.id, str(paused))
        if not ask.quiet and not ask.as_json and (left := await unfinished_note(client, session)) is not None:
            screen.note(left)
        own = opened.host is not None and screen.children.any
        if own and (stopping := await stopping_note(client, session)) is not None:
            screen.note(stopping)
        total = (await client.sessions.tree(session.id, limit=1)).nodes[0].total if screen.children.any else None
        if isinstance(screen, JsonScreen):
            screen.ended(await result.result_of(client, session.id, answer, replies=not ask.no_reply, total=total))
        elif total is not None:
            screen.used(total)
        return await _exit_code(client, session.id, screen, None if ask.no_reply else answer)


async def _admit(client: AsyncClient, session_id: str, ask: Ask) -> Admission:
    files = tuple(
        [FileInput(uri=Path(path).as_uri(), name=path) for path in ask.files]
        + [FileInput(uri=content.uri, name=content.name) for content in ask.attached]
    )
    if ask.command is not None:
        resolve = None if ask.mentions else False
        return await client.sessions.command(
            session_id, command=ask.command, arguments=ask.text, files=files or None, resolve=resolve
        )
    prompt = PromptInput(
        text=ask.text,
        files=files or UNSET,
        system=UNSET if ask.system is None else ask.system,
        format=UNSET if ask.schema is None else JsonFormat(schema=ask.schema),
        no_reply=ask.no_reply or UNSET,
    )
    return await client.sessions.prompt(session_id, prompt=prompt, resolve=ask.mentions)


def _note_choices(screen: Screen, ask: Ask, receipt: Admission) -> None:
    """Say so where the command's own agent or model comes before that of an option."""
    options = receipt.prompt.options
    if options is None or ask.command is None:
        return
    if ask.agent is not None and options.agent is not None and options.agent != ask.agent:
        screen.note(f"the command {ask.command} sets the agent {options.agent}; --agent applies after it")
    if ask.model is not None and options.model is not None:
        name = f"{options.model.provider_id}/{options.model.id}"
        if name != ask.model:
            screen.note(f"the command {ask.command} sets the model {name}; --model applies after it")


async def _continue(session_id: str, yes: bool) -> int:
    async with AsyncExitStack() as stack:
        screen, attendance = Screen(quiet=False), Attendance.of_process(yes=yes)
        client = (await open_client(Ask(session_id=session_id, yes=yes), attendance, screen, stack)).client
        if await _nothing_to_continue(client, session_id) and not await _left_below(client, session_id):
            return fail(f"The last turn of {session_id} is complete; there is nothing to continue.")
        answer = Answer()
        follower = Follower(client, session_id, screen, Answering(client, session_id, screen, attendance), answer)
        await follower.follow(lambda: client.sessions.recover(session_id, decision="continue"))
        return await _exit_code(client, session_id, screen, answer)


async def _steer(session_id: str, input_id: str, yes: bool) -> int:
    async with AsyncExitStack() as stack:
        screen, attendance = Screen(quiet=False), Attendance.of_process(yes=yes)
        client = (await open_client(Ask(session_id=session_id, yes=yes), attendance, screen, stack)).client
        replies = not await _asks_nothing(client, session_id, input_id)
        answer = Answer()
        answer.expect(input_id)
        follower = Follower(client, session_id, screen, Answering(client, session_id, screen, attendance), answer)
        await follower.follow(lambda: client.sessions.steer_input(session_id, inbox_id=input_id))
        return await _exit_code(client, session_id, screen, answer if replies else None)


async def _asks_nothing(client: AsyncClient, session_id: str, input_id: str) -> bool:
    """Whether a pending input is a prompt that asks for no answer."""
    found = next((item for item in await client.sessions.inbox(session_id) if item.id == input_id), None)
    options = found.payload.options if isinstance(found, InboxUser) else None
    return options is not None and options.no_reply is True


async def _left_below(client: AsyncClient, session_id: str) -> bool:
    """Whether a subagent was left without a process."""
    if len(nodes := (await client.sessions.tree(session_id)).nodes) < 2:
        return False
    left = {activity.session_id for activity in await client.sessions.interrupted()}
    return any(node.id in left for node in nodes)


async def _nothing_to_continue(client: AsyncClient, session_id: str) -> bool:
    """Whether the newest message is a complete answer and no input is pending."""
    newest = (await client.sessions.messages(session_id, limit=1)).items
    complete = any(
        isinstance(message, AssistantMessage) and message.error is None and message.finish not in (None, "tool-calls")
        for message in newest
    )
    return complete and not await client.sessions.pending(session_id)


def _paused(session_id: str, why: str) -> int:
    fail(f"{session_id} is paused, {why}. `holdfast sessions budget {session_id}` shows and raises the budget.")
    return PAUSED


async def _exit_code(client: AsyncClient, session_id: str, screen: Screen, answer: Answer | None) -> int:
    """`answer` is None if none was asked for."""
    problem = screen.error or (answer.problem if answer is not None else None)
    if problem is None:
        return 0
    if screen.error is None and (paused := await is_paused(client, session_id)) is not None:
        return _paused(session_id, paused)
    return fail(problem)
