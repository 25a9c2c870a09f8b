"""`holdfast run`: one prompt, its answer on standard output as it comes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.failure import FAILED, execute, fail
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput

if TYPE_CHECKING:
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.event import Event
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session


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
        live = await stack.enter_async_context(aclosing(client.events.subscribe()))  # type: ignore[type-var]
        await anext(live)  # connected: from here on nothing is missed
        screen.admitted(await client.sessions.prompt(session.id, prompt=PromptInput(text=ask.text)))
        try:
            async for event in live:
                if screen.show(session.id, event):
                    break
        except asyncio.CancelledError:
            screen.note("\ninterrupted")
            await client.sessions.interrupt(session.id)
            raise
        return await _verdict(client, session, screen)


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
        if not name:
            raise click.BadParameter("expected PROVIDER/MODEL, as in demo/echo", param_hint="--model")
        model = ModelRef(id=name, provider_id=provider)
    return await client.sessions.create(model=model)


async def _verdict(client: AsyncClient, session: Session, screen: Screen) -> int:
    if screen.error is not None:
        return fail(screen.error)
    page = await client.sessions.messages(session.id, limit=1)
    last: Any = page.items[0] if page.items else None
    if getattr(last, "error", None) is not None:
        return fail(last.error.message)
    return 0 if getattr(last, "finish", None) is not None else FAILED


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
