"""One terminal and its attached clients.

Invariants
- An attachment is a cursor into the retained output, not a queue: replay and later output have no overlap and no gap,
  and a slow client costs no memory.
- Attaching reads the replay and sets the cursor in one step. A client cannot block the terminal."""

from __future__ import annotations

import codecs
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.core.pty.errors import PtyExited
from holdfast.core.pty.output import TerminalOutput
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.pty.process import PtyProcess
    from holdfast.schema.pty import Pty

NO_REPLAY = -1

log = logging.getLogger(__name__)


class End(Frozen):
    """The end of the output; without a code if the terminal was removed while it ran."""

    exit_code: int | None = None


class Behind(Frozen):
    """The client was too slow: output after this cursor is no longer retained."""

    cursor: int


class TerminalReplay(NamedTuple):
    text: str
    cursor: int
    """The position after the text."""


class Terminal:
    def __init__(self, info: Pty, process: PtyProcess) -> None:
        self.info = info
        self.process = process
        self.output = TerminalOutput()
        self.end: End | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._attachments: dict[Attachment, None] = {}

    def feed(self, data: bytes, *, final: bool = False) -> None:
        if text := self._decoder.decode(data, final):
            self.output.append(text)
            self._notify()

    def exit(self, code: int) -> None:
        self.feed(b"", final=True)
        self.info = msgspec.structs.replace(self.info, status="exited", exit_code=code)
        self.finish(End(code))

    def finish(self, end: End) -> None:
        """Only the first call has an effect."""
        if self.end is None:
            self.end = end
            self._notify()
            self._attachments.clear()

    def replay(self, cursor: int | None) -> TerminalReplay:
        """The retained output from a cursor on; all of it without a cursor."""
        start = self.output.end if cursor == NO_REPLAY else self.output.place(cursor or 0)
        return TerminalReplay(*self.output.read(start))

    def attach(self, cursor: int | None, notify: Callable[[], None]) -> Attachment:
        if self.end is not None:
            raise PtyExited(self.info.id)
        attachment = Attachment(self, self.replay(cursor), notify)
        self._attachments[attachment] = None
        return attachment

    def drop(self, attachment: Attachment) -> None:
        self._attachments.pop(attachment, None)

    def _notify(self) -> None:
        for attachment in tuple(self._attachments):
            attachment.wake()


class Attachment:
    """One client. `notify` is called when there may be new output; if it raises, the client is detached."""

    def __init__(self, terminal: Terminal, replay: TerminalReplay, notify: Callable[[], None]) -> None:
        self._terminal = terminal
        self._notify = notify
        self._active = False
        self._detached = False
        self.replay, self.cursor = replay

    def activate(self) -> None:
        """Start following: `take` continues where the replay ended."""
        if not self._active and not self._detached:
            self._active = True
            self.replay = ""  # release the memory
            if self._terminal.end is not None or self.cursor < self._terminal.output.end:
                self.wake()

    def take(self, limit: int | None = None) -> str | End | Behind | None:
        """The next output, at most `limit` units; None if there is none yet, End if there will be none."""
        if not self._active or self._detached:
            return None
        output = self._terminal.output
        if self.cursor < output.start:
            return Behind(self.cursor)
        text, self.cursor = output.read(self.cursor, limit)
        return text or self._terminal.end

    async def write(self, text: str) -> None:
        """Send input to the terminal; waits if it does not read fast enough."""
        await self._terminal.process.write(text.encode("utf-8", "replace"))

    def detach(self) -> None:
        self._detached = True
        self._terminal.drop(self)

    def wake(self) -> None:
        if not self._active or self._detached:
            return
        try:
            self._notify()
        except Exception:
            log.exception("a watcher of terminal %s failed", self._terminal.info.id)
            self.detach()
