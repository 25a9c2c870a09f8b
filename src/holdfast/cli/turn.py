"""The course of `holdfast run`: find a runtime, admit the prompt, follow the Session until it is idle, say how it
ended."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from holdfast.cli.answering import Answering
from holdfast.cli.failure import execute, fail
from holdfast.cli.run import Ask
from holdfast.cli.screen import JsonScreen, Screen, fields
from holdfast.cli.terminal import Terminal, present
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from holdfast.cli.host import Host
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
        opened = await _open(ask, screen, stack)
        client = opened.client
        if ask.command is not None:
            ask = await _named(client, ask, ask.command)
        session = await _session(opened, ask, screen)
        screen.opened(session)
        answering = Answering(client, session.id, screen, Terminal() if present() else None, allow=ask.yes)
        prompt = PromptInput(text=ask.text)
        if ask.command is not None and opened.host is not None:
            prompt = await _expanded(opened.host, session, ask, ask.command, answering)
        receipts: list[Admission] = []

        async def admit() -> None:
            receipts.append(await client.sessions.prompt(session.id, prompt=prompt))
            screen.admitted(receipts[0])

        await _follow(client, session.id, screen, answering, admit)
        return await _verdict(client, receipts[0], screen)


async def _named(client: AsyncClient, ask: Ask, name: str) -> Ask:
    """With the agent and the model that the command wants, unless others were asked for."""
    here = Location(directory=_directory(ask))
    commands = {command.name: command for command in (await client.commands.list(location=here)).data}
    if name not in commands:
        raise click.BadParameter(f"no command is called {name}; see `holdfast commands`", param_hint="--command")
    found = commands[name]
    if found.model is not None and ask.model is None:
        model = f"{found.model.provider_id}/{found.model.id}"
        ask = ask._replace(model=model, variant=ask.variant or found.model.variant)
    return ask._replace(agent=ask.agent or found.agent)


async def _expanded(host: Host, session: Session, ask: Ask, command: str, answering: Answering) -> PromptInput:
    """The command's prompt; what its template wants to run may have to be asked for."""
    expanded: list[PromptInput] = []

    async def expand() -> None:
        expanded.append(await host.expand(session, ask.agent, command, ask.text))

    async with aclosing(aiter(host.events.subscribe())) as live:
        await anext(live)
        await _first_of(expand(), answering.run(), answering.listen(live))
    return expanded[0]


async def _follow(
    client: AsyncClient, session_id: str, screen: Screen, answering: Answering, begin: Callable[[], Awaitable[None]]
) -> None:
    """Begin, then show everything and answer what is asked, until the Session is idle."""
    async with aclosing(aiter(client.events.subscribe())) as live:
        await anext(live)  # connected: from here on nothing is missed
        await begin()
        try:
            await _first_of(
                _watch(client, live, session_id, screen, answering),
                answering.run(),
                _while_silent(client, session_id, screen, answering),
            )
        except asyncio.CancelledError:
            screen.note("\ninterrupted")
            await client.sessions.interrupt(session_id)
            raise


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends or fails; then the others end too."""
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _continue(session_id: str, yes: bool) -> int:
    screen = Screen(quiet=False)
    async with AsyncExitStack() as stack:
        client = (await _open(Ask(session_id=session_id, yes=yes), screen, stack)).client

        async def resume() -> None:
            await client.sessions.recover(session_id, decision="continue")

        answering = Answering(client, session_id, screen, Terminal() if present() else None, allow=yes)
        await _follow(client, session_id, screen, answering, resume)
        latest = (await client.sessions.messages(session_id, limit=1)).items
        if screen.error is not None:
            return fail(screen.error)
        return _ended([message for message in latest if isinstance(message, AssistantMessage)])


async def _watch(
    client: AsyncClient, live: AsyncGenerator[Event, None], session_id: str, screen: Screen, answering: Answering
) -> None:
    """Until the Session is idle."""
    try:
        async for event in live:
            data = fields(event)
            if data.get("sessionID") != session_id:
                continue
            screen.show(event, data)
            answering.note(event.type, data)
            if event.type == "session.status" and data["status"]["type"] == "idle":
                break
    except ClientError:
        screen.note("lost the live stream; waiting for the answer")
    await client.sessions.wait(session_id)  # another process may be the one that executes it


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


class Opened(NamedTuple):
    client: AsyncClient
    host: Host | None
    """The same, if it is this process."""


async def _open(ask: Ask, screen: Screen, stack: AsyncExitStack) -> Opened:
    if ask.attach is not None:
        from holdfast.client.connect import connect

        return Opened(await stack.enter_async_context(connect(ask.attach)), None)
    from holdfast.cli.remote import find_server

    if not ask.standalone and (found := await find_server(stack)) is not None:
        screen.note(f"through {found.url}; --standalone uses no server")
        return Opened(found.client, None)
    from holdfast.cli.host import Host

    unattended: Literal["wait", "allow", "deny"] = "wait" if present() else "allow" if ask.yes else "deny"
    host = await stack.enter_async_context(Host(ask.directory, unattended=unattended))
    return Opened(host, host)


async def _fallback(opened: Opened, location: Location, screen: Screen) -> ModelRef | None:
    """The offline model, where there is no other."""
    if opened.host is not None:
        usable = await opened.host.default_model() is not None
    else:
        usable = bool((await opened.client.models.list(location=location)).data)
    if usable:
        return None
    screen.note("no provider key and no configured model: using the offline demo/echo")
    return ModelRef(id="echo", provider_id="demo")


async def _session(opened: Opened, ask: Ask, screen: Screen) -> Session:
    client = opened.client
    if ask.session_id is None:
        location = Location(directory=_directory(ask))
        model = _model(ask) or await _fallback(opened, location, screen)
        return await client.sessions.create(agent=ask.agent, model=model, location=location)
    session = await client.sessions.get(ask.session_id)
    if ask.agent is not None:
        await client.sessions.switch_agent(session.id, agent=ask.agent)
    if (model := _model(ask, session.model)) is not None:
        await client.sessions.switch_model(session.id, model=model)
    return session


def _directory(ask: Ask) -> str:
    return os.path.realpath(ask.directory or os.getcwd())


def _model(ask: Ask, current: ModelRef | None = None) -> ModelRef | None:
    """What was asked for, if anything; a variant alone is one of the current model."""
    if ask.model is not None:
        provider, _, name = ask.model.partition("/")
        return ModelRef(id=name, provider_id=provider, variant=ask.variant)
    if ask.variant is None:
        return None
    if current is None:
        raise click.UsageError("--variant needs --model here: no model is selected yet")
    return ModelRef(id=current.id, provider_id=current.provider_id, variant=ask.variant)


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
    if answer[-1].finish in (None, "tool-calls"):
        return fail("it stopped before the answer was complete; continue with --session")
    return 0


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
