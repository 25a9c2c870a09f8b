"""Runs a prompt: opens a runtime, admits the prompt, follows the Session, and returns the exit code."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from holdfast.cli.answer import Answer
from holdfast.cli.answering import Answering
from holdfast.cli.attendance import Attendance
from holdfast.cli.calls import known_command
from holdfast.cli.command_runner import execute, fail
from holdfast.cli.following import Follower
from holdfast.cli.notes import opening_notes
from holdfast.cli.opening import location_of, open_client, open_session
from holdfast.cli.run import Ask
from holdfast.cli.screen import JsonScreen, Screen
from holdfast.cli.shell import run_shell
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.prompt import Admission


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


def continue_session(session_id: str, *, yes: bool) -> int:
    """Continue a turn that was interrupted with its process, and show it like any other."""
    return execute(_continue(session_id, yes))


async def _run(ask: Ask) -> int:
    screen: Screen = JsonScreen() if ask.as_json else Screen(quiet=ask.quiet)
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
            return await run_shell(client, session.id, ask.shell, screen, answering)
        answer = Answer()
        follower = Follower(client, session.id, screen, answering, answer)

        async def admit() -> None:
            receipt = await _admit(client, session.id, ask)
            screen.admitted(receipt)
            _note_choices(screen, ask, receipt)
            answer.expect(receipt.id)
            follower.position = receipt.admitted_seq - 1

        await follower.follow(admit)
        return _exit_code(screen, answer)


async def _admit(client: AsyncClient, session_id: str, ask: Ask) -> Admission:
    if ask.command is not None:
        return await client.sessions.command(session_id, command=ask.command, arguments=ask.text)
    return await client.sessions.prompt(session_id, prompt=PromptInput(text=ask.text))


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
    screen = Screen(quiet=False)
    attendance = Attendance.of_process(yes=yes)
    async with AsyncExitStack() as stack:
        client = (await open_client(Ask(session_id=session_id, yes=yes), attendance, screen, stack)).client
        if await _nothing_to_continue(client, session_id):
            return fail(f"The last turn of {session_id} is complete; there is nothing to continue.")

        async def resume() -> None:
            await client.sessions.recover(session_id, decision="continue")

        answer = Answer()
        answering = Answering(client, session_id, screen, attendance)
        await Follower(client, session_id, screen, answering, answer).follow(resume)
        return _exit_code(screen, answer)


async def _nothing_to_continue(client: AsyncClient, session_id: str) -> bool:
    """Whether the newest message is a complete answer and no input is pending."""
    newest = (await client.sessions.messages(session_id, limit=1)).items
    complete = any(
        isinstance(message, AssistantMessage) and message.error is None and message.finish not in (None, "tool-calls")
        for message in newest
    )
    return complete and not await client.sessions.pending(session_id)


def _exit_code(screen: Screen, answer: Answer) -> int:
    problem = screen.error or answer.problem
    return 0 if problem is None else fail(problem)
