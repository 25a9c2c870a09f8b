"""The terminal line by line, for screen readers and simple terminals: the conversation is printed as it grows, a line
that is typed is a prompt, and requests are asked as numbered choices.

Invariants
- A line answers a request only if it is one of its choices or the text that was asked for; no other line does, so that
  a prompt that was being typed when the request came is never taken for an answer.
- Everything that is printed is safe for a terminal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.new_ids import new_message_id
from holdfast.tui.answering import send_decision
from holdfast.tui.conversation import Conversation
from holdfast.tui.feed import Feed
from holdfast.tui.linear_text import LinearText
from holdfast.tui.lines import plain_text, safe_line
from holdfast.tui.requests_panel import RequestsPanel
from holdfast.tui.sending import FIRST_PAUSE, until_received
from holdfast.tui.style import ASCII

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.overview import OpenRequest
    from holdfast.tui.dialog import Dialog
    from holdfast.tui.request_answers import Decision

WIDTH = 10_000
"""Lines are not broken: the terminal or the screen reader does that."""
HELP = (
    "A line is a prompt. A line that ends with a backslash goes on with the next one.",
    "!COMMAND runs a command. /NAME calls a command or a skill of the project.",
    "/stop interrupts. /todos lists the tasks. /quit leaves; the session stays.",
    "While a request is open, its number or letter answers it, and > before a line sends it as a prompt.",
)


class Linear:
    """`read` gives the next line that is typed without its end, or None at the end of input. `write` prints one."""

    def __init__(
        self,
        client: AsyncClient,
        session_id: str,
        *,
        read: Callable[[], Awaitable[str | None]],
        write: Callable[[str], None],
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._read = read
        self._write = write
        self._conversation = Conversation(session_id, marks=ASCII)
        self._text = LinearText(self._conversation)
        self._panel = RequestsPanel(session_id, ASCII)
        self._asked: tuple[str, str] | None = None
        """The request on the screen, and the step of its dialog."""
        self._feed = Feed(client, session_id, self._conversation, on_change=self._tell)
        self._connection = "connecting"
        self._working = False
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until the end of input, `/quit`, or the Session is deleted."""
        self._write("Holdfast, line by line. /help lists what can be typed.")
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            following = tasks.create_task(self._feed.run())
            reading = tasks.create_task(self._read_lines())
            await asyncio.wait((following, reading), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            following.cancel()

    async def _read_lines(self) -> None:
        begun = ""
        while (line := await self._read()) is not None:
            if line.endswith("\\"):
                begun += line[:-1] + "\n"
                continue
            line, begun = begun + line, ""
            if line.strip() == "/quit":
                return
            await self._line(line)

    async def _line(self, line: str) -> None:
        dialog = self._panel.dialog
        if dialog is not None and not line.startswith((">", "/", "!")):
            await self._answer(dialog, line)
            return
        line = line.removeprefix(">").strip() if line.startswith(">") else line.strip()
        if line == "/help":
            for text in HELP:
                self._write(text)
        elif line == "/todos":
            for todo in self._feed.status.todos if self._feed.status is not None else ():
                self._write(f"{safe_line(todo.status)}: {safe_line(todo.content)}")
        elif line:
            self._start(self._send(line))

    async def _send(self, line: str) -> None:
        sessions = self._client.sessions
        if line == "/stop":
            await sessions.interrupt(self._session_id)
        elif line.startswith("!"):
            await sessions.shell(self._session_id, command=line[1:].strip())
        elif line.startswith("/"):
            name, _, arguments = line[1:].partition(" ")
            await sessions.command(self._session_id, command=name, arguments=arguments, resolve=True)
        else:
            await self._prompt(line)

    async def _prompt(self, text: str) -> None:
        """With an id, so that it is admitted once however often it is sent."""
        message_id, prompt = new_message_id(), self._client.sessions.prompt
        self._text.own.add(message_id)
        await until_received(
            lambda: prompt(self._session_id, id=message_id, text=text, resolve=True),
            waiting=self._tell_late,
        )

    def _tell_late(self, pause: float) -> None:
        if pause == FIRST_PAUSE:
            self._write("The prompt has not arrived yet; it is sent again.")

    def _start(self, work: Coroutine[None, None, None]) -> None:
        """A command may take long; lines are read meanwhile."""
        assert self._tasks is not None
        self._tasks.create_task(self._reported(work))

    async def _reported(self, work: Coroutine[None, None, None]) -> None:
        from holdfast.client.errors import ApiError, ClientError

        try:
            await work
        except (ApiError, ClientError) as error:
            self._write(f"Failed: {safe_line(str(error))}")

    # -- what is printed ----------------------------------------------------------------------------------------

    def _tell(self) -> None:
        state = self._feed.connection.state
        if state != self._connection:
            told = _CONNECTIONS.get(state, "") if self._connection != "connecting" or state != "connected" else ""
            self._connection = state
            if told:
                self._write(told)
        for line in self._text.lines():
            self._write(line)
        status = self._feed.status
        if status is not None and self._conversation.loaded:
            working = status.session.state != "idle"
            if self._working and not working:
                self._write("Ready.")
            self._working = working
        self._update_requests()

    def _update_requests(self) -> None:
        before = self._panel.current
        self._panel.update(self._feed.requests, may_focus=False)
        now = self._panel.current
        if before is not None and (now is None or now.id != before.id) and self._asked is not None:
            self._write("The request is answered.")
            self._asked = None
        if now is not None and (before is None or before.id != now.id):
            self._start(self._ask(now))

    # -- requests -----------------------------------------------------------------------------------------------

    async def _ask(self, request: OpenRequest) -> None:
        source = request.permission.source if request.permission is not None else None
        if source is not None:
            body = await self._client.sessions.rendered_call(
                request.session_id, message_id=source.message_id, call_id=source.call_id, format="text"
            )
            self._panel.set_call(request.id, body)
        current = self._panel.current
        if current is not None and current.id == request.id and self._panel.dialog is not None:
            self._show(self._panel.dialog, request)

    def _show(self, dialog: Dialog, request: OpenRequest) -> None:
        who = f" (asked by {safe_line(' > '.join(request.titles))})" if request.ancestors else ""
        self._write(f"Request: {safe_line(dialog.title)}{who}")
        for line in dialog.body(WIDTH):
            self._write("  " + plain_text(line).rstrip())
        if dialog.problem:
            self._write(safe_line(dialog.problem))
        if dialog.entry is not None:
            self._write(f"Please type {safe_line(dialog.entry)}:")
        else:
            for number, choice in enumerate(dialog.choices(), start=1):
                key = "" if choice.key == str(number) else f" ({safe_line(choice.key)})"
                self._write(f"{number}. {safe_line(choice.text)}{key}")
        self._asked = (request.id, dialog.title)

    async def _answer(self, dialog: Dialog, line: str) -> None:
        request = self._panel.current
        if request is None or self._asked is None or self._asked[0] != request.id:
            self._write("A request has just come; please read it first. Nothing was sent.")
            return
        decision: Decision | None
        if dialog.entry is not None:
            decision = dialog.enter(line)
        else:
            choices = list(dialog.choices())
            word = line.strip().lower()
            if word.isdecimal() and 1 <= int(word) <= len(choices):
                word = choices[int(word) - 1].key.lower()
            if word not in [choice.key.lower() for choice in choices]:
                self._write(f"{safe_line(line)!r} is not a choice. Put > before it to send it as a prompt.")
                return
            decision = dialog.key(word)
        if decision is None:
            self._show(dialog, request)
            return
        from holdfast.client.errors import ApiError, ClientError

        try:
            await send_decision(self._client, decision)
        except (ApiError, ClientError) as error:
            self._write(f"The answer was not taken: {safe_line(str(error))}")


_CONNECTIONS = {
    "connected": "Connected again.",
    "reconnecting": "The connection is lost; trying again.",
    "refused": "The server refuses; trying again.",
    "gone": "The session was deleted.",
}
