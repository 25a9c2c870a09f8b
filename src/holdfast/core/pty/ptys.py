"""The terminals of one Location, in memory. They end when the Location closes."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.process.environment import UNATTENDED, child_environment
from holdfast.core.pty.errors import PtyNotFound, PtyNotStarted, TooManyPtys
from holdfast.core.pty.process import PtyProcess
from holdfast.core.pty.terminal import End, Terminal
from holdfast.core.shell.select import LOGIN, name_of, terminal_shell
from holdfast.schema.frozen import Frozen
from holdfast.schema.pty import Pty, PtyCreated, PtyDeleted, PtyExited, PtyUpdated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.clock import Ids
    from holdfast.core.pty.terminal import Attachment, TerminalReplay
    from holdfast.schema.location import Location
    from holdfast.schema.pty import PtySize
    from holdfast.schema.record import Record

RUNNING_LIMIT = 32
EXITED_LIMIT = 25
FORCED = {"TERM": "xterm-256color", "OPENCODE_TERMINAL": "1"}


class PtySettings(Frozen):
    shell: str | None = None
    external_paths: Literal["ask", "deny"] = "ask"
    """`ask` allows: a client that may open a terminal can do anything in it. A host can still set `deny`."""
    passed: tuple[str, ...] = ()
    """Host variables that terminals get in addition to the allow-list."""


class Ptys:
    def __init__(
        self,
        location: Location,
        environment: Mapping[str, str],
        *,
        ids: Ids,
        announce: Callable[[Record], None],
        settings: Callable[[], PtySettings] = PtySettings,
        tag: str = "",
    ) -> None:
        """`environment` is the runtime's own; `settings` is called at each creation. Ids end with `tag`."""
        self._location = location
        self._environment = environment
        self._ids = ids
        self._tag = tag
        self._announce = announce
        self._settings = settings
        self._terminals: dict[str, Terminal] = {}
        self._exits: list[str] = []
        self._processes: set[PtyProcess] = set()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a process is running, so that the Location is in use even without clients."""
        return bool(self._processes)

    def create(
        self,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        cwd: str | None = None,
        title: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Pty:
        """`env` overrides the host's variables, but not the forced ones."""
        if self._closed:
            raise PtyNotStarted("its Location was closed")
        if len(self._processes) >= RUNNING_LIMIT:
            raise TooManyPtys(RUNNING_LIMIT)
        settings, directory = self._settings(), self.working_directory(cwd)
        command = command or terminal_shell(settings.shell, self._environment)
        if not args and name_of(command) in LOGIN:
            args = ("-l",)
        environment = {**self._inherited(settings), "PWD": directory, **(env or {}), **FORCED}
        made = self._ids.of("pty")
        id = made[: len(made) - len(self._tag)] + self._tag
        info = Pty(
            id=id,
            title=title or f"Terminal {id[-4:]}",
            command=command,
            args=tuple(args),
            cwd=directory,
            status="running",
            pid=0,
        )
        terminal = self._start(info, environment)
        self._terminals[id] = terminal
        self._announce(PtyCreated(info=terminal.info))
        return terminal.info

    def working_directory(self, cwd: str | None) -> str:
        """The directory in which a terminal with this `cwd` starts; raises PtyNotStarted."""
        if not cwd:
            return self._location.directory
        directory = os.path.normpath(os.path.join(self._location.directory, cwd))
        if not os.path.isdir(directory):
            raise PtyNotStarted(f"{_shown(cwd)} is not a directory")
        if self._settings().external_paths == "deny" and not self._contains(directory):
            raise PtyNotStarted(f"{_shown(cwd)} is outside the Location")
        return directory

    def list(self) -> tuple[Pty, ...]:
        """All terminals in order of creation, including exited ones."""
        return tuple(terminal.info for terminal in self._terminals.values())

    def get(self, id: str) -> Pty:
        return self._find(id).info

    def update(self, id: str, *, title: str | None = None, size: PtySize | None = None) -> Pty:
        terminal = self._find(id)
        if title:
            terminal.info = msgspec.structs.replace(terminal.info, title=title)
        if size is not None and terminal.end is None:
            terminal.process.resize(size.rows, size.cols)
        self._announce(PtyUpdated(info=terminal.info))
        return terminal.info

    async def remove(self, id: str) -> None:
        """Remove it at once; returns when its processes have ended."""
        terminal = self._find(id)
        self._forget(id)
        await terminal.process.kill()

    async def write(self, id: str, text: str) -> None:
        await self._find(id).process.write(text.encode("utf-8", "replace"))

    def attach(self, id: str, notify: Callable[[], None], *, cursor: int | None = None) -> Attachment:
        """Raises PtyExited after the process ended; `replay` still returns the retained output."""
        return self._find(id).attach(cursor, notify)

    def replay(self, id: str, cursor: int | None = None) -> TerminalReplay:
        return self._find(id).replay(cursor)

    async def close(self) -> None:
        self._closed = True
        for id in tuple(self._terminals):
            self._forget(id)
        await asyncio.gather(*(process.kill() for process in tuple(self._processes)))

    def _start(self, info: Pty, environment: Mapping[str, str]) -> Terminal:
        try:
            process = PtyProcess(
                (_executable(info, environment), *info.args),
                cwd=info.cwd,
                environment=environment,
                output=lambda data: terminal.feed(data),
                exited=lambda code: self._note_exit(terminal, code),
            )
        except (OSError, ValueError) as problem:
            raise PtyNotStarted(getattr(problem, "strerror", None) or str(problem)) from problem
        self._processes.add(process)
        terminal = Terminal(msgspec.structs.replace(info, pid=process.pid), process)
        return terminal

    def _note_exit(self, terminal: Terminal, code: int) -> None:
        self._processes.discard(terminal.process)
        id = terminal.info.id
        if self._terminals.get(id) is not terminal:
            return
        terminal.exit(code)
        self._announce(PtyExited(id=id, exit_code=code))
        self._exits.append(id)
        if len(self._exits) > EXITED_LIMIT:
            self._forget(self._exits[0])

    def _forget(self, id: str) -> None:
        self._terminals.pop(id).finish(End())
        if id in self._exits:
            self._exits.remove(id)
        self._announce(PtyDeleted(id=id))

    def _find(self, id: str) -> Terminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise PtyNotFound(id)
        return terminal

    def _inherited(self, settings: PtySettings) -> dict[str, str]:
        """The allowed host variables, without those for unattended commands."""
        found = child_environment(self._environment, passed=settings.passed)
        return {name: value for name, value in found.items() if name not in UNATTENDED or name in settings.passed}

    def _contains(self, directory: str) -> bool:
        home = os.path.realpath(self._location.directory)
        return os.path.commonpath((home, os.path.realpath(directory))) == home


def _executable(info: Pty, environment: Mapping[str, str]) -> str:
    command = os.path.join(info.cwd, info.command) if os.sep in info.command else info.command
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    if found is None:
        raise PtyNotStarted(f"{_shown(info.command)} is not an executable program")
    return os.path.abspath(found)


def _shown(text: str) -> str:
    return text[:200].replace("\0", "\\0")
