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
from holdfast.cli.screen import Screen
from holdfast.cli.session_budget import PAUSED, is_paused
from holdfast.cli.session_choice import newest_session, session_of
from holdfast.client.errors import ApiError
from holdfast.schema.deferred import deferred
from holdfast.schema.inbox import InboxUser
from holdfast.schema.prompt import FileInput, JsonFormat, PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.cli import json_screen, result, shell
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
else:
    json_screen = deferred("holdfast.cli.json_screen")
    result = deferred("holdfast.cli.result")
    shell = deferred("holdfast.cli.shell")

DENIED = 4
"""The exit code of a command of which a permission request was denied."""


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


def continue_session(session_id: str, *, yes: bool) -> int:
    """Continue a turn that was interrupted with its process, and show it like any other."""
    return execute(_continue(session_id, yes))


def abandon_session(session_id: str, *, yes: bool) -> int:
    """End a turn that was interrupted with its process, and show what is answered after that."""
    return execute(_abandon(session_id, yes))


def steer_input(session_id: str, input_id: str, *, yes: bool) -> int:
    """Let a queued input join at the next safe boundary, and show the turn."""
    return execute(_steer(session_id, input_id, yes))


async def _run(ask: Ask) -> int:
    screen = json_screen.JsonScreen() if ask.as_json else Screen(quiet=ask.quiet, structured=ask.schema is not None)
    attendance = Attendance.of_process(yes=ask.yes)
    async with AsyncExitStack() as stack:
        opened = await open_client(ask, attendance, screen, stack)
        client = opened.client
        found = await _session(client, ask)
        location = location_of(ask, found)
        for note in await opening_notes(opened, ask, location, attendance):
            screen.note(note)
        if ask.command is not None:
            ask = await known_command(client, ask, location)
        session = await open_session(opened, ask, found, location, screen)
        screen.opened(session)
        answering = Answering(client, session.id, screen, attendance)
        if ask.shell is not None:
            try:
                return await shell.run_shell(client, session.id, ask.shell, screen, answering)
            except ApiError as error:
                answering.note_failure(str(error))
                if not answering.denied:
                    raise
                return _denied(answering)
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
            if ask.as_json:
                done = await result.result_of(client, session.id, answer, replies=True, paused=str(paused))
                screen.ended(result.with_denied(done, answering.denied))
            return _paused(session.id, str(paused))
        if not ask.quiet and not ask.as_json and (left := await unfinished_note(client, session)) is not None:
            screen.note(left)
        own = opened.host is not None and screen.children.any
        if own and (stopping := await stopping_note(client, session)) is not None:
            screen.note(stopping)
        total = (await client.sessions.tree(session.id, limit=1)).nodes[0].total if screen.children.any else None
        if ask.as_json:
            done = await result.result_of(client, session.id, answer, replies=not ask.no_reply, total=total)
            screen.ended(result.with_denied(done, answering.denied))
        elif total is not None:
            screen.used(total)
        if not ask.no_reply:
            screen.closed(answer)
        return await _exit_code(client, session.id, screen, answering, None if ask.no_reply else answer)


async def _session(client: AsyncClient, ask: Ask) -> Session | None:
    """The Session that is continued, if one is."""
    if ask.session_id is not None:
        return await client.sessions.get(await session_of(client, ask.session_id, ask.directory))
    if ask.newest:
        return await client.sessions.get(await newest_session(client, ask.directory))
    return None


async def _admit(client: AsyncClient, session_id: str, ask: Ask) -> Admission:
    files = tuple(
        [FileInput(uri=Path(path).as_uri(), name=path) for path in ask.files]
        + [FileInput(uri=address) for address in ask.resources]
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
        client = (await open_client(Ask(yes=yes), attendance, screen, stack)).client
        session_id = await session_of(client, session_id)
        if await _nothing_to_continue(client, session_id) and not await _left_below(client, session_id):
            return fail(f"The last turn of {session_id} is complete; there is nothing to continue.")
        answer, answering = Answer(), Answering(client, session_id, screen, attendance)
        follower = Follower(client, session_id, screen, answering, answer)
        await follower.follow(lambda: client.sessions.recover(session_id, decision="continue"))
        screen.closed(answer)
        return await _exit_code(client, session_id, screen, answering, answer)


async def _abandon(session_id: str, yes: bool) -> int:
    """What is pending follows, and is answered before the command ends."""
    async with AsyncExitStack() as stack:
        screen, attendance = Screen(quiet=False), Attendance.of_process(yes=yes)
        client = (await open_client(Ask(yes=yes), attendance, screen, stack)).client
        session_id = await session_of(client, session_id)
        pending = await client.sessions.pending(session_id)
        answer, answering = Answer(), Answering(client, session_id, screen, attendance)
        follower = Follower(client, session_id, screen, answering, answer)
        await follower.follow(lambda: client.sessions.recover(session_id, decision="abandon"))
        if not pending:
            return 0
        screen.closed(answer)
        return await _exit_code(client, session_id, screen, answering, answer)


async def _steer(session_id: str, input_id: str, yes: bool) -> int:
    async with AsyncExitStack() as stack:
        screen, attendance = Screen(quiet=False), Attendance.of_process(yes=yes)
        client = (await open_client(Ask(yes=yes), attendance, screen, stack)).client
        session_id = await session_of(client, session_id)
        replies = not await _asks_nothing(client, session_id, input_id)
        answer, answering = Answer(), Answering(client, session_id, screen, attendance)
        answer.expect(input_id)
        follower = Follower(client, session_id, screen, answering, answer)
        await follower.follow(lambda: client.sessions.steer_input(session_id, inbox_id=input_id))
        if replies:
            screen.closed(answer)
        return await _exit_code(client, session_id, screen, answering, answer if replies else None)


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


def _denied(answering: Answering) -> int:
    first, *others = answering.denied
    fail(f"{first} (and {len(others)} more)" if others else first)
    return DENIED


async def _exit_code(
    client: AsyncClient, session_id: str, screen: Screen, answering: Answering, answer: Answer | None
) -> int:
    """`answer` is None if none was asked for. A denial is told even by a quiet run; an error that has another reason
    comes before it."""
    problem = screen.error or (answer.problem if answer is not None else None)
    if answering.denied:
        code = _denied(answering)
        if problem is None or (screen.error is None and answer is not None and not answer.failed):
            return code
    if problem is None:
        return 0
    if screen.error is None and (paused := await is_paused(client, session_id)) is not None:
        return _paused(session_id, paused)
    return fail(problem)
