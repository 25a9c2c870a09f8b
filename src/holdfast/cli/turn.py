"""The course of `holdfast run`: find a runtime, admit the prompt, follow the Session until it is idle, say how it
ended."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Literal

from holdfast.cli.failure import FAILED, execute, fail
from holdfast.cli.run import Ask
from holdfast.cli.screen import JsonScreen, Screen, fields
from holdfast.cli.terminal import Terminal, present
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from holdfast.cli.answering import Answering
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.event import Event
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage

SILENCE_SECONDS = 5.0
"""After this long without an event, what it waits for is shown; then after twice as long, and so on."""
LONGEST_SILENCE_SECONDS = 60.0


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


def continue_session(session_id: str, *, yes: bool) -> int:
    """Go on after a turn that broke off, and show that like any other."""
    return execute(_continue(session_id, yes))


async def _run(ask: Ask) -> int:
    screen: Screen = JsonScreen() if ask.as_json else Screen(quiet=ask.quiet)
    async with AsyncExitStack() as stack:
        client, fallback = await _open(ask, screen, stack)
        session = await _session(client, ask, fallback)
        screen.opened(session)
        receipts: list[Admission] = []

        async def admit() -> None:
            receipts.append(await client.sessions.prompt(session.id, prompt=PromptInput(text=ask.text)))
            screen.admitted(receipts[0])

        await _follow(client, session.id, screen, admit, allow=ask.yes)
        return await _verdict(client, receipts[0], screen)


async def _follow(
    client: AsyncClient, session_id: str, screen: Screen, begin: Callable[[], Awaitable[None]], *, allow: bool
) -> None:
    """Begin, then show everything and answer what is asked, until the Session is idle."""
    from holdfast.cli.answering import Answering

    answering = Answering(client, session_id, screen, Terminal() if present() else None, allow=allow)
    async with aclosing(aiter(client.events.subscribe())) as live:
        await anext(live)  # connected: from here on nothing is missed
        await begin()
        try:
            async with asyncio.TaskGroup() as group:
                beside = [
                    group.create_task(answering.run()),
                    group.create_task(_while_silent(client, session_id, screen, answering)),
                ]
                await _watch(live, session_id, screen, answering)
                await client.sessions.wait(session_id)  # another process may be the one that executes it
                for task in beside:
                    task.cancel()
        except asyncio.CancelledError:
            screen.note("\ninterrupted")
            await client.sessions.interrupt(session_id)
            raise


async def _continue(session_id: str, yes: bool) -> int:
    screen = Screen(quiet=False)
    async with AsyncExitStack() as stack:
        client, _ = await _open(Ask(session_id=session_id, yes=yes), screen, stack)

        async def resume() -> None:
            await client.sessions.recover(session_id, decision="continue")

        await _follow(client, session_id, screen, resume, allow=yes)
        latest = (await client.sessions.messages(session_id, limit=1)).items
        if screen.error is not None:
            return fail(screen.error)
        return _ended([message for message in latest if isinstance(message, AssistantMessage)])


async def _watch(live: AsyncGenerator[Event, None], session_id: str, screen: Screen, answering: Answering) -> None:
    """Until the Session is idle."""
    try:
        async for event in live:
            data = fields(event)
            if data.get("sessionID") != session_id:
                continue
            screen.show(event, data)
            answering.note(event.type, data)
            if event.type == "session.status" and data["status"]["type"] == "idle":
                return
    except ClientError:
        screen.note("lost the live stream; waiting for the answer")


async def _while_silent(client: AsyncClient, session_id: str, screen: Screen, answering: Answering) -> None:
    """When nothing comes, say what it waits for, and look whether something was asked that we did not hear of."""
    pause = SILENCE_SECONDS
    while True:
        seen = screen.seen
        await asyncio.sleep(pause)
        if screen.seen != seen:
            pause = SILENCE_SECONDS
            continue
        pause = min(2 * pause, LONGEST_SILENCE_SECONDS)
        try:
            await answering.look()
            for wait in await client.sessions.waits(session_id):
                screen.note(f"… waiting for {wait.what}, until {wait.ends}")
        except (ApiError, ClientError) as error:
            screen.note(f"… waiting; the server does not say for what: {error}")


async def _open(ask: Ask, screen: Screen, stack: AsyncExitStack) -> tuple[AsyncClient, ModelRef | None]:
    """A client, and the model to use when nothing else was chosen."""
    if ask.attach is not None:
        from holdfast.client.connect import connect

        return await stack.enter_async_context(connect(ask.attach)), None
    from holdfast.cli.remote import find_server

    if not ask.standalone and (found := await find_server(stack)) is not None:
        screen.note(f"through {found.url}; --standalone uses no server")
        return found.client, None
    from holdfast.embedded.holdfast import Holdfast

    unattended: Literal["wait", "allow", "deny"] = "wait" if present() else "allow" if ask.yes else "deny"
    hosted = await stack.enter_async_context(Holdfast(ask.directory, unattended=unattended))
    fallback = None
    if ask.model is None and ask.session_id is None and await hosted.default_model() is None:
        fallback = ModelRef(id="echo", provider_id="demo")
        screen.note("no provider key and no configured model: using the offline demo/echo")
    return hosted, fallback


async def _session(client: AsyncClient, ask: Ask, fallback: ModelRef | None) -> Session:
    if ask.session_id is None:
        here = os.path.realpath(ask.directory or os.getcwd())
        model = _model(ask, fallback)
        return await client.sessions.create(agent=ask.agent, model=model, location=Location(directory=here))
    session = await client.sessions.get(ask.session_id)
    if ask.agent is not None:
        await client.sessions.switch_agent(session.id, agent=ask.agent)
    if (model := _model(ask, session.model)) is not None and model != session.model:
        await client.sessions.switch_model(session.id, model=model)
    return session


def _model(ask: Ask, otherwise: ModelRef | None) -> ModelRef | None:
    if ask.model is not None:
        provider, _, name = ask.model.partition("/")
        return ModelRef(id=name, provider_id=provider, variant=ask.variant)
    if ask.variant is not None and otherwise is not None:
        return ModelRef(id=otherwise.id, provider_id=otherwise.provider_id, variant=ask.variant)
    return otherwise


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
    return 0 if answer[-1].finish is not None else FAILED


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
