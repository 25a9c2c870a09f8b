"""What the terminal asks of the server: opens Sessions, sends prompts, answers requests, keeps the screen up to date.

Invariants
- At most one Session is shown; its feed ends before another one is opened.
- Prompts are sent one after the other, in the order in which they were written.
- What could not be sent comes back into the composer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.new_ids import new_message_id, new_session_id
from holdfast.schema.location import Location
from holdfast.text.visible_text import brief
from holdfast.tui.answering import send_decision
from holdfast.tui.commands import BUILT_IN, Commands, read_call
from holdfast.tui.connection import ServerConnection
from holdfast.tui.conversation import Conversation
from holdfast.tui.conversation_control import ConversationControl
from holdfast.tui.feed import Feed
from holdfast.tui.requests_panel import GUARD_SECONDS, RequestsPanel
from holdfast.tui.screen import Pending
from holdfast.tui.sending import attachments, until_received
from holdfast.tui.session_choice import NO_MODEL, first_session, offline_model
from holdfast.tui.status_view import Usage, model_name, status_view, todo_line
from holdfast.tui.suggestions import Suggestions
from holdfast.tui.trust import Trust

if TYPE_CHECKING:
    from holdfast.schema.model import ModelRef
    from holdfast.schema.overview import OpenRequest
    from holdfast.schema.prompt import Delivery
    from holdfast.schema.session import Session
    from holdfast.tui.app import TerminalApp
    from holdfast.tui.completion import Trigger
    from holdfast.tui.composer import Draft
    from holdfast.tui.request_answers import Decision

DEBOUNCE_SECONDS = 0.08
RETRY_SECONDS = 2.0
QUICK = Options(timeout=10.0)


class Operations:
    def __init__(self, app: TerminalApp) -> None:
        self.app = app
        self.screen = app.screen
        self.connection = ServerConnection(app.host.servers)
        self.client = AsyncClient(self.connection)
        self.location = Location(directory=app.launch.directory)
        self.session: Session | None = None
        self.feed: Feed | None = None
        self.usage = Usage()
        self.trust = Trust(self)
        self.commands = Commands(self)
        self.suggestions = Suggestions(self.client, self.location, BUILT_IN)
        self._following: asyncio.Task[None] | None = None
        self._completing: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._unsent: dict[str, Pending] = {}
        self._interruption: asyncio.Task[None] | None = None
        self._begun: frozenset[str] = frozenset()
        """The inputs that were told to begin."""
        self._model: ModelRef | None = None
        self._agent: str | None = app.launch.agent

    @property
    def is_busy(self) -> bool:
        """Also while an answer is being written that the newest status does not know yet."""
        if self.screen.status.state in ("running", "waiting"):
            return True
        entries = self.screen.control.conversation.entries if self.screen.control is not None else ()
        return bool(entries) and getattr(entries[-1], "open", False)

    @property
    def is_sending(self) -> bool:
        """Whether a prompt was not received yet."""
        return bool(self._unsent)

    # -- opening ------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Find the server and open the Session that the terminal was started for."""
        launch = self.app.launch
        if launch.model is not None:
            from holdfast.schema.model import model_ref

            self._model = model_ref(launch.model)
        found = await until_received(self._first_session, waiting=lambda pause: None)
        self.screen.status = self.screen.status._replace(connection="")
        if found is not None:
            await self.open(found)
        else:
            self.show_new()
        self.app.start(self.trust.look())

    async def _first_session(self) -> Session | None:
        try:
            await self.client.health.get(options=QUICK)
            return await first_session(self.client, self.app.launch)
        except ClientError as error:
            self.screen.welcome = ["no connection to a server yet", str(error), "Ctrl-C twice leaves"]
            self.screen.status = self.screen.status._replace(connection="connecting")
            self.app.changed()
            raise

    def show_new(self) -> None:
        """Show an empty conversation. The Session is created with its first prompt."""
        self._stop_following()
        self.session = self.feed = None
        self.screen.control = self.screen.panel = None
        self.screen.pending, self.screen.todos = [], ""
        self.screen.welcome = [
            "A new session",
            f"in {self.location.directory}",
            "",
            "It is created with your first prompt. /sessions opens another one.",
        ]
        self.usage = Usage()
        self.screen.status = self.screen.status._replace(
            connection="",
            state="new session",
            wait="",
            wait_since=None,
            model=model_name(self._model),
            agent=self._agent or "",
        )
        self.app.changed()

    async def open(self, session: Session) -> None:
        """Show this Session."""
        self._stop_following()
        self.session = session
        self.location = session.location
        self.suggestions = Suggestions(self.client, self.location, BUILT_IN)
        self.usage = Usage()
        conversation = Conversation(marks=self.screen.marks)
        feed = Feed(self.client, session.id, conversation, on_change=self._changed)
        self.feed = feed
        self.screen.control = ConversationControl(
            conversation, feed.load_body, on_older=feed.load_older, encoding=self.app.encoding, focusable=False
        )
        self.screen.panel = RequestsPanel(session.id, self.screen.marks)
        self.screen.pending, self.screen.todos = [], ""
        self._following = self.app.start(feed.run(), vital=True)
        self.app.changed()

    async def ensure_session(self) -> Session:
        """The Session that is shown; a new one if there is none."""
        if self.session is None:
            model = self._model
            if model is None and (model := await offline_model(self.client, self.location)) is not None:
                self.app.notify(NO_MODEL)
            id, sessions = new_session_id(), self.client.sessions
            session = await until_received(
                lambda: sessions.create(id=id, agent=self._agent, model=model, location=self.location)
            )
            await self.open(session)
        assert self.session is not None
        return self.session

    async def close(self) -> None:
        await self.client.close()

    def farewell(self) -> list[str]:
        """How to come back, for the line after the screen."""
        lines = [f"Not sent: {brief(one.text)} (Up brings it back)" for one in self._unsent.values()]
        if self.session is None:
            return lines
        if self.is_busy:
            lines.append("The session goes on working in the background.")
        return [*lines, f"holdfast --session {self.session.id} comes back to it."]

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None

    # -- what changes -------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        feed, panel, screen = self.feed, self.screen.panel, self.screen
        if feed is None or panel is None:
            return
        if feed.status is not None:
            self.session = feed.status.session.session
            now_pending = {one.id for one in feed.status.pending}
            for id in now_pending:
                self._unsent.pop(id, None)
            screen.pending = (
                self._undone(self.session)
                + [
                    Pending(one.id, one.prompt.text, "queued" if one.delivery == "queue" else "next")
                    for one in feed.status.pending
                ]
                + list(self._unsent.values())
            )
            screen.todos = todo_line(feed.status.todos)
            if self.usage.is_due(feed.status):
                self.app.start(self._measure())
        may_focus = not screen.composer.text and screen.mode == "compose"
        shown = panel.update(feed.requests, may_focus=may_focus)
        if shown is not None:
            self._appeared(shown)
        screen.status = status_view(feed, self.usage, len(panel.open), self.trust.untrusted)
        self.app.changed()

    def _appeared(self, request: OpenRequest) -> None:
        self.screen.entry.reset()
        self.app.start(self._load_call(request))
        asyncio.get_running_loop().call_later(GUARD_SECONDS, self.app.changed)

    def _undone(self, session: Session) -> list[Pending]:
        if session.revert is None:
            return []
        control = self.screen.control
        entry = control.conversation.entry(session.revert.message_id) if control is not None else None
        return [Pending("", getattr(entry, "text", "") or "an earlier prompt", "undone, /redo brings it back")]

    async def _measure(self) -> None:
        if self.session is not None:
            with suppress(ApiError, ClientError):
                await self.usage.load(self.client, self.session.id)
                self._changed()

    async def _load_call(self, request: OpenRequest) -> None:
        permission = request.permission
        if permission is None or permission.source is None or not permission.source.message_id:
            return  # a shell message of a person has no call of a model
        with suppress(ApiError, ClientError):
            body = await self.client.sessions.rendered_call(
                request.session_id,
                message_id=permission.source.message_id,
                call_id=permission.source.call_id,
                format="text",
            )
            if self.screen.panel is not None:
                self.screen.panel.set_call(request.id, body)
                self.app.changed()

    # -- sending ------------------------------------------------------------------------------------------------

    def submit(self, *, queue: bool) -> None:
        """What is in the composer: a built-in command, a call, a shell command or a prompt."""
        text = self.screen.composer.text
        call = read_call(text)
        if queue and not self.is_busy:
            self.app.notify("Tab queues while the session works; Enter sends")
            return
        draft = self.screen.composer.take()
        assert draft is not None
        if call is not None and self.commands.has(call.name):
            self.app.start(self.commands.run(call.name, call.arguments))
        else:
            self.app.start(self._send(draft, queue=queue))

    async def _send(self, draft: Draft, *, queue: bool) -> None:
        id = new_message_id()
        self._show_unsent(Pending(id, draft.shown, "sending"))
        try:
            async with self._sending:
                await self._deliver(draft, id, queue=queue)
        except (ApiError, ClientError, OSError) as error:
            self.screen.composer.put_back(draft)
            self.app.notify(f"not sent: {error}", "class:error")
        finally:
            self._unsent.pop(id, None)
            self.screen.pending = [one for one in self.screen.pending if one.label != "sending" or one.id != id]
            self.app.changed()

    async def _deliver(self, draft: Draft, id: str, *, queue: bool) -> None:
        session = await self.ensure_session()
        if self.screen.control is not None:
            self.screen.control.go_end()
        delivery: Delivery | None = "queue" if queue else None
        files = attachments(draft.images, elsewhere=self.app.launch.elsewhere) or None
        sessions = self.client.sessions
        waiting = lambda pause: self._show_unsent(Pending(id, draft.shown, "sending again"))  # noqa: E731
        if draft.text.startswith("!"):
            command = draft.text[1:].strip()
            if not command:
                self.app.notify("there is no command after the exclamation mark")
                return
            self._unsent.pop(id, None)
            self.app.start(sessions.shell(session.id, command=command, id=id))
            return
        call = read_call(draft.text)
        if call is not None and not await self._is_callable(call.name):
            if "/" not in call.name:
                similar = await self._similar(call.name)
                self.screen.composer.put_back(draft)
                self.app.notify(f"no command /{call.name}{similar}; begin with a space to send it as text")
                return
            call = None
        if call is not None and call.name in self.suggestions.skills:
            await until_received(lambda: sessions.skill(session.id, skill=call.name, id=id), waiting=waiting)
        elif call is not None:
            await until_received(
                lambda: sessions.command(
                    session.id, command=call.name, arguments=call.arguments, id=id, files=files, delivery=delivery
                ),
                waiting=waiting,
            )
        else:
            await until_received(
                lambda: sessions.prompt(
                    session.id, id=id, text=draft.text, files=files, delivery=delivery, resolve=True
                ),
                waiting=waiting,
            )

    async def _is_callable(self, name: str) -> bool:
        return any(one.text == name for one in await self.suggestions.commands())

    async def _similar(self, name: str) -> str:
        from difflib import get_close_matches

        names = [one.text for one in (*BUILT_IN, *await self.suggestions.commands())]
        near = get_close_matches(name[:100], names, n=3)
        return f"; similar: {', '.join('/' + one for one in near)}" if near else ""

    def _show_unsent(self, pending: Pending) -> None:
        self._unsent[pending.id] = pending
        others = [one for one in self.screen.pending if one.id != pending.id]
        self.screen.pending = [*others, pending]
        self.app.changed()

    def take_back(self) -> None:
        """Withdraw the newest input that the model has not seen, into the composer."""
        waiting = [one for one in self.screen.pending if one.label in ("next", "queued")]
        if not waiting:
            self.app.notify("no input waits")
            return
        self.app.start(self._withdraw(waiting[-1]))

    async def _withdraw(self, pending: Pending) -> None:
        if self.session is None:
            return
        await self.client.sessions.withdraw(self.session.id, message_id=pending.id)
        self.screen.composer.prepend(pending.text)
        self.app.notify("taken back")

    def interrupt(self) -> None:
        """Once at a time: whoever presses Esc too often must not interrupt what begins afterwards."""
        if self.session is None or (self._interruption is not None and not self._interruption.done()):
            return
        self.app.notify("interrupting")
        self._interruption = self.app.start(self._interrupt(self.session.id))

    async def _interrupt(self, session_id: str) -> None:
        await self.client.sessions.interrupt(session_id)
        waits = "; Enter lets the waiting inputs begin" if self.screen.pending else ""
        self.app.notify(f"interrupted{waits}")

    def start_pending(self) -> bool:
        """Let inputs begin that wait because the work before them was interrupted. Whether there are any."""
        waiting = frozenset(one.id for one in self.screen.pending)
        if self.session is None or self.screen.status.state != "pending" or waiting == self._begun:
            return False
        self._begun = waiting  # a second run of the same would take a turn of its own
        self.app.start(self._run(self.session.id))
        return True

    async def _run(self, session_id: str) -> None:
        if self._interruption is not None:
            await asyncio.wait((self._interruption,))
        await self.client.sessions.run(session_id)

    # -- requests -----------------------------------------------------------------------------------------------

    def decide(self, decision: Decision) -> None:
        panel = self.screen.panel
        if panel is not None and panel.current is not None:
            self.app.start(self._decide(decision, panel.current.id, panel))
            panel.answered(panel.current.id)
            if panel.current is not None:
                self._appeared(panel.current)

    async def _decide(self, decision: Decision, request_id: str, panel: RequestsPanel) -> None:
        try:
            await until_received(lambda: send_decision(self.client, decision))
        except ApiError as error:
            if error.status in (404, 409):
                self.app.notify("another client has answered this request")
            else:
                panel.failed(request_id, str(error), may_focus=not self.screen.composer.text)
                self.app.notify(f"the answer was refused: {error}", "class:error")
        except ClientError as error:
            panel.failed(request_id, str(error), may_focus=not self.screen.composer.text)
            self.app.notify(f"the answer did not arrive: {error}", "class:error")

    # -- completion ---------------------------------------------------------------------------------------------

    def complete(self, wanted: Trigger) -> None:
        if self._completing is not None:
            self._completing.cancel()
        self._completing = self.app.start(self._complete(wanted))

    async def _complete(self, wanted: Trigger) -> None:
        if wanted.kind == "mention":
            await asyncio.sleep(DEBOUNCE_SECONDS)
        candidates = await self.suggestions.for_trigger(wanted)
        if self.screen.composer.completion.offer(wanted, candidates):
            self.app.changed()

    def choose_next(self, *, model: ModelRef | None = None, agent: str | None = None) -> None:
        """For the Session that the next prompt creates."""
        self._model, self._agent = model or self._model, agent or self._agent
        self.screen.status = self.screen.status._replace(model=model_name(self._model), agent=self._agent or "")
        self.app.changed()
