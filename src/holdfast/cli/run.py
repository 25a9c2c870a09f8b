"""`holdfast run`: one prompt, its answer on standard output as it comes."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.failure import FAILED, execute, fail
from holdfast.client.errors import ClientError
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session_message import AssistantMessage, TextPart

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.event import Event
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage


class Ask(NamedTuple):
    text: str
    session_id: str | None
    model: str | None
    directory: str | None
    attach: str | None
    quiet: bool
    as_json: bool


def run_prompt(ask: Ask) -> int:
    return execute(_run(ask))


async def _run(ask: Ask) -> int:
    async with AsyncExitStack() as stack:
        client, fallback = await _open(ask, stack)
        session = await _session(client, ask, fallback)
        screen: Screen = JsonScreen() if ask.as_json else Screen(quiet=ask.quiet)
        screen.opened(session)
        live = await stack.enter_async_context(aclosing(aiter(client.events.subscribe())))
        await anext(live)  # connected: from here on nothing is missed
        receipt = await client.sessions.prompt(session.id, prompt=PromptInput(text=ask.text))
        screen.admitted(receipt)
        try:
            await _watch(live, session.id, screen)
            await client.sessions.wait(session.id)  # another process may be the one that executes it
        except asyncio.CancelledError:
            screen.note("\ninterrupted")
            await client.sessions.interrupt(session.id)
            raise
        return await _verdict(client, receipt, screen)


async def _watch(live: AsyncGenerator[Event, None], session_id: str, screen: Screen) -> None:
    try:
        async for event in live:
            if screen.show(session_id, event):
                return
    except ClientError:
        screen.note("lost the live stream; waiting for the answer")


async def _open(ask: Ask, stack: AsyncExitStack) -> tuple[AsyncClient, ModelRef | None]:
    """A client, and the model to use when nothing else was chosen."""
    if ask.attach is not None:
        from holdfast.cli.remote import connect

        return await connect(ask.attach, stack), None
    from holdfast.embedded.holdfast import Holdfast

    hosted = await stack.enter_async_context(Holdfast(ask.directory))
    fallback = None
    if ask.model is None and ask.session_id is None and await hosted.default_model() is None:
        fallback = ModelRef(id="echo", provider_id="demo")
        if not ask.quiet:
            click.echo("no provider key and no configured model: using the offline demo/echo", err=True)
    return hosted, fallback


async def _session(client: AsyncClient, ask: Ask, fallback: ModelRef | None) -> Session:
    if ask.session_id is not None:
        return await client.sessions.get(ask.session_id)
    model = fallback
    if ask.model is not None:
        provider, _, name = ask.model.partition("/")
        model = ModelRef(id=name, provider_id=provider)
    here = os.path.realpath(ask.directory or os.getcwd())
    return await client.sessions.create(model=model, location=Location(directory=here))


async def _verdict(client: AsyncClient, receipt: Admission, screen: Screen) -> int:
    """Show what of the answer was not seen live, and say how it ended."""
    answer = await _answer(client, receipt)
    for message in answer:
        screen.complete(message)
    if screen.error is not None:
        return fail(screen.error)
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


class Screen:
    """Turns a Session's events into text. Deltas are shown as they come; the end of a block shows what was missed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown: dict[tuple[str, str], int] = {}
        self._models: set[str] = set()
        self._mid_line = False
        self.error: str | None = None

    def opened(self, session: Session) -> None:
        self.note(f"session {session.id}")

    def admitted(self, receipt: Admission) -> None:
        pass

    def note(self, text: str) -> None:
        if not self._quiet:
            self._finish_line()
            click.echo(text, err=True)

    def show(self, session_id: str, event: Event) -> bool:
        """True once the Session has become idle."""
        data = _fields(event)
        if data.get("sessionID") != session_id:
            return False
        match event.type.removeprefix("session.next."):
            case "step.started":
                self._name_model(data["model"])
            case "text.delta":
                self._write(data, data["delta"])
            case "text.ended":
                key = (data["assistantMessageID"], data["textID"])
                self._write(data, data["text"][self._shown.get(key, 0) :])
                self._finish_line()
            case "tool.called":
                self.note(f"> {data['tool']} {_brief(data['input'])}")
            case "tool.failed":
                self.note(f"! {data['error']['message']}")
            case "session.error":
                self.error = data["error"]["data"]["message"]
            case "session.status":
                return bool(data["status"]["type"] == "idle")
            case _:
                pass
        return False

    def complete(self, message: AssistantMessage) -> None:
        """Whatever of a message was not shown while it came."""
        for part in message.content:
            if isinstance(part, TextPart):
                key = {"assistantMessageID": message.id, "textID": part.id}
                self._write(key, part.text[self._shown.get((message.id, part.id), 0) :])
                self._finish_line()

    def _name_model(self, model: dict[str, str]) -> None:
        name = f"{model['providerID']}/{model['id']}"
        if name not in self._models:
            self._models.add(name)
            self.note(f"model {name}")

    def _write(self, data: dict[str, Any], text: str) -> None:
        if not text:
            return
        key = (data["assistantMessageID"], data["textID"])
        self._shown[key] = self._shown.get(key, 0) + len(text)
        sys.stdout.write(text)
        sys.stdout.flush()
        self._mid_line = not text.endswith("\n")

    def _finish_line(self) -> None:
        if self._mid_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._mid_line = False


class JsonScreen(Screen):
    """For programs: everything, one document a line, each written as soon as it is known."""

    def __init__(self) -> None:
        super().__init__(quiet=True)

    def opened(self, session: Session) -> None:
        self._line("session", session)

    def complete(self, message: AssistantMessage) -> None:
        pass

    def admitted(self, receipt: Admission) -> None:
        self._line("admission", receipt)

    def show(self, session_id: str, event: Event) -> bool:
        data = _fields(event)
        if data.get("sessionID") != session_id:
            return False
        self._line("event", event)
        if event.type == "session.error":
            self.error = data["error"]["data"]["message"]
        return event.type == "session.status" and data["status"]["type"] == "idle"

    def _line(self, kind: str, value: object) -> None:
        sys.stdout.write(encode({"type": kind, kind: value}).decode() + "\n")
        sys.stdout.flush()


def _fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = decode_any(event.data)
    return fields


def _brief(given: dict[str, Any]) -> str:
    text = " ".join(str(value) for value in given.values())
    return text if len(text) <= 100 else text[:97] + "..."
