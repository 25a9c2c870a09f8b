"""The terminals of one Location in the hands of a test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from holdfast.core.clock import Ids
from holdfast.core.pty.ptys import Ptys, PtySettings
from holdfast.core.pty.terminal import Behind, End
from holdfast.schema.location import Location
from holdfast.schema.pty import Pty
from holdfast.schema.record import Record

PATIENCE = 20.0


class PtyDesk:
    def __init__(self, directory: Path, ids: Ids, environment: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.location = Location(directory=str(directory))
        self.announced: list[Record] = []
        self.settings = PtySettings(shell="/bin/sh")
        host = {"PATH": os.environ["PATH"], "HOME": str(directory), **(environment or {})}
        self.ptys = Ptys(self.location, host, ids=ids, announce=self.announced.append, settings=lambda: self.settings)

    def run(self, script: str, **more: str) -> Pty:
        """A terminal in which `sh` runs a script."""
        return self.ptys.create(command="/bin/sh", args=("-c", script), env=more)

    async def output(self, script: str, **more: str) -> str:
        """All that a script said."""
        return (await self.watch(self.run(script, **more).id).rest())[0]

    def watch(self, id: str, cursor: int | None = None) -> Watcher:
        return Watcher(self.ptys, id, cursor)


class Watcher:
    """Reads as a client does: the replay, then whatever comes."""

    def __init__(self, ptys: Ptys, id: str, cursor: int | None = None) -> None:
        self._wake = asyncio.Event()
        self.attachment = ptys.attach(id, self._wake.set, cursor=cursor)
        self.text = self.attachment.replay
        self.end: End | None = None
        self.attachment.activate()

    async def until(self, expected: str | Callable[[str], bool]) -> str:
        """Read on until the text has it; all of the text so far."""
        met = expected if callable(expected) else lambda text: expected in text
        async with asyncio.timeout(PATIENCE):
            while not met(self.text) and self.end is None:
                await self._step()
        assert met(self.text), self.text
        return self.text

    async def rest(self) -> tuple[str, int | None]:
        """Everything up to the end, and the exit code."""
        async with asyncio.timeout(PATIENCE):
            while self.end is None:
                await self._step()
        return self.text, self.end.exit_code

    async def type(self, text: str) -> None:
        await self.attachment.write(text)

    async def _step(self) -> None:
        match self.attachment.take():
            case str(text):
                self.text += text
            case End() as end:
                self.end = end
            case Behind():
                raise AssertionError("fell behind")
            case None:
                self._wake.clear()
                await self._wake.wait()


async def eventually(met: Callable[[], bool]) -> None:
    """For what the system does soon without telling anyone."""
    async with asyncio.timeout(PATIENCE):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
