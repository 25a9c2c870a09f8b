"""The course of `holdfast run`: find a runtime, admit the prompt, follow the Session, say how it ended."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from holdfast.cli.answering import Answering
from holdfast.cli.command_runner import execute, fail
from holdfast.cli.following import as_long_as_it_answers, first_of, follow
from holdfast.cli.opening import open_client, open_session, place, with_command
from holdfast.cli.run import Ask
from holdfast.cli.screen import JsonScreen, Screen
from holdfast.cli.terminal import Terminal, present
from holdfast.cli.trust import configuration_notes
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.cli.host import Host
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


def continue_session(session_id: str, *, yes: bool) -> int:
    """Go on after a turn that broke off, and show that like any other."""
    return execute(_continue(session_id, yes))


async def _run(ask: Ask) -> int:
    screen: Screen = JsonScreen() if ask.as_json else Screen(quiet=ask.quiet)
    async with AsyncExitStack() as stack:
        opened = await open_client(ask, screen, stack)
        client = opened.client
        person = Terminal() if present() else None
        for note in await configuration_notes(client, await place(client, ask), None if ask.attach else person):
            screen.note(note)
        if ask.command is not None:
            ask = await with_command(client, ask, ask.command)
        session = await open_session(opened, ask, screen)
        screen.opened(session)
        answering = Answering(client, session.id, screen, person, allow=ask.yes)
        prompt = PromptInput(text=ask.text)
        if ask.command is not None and opened.host is not None:
            prompt = await _expanded(opened.host, session, ask, ask.command, answering)
        receipts: list[Admission] = []

        async def admit() -> None:
            receipts.append(await client.sessions.prompt(session.id, prompt=prompt))
            screen.admitted(receipts[0])

        with as_long_as_it_answers():
            await follow(client, session.id, screen, answering, admit)
            return await _verdict(client, receipts[0], screen)


async def _expanded(host: Host, session: Session, ask: Ask, command: str, answering: Answering) -> PromptInput:
    """The command's prompt; what its template wants to run may have to be asked for."""
    expanded: list[PromptInput] = []

    async def expand() -> None:
        expanded.append(await host.expand(session, ask.agent, command, ask.text))

    async with aclosing(aiter(host.events.subscribe())) as live:
        await anext(live)
        await first_of(expand(), answering.run(), answering.listen(live))
    return expanded[0]


async def _continue(session_id: str, yes: bool) -> int:
    screen = Screen(quiet=False)
    async with AsyncExitStack() as stack:
        client = (await open_client(Ask(session_id=session_id, yes=yes), screen, stack)).client
        before = await _latest(client, session_id)
        if before and _complete(before[-1]) and not await client.sessions.pending(session_id):
            return fail("it is answered to the end; nothing of it broke off")

        async def resume() -> None:
            await client.sessions.recover(session_id, decision="continue")

        answering = Answering(client, session_id, screen, Terminal() if present() else None, allow=yes)
        with as_long_as_it_answers():
            await follow(client, session_id, screen, answering, resume)
            if screen.error is not None:
                return fail(screen.error)
            return _ended(await _latest(client, session_id))


async def _latest(client: AsyncClient, session_id: str) -> list[AssistantMessage]:
    """The newest message, if it is one of the assistant."""
    newest = (await client.sessions.messages(session_id, limit=1)).items
    return [message for message in newest if isinstance(message, AssistantMessage)]


async def _verdict(client: AsyncClient, receipt: Admission, screen: Screen) -> int:
    """Show what of the answer was not seen live, and say how it ended."""
    answer = await _answer(client, receipt)
    for message in answer:
        screen.complete(message)
    if screen.error is not None:
        return fail(screen.error)
    return _ended(answer)


def _ended(answer: list[AssistantMessage]) -> int:
    if not answer:
        return fail("the prompt was kept, but not answered; continue with --session")
    if (error := answer[-1].error) is not None:
        return fail(error.message)
    if not _complete(answer[-1]):
        return fail("it stopped before the answer was complete; continue with --session")
    return 0


def _complete(message: AssistantMessage) -> bool:
    return message.error is None and message.finish not in (None, "tool-calls")


async def _answer(client: AsyncClient, receipt: Admission) -> list[AssistantMessage]:
    """The assistant messages from our prompt up to the one that ended its turns; later ones are for others."""
    newer: list[SessionMessage] = []
    page = await client.sessions.messages(receipt.session_id, limit=100)
    while page.items:
        newer += page.items
        if any(message.id == receipt.id for message in page.items) or page.next is None:
            break
        page = await client.sessions.messages(receipt.session_id, cursor=page.next)
    answer: list[AssistantMessage] = []
    ours = False
    for message in reversed(newer):
        ours = ours or message.id == receipt.id
        if ours and isinstance(message, AssistantMessage):
            answer.append(message)
            if message.finish != "tool-calls":
                break
    return answer
