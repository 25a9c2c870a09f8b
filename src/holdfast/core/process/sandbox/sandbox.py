"""The sandbox of one Location: under which confinement a command of an agent runs, and what is said about it.

Invariants
- Only what the user set counts: an argument, the environment, the user's configuration; nothing of a project.
- Commands of the agent `plan` are always confined read-only where the machine can do that.
- What cannot be enforced is either refused or said, never passed over."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.confinement import Confinement, SandboxSettings, SandboxUnavailable
from holdfast.core.run_to_completion import run_to_completion
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.core.diagnostic import Diagnostic
    from holdfast.core.process.sandbox.backend import Backend
    from holdfast.core.process.sandbox.backends import Chooser
    from holdfast.core.process.sandbox.confinement import Mode, Network
    from holdfast.core.process.sandbox.private_directory import PrivateDirectory

PLAN = "plan"
NO_PROXY_HERE = "network proxy needs a network namespace, which {backend} has not; the network is off"
WHOLE_DISK = "the project directory is /, so nothing could be protected"


class SandboxRefused(HoldfastError):
    """The user requires a sandbox, and there is none."""


class Terms(Frozen):
    """How a command runs. Without a confinement and without a summary nobody asked for a sandbox."""

    confinement: Confinement | None = None
    summary: str = ""
    """Such as `workspace (bubblewrap, network off)`."""
    problem: str = ""
    """What is not as configured."""


class SandboxReport(Frozen):
    mode: str
    backend: str | None
    """None where no sandbox can be enforced."""
    summary: str
    problem: str
    gaps: tuple[str, ...]
    required: bool


class Surroundings(Frozen):
    """What of this machine and project a confinement is made from."""

    directory: Path
    """The Location's."""
    root: Path | None
    """The worktree's, if there is a repository."""
    home: Path
    hidden: tuple[Path, ...]
    """Directories of the runtime itself: its data, its state, the user's configuration."""
    readable: tuple[Path, ...]
    """What in them commands need: kept outputs, references, skills."""


class Sandbox:
    def __init__(
        self,
        backends: Chooser,
        settings: Callable[[], SandboxSettings],
        surroundings: Surroundings,
        *,
        own_ports: Callable[[], Collection[int]] = frozenset,
        diagnostics: Callable[[], tuple[Diagnostic, ...]] = tuple,
    ) -> None:
        """`settings` and `diagnostics` are asked each time, as configuration may change."""
        self.diagnostics = diagnostics
        self._backends = backends
        self._settings = settings
        self._surroundings = surroundings
        self._own_ports = own_ports
        self._opening = asyncio.Lock()
        self._base: PrivateDirectory | None = None
        self._proxy: Path | None = None
        self._stack = AsyncExitStack()

    @property
    def settings(self) -> SandboxSettings:
        return self._settings()

    async def terms(self, agent: str) -> Terms:
        """For a command of this agent. Raises SandboxRefused."""
        settings = self._settings()
        if agent == PLAN:
            network: Network = "on" if settings.mode == "off" else settings.network
            settings = settings.replace(mode="read-only", network=network)
        if settings.mode == "off":
            return Terms()
        try:
            backend = await self._backends.choose()
            confinement, problem = await self._confine(settings.mode, settings, backend)
        except SandboxUnavailable as error:
            if settings.required:
                raise SandboxRefused(f"holdfast.sandbox requires a sandbox, and there is none: {error}") from error
            return Terms(problem=f"sandbox {settings.mode} is not in force: {error}")
        return Terms(confinement, f"{settings.mode} ({backend.name}, network {confinement.network})", problem)

    async def report(self) -> SandboxReport:
        """What is in force for agents other than `plan`, and what this machine can do."""
        settings, backend, problem = self._settings(), None, ""
        try:
            backend = await self._backends.choose()
        except SandboxUnavailable as error:
            problem = str(error)
        summary = ""
        if backend is not None and settings.mode != "off":
            network = settings.network
            if network == "proxy" and not backend.mounts:
                network, problem = "off", NO_PROXY_HERE.format(backend=backend.name)
            if self._surroundings.directory == Path("/") and settings.mode == "workspace":
                problem = WHOLE_DISK
            else:
                summary = f"{settings.mode} ({backend.name}, network {network})"
        gaps = backend.gaps() if backend is not None else ()
        name = None if backend is None else backend.name
        return SandboxReport(settings.mode, name, summary, problem, gaps, settings.required)

    async def close(self) -> None:
        await self._stack.aclose()
        base, self._base, self._proxy = self._base, None, None
        if base is not None:
            from holdfast.core.process.sandbox.private_directory import remove

            await asyncio.to_thread(remove, base)

    async def _confine(self, mode: Mode, settings: SandboxSettings, backend: Backend) -> tuple[Confinement, str]:
        network, problem = settings.network, ""
        if network == "proxy" and not backend.mounts:
            network, problem = "off", NO_PROXY_HERE.format(backend=backend.name)
        async with self._opening:
            try:
                base = await self._open()
                if network == "proxy" and self._proxy is None:
                    self._proxy = await self._open_proxy(base)
            except OSError as error:
                raise SandboxUnavailable(f"its directory cannot be made: {error}") from error
        found = await asyncio.to_thread(confinement, mode, network, self._surroundings, settings, base / "tmp")
        return found.replace(proxy=self._proxy if network == "proxy" else None), problem

    async def _open(self) -> Path:
        if self._base is None:
            from holdfast.core.process.sandbox.private_directory import make

            self._base = await run_to_completion(asyncio.to_thread(make))
        (self._base.path / "tmp").mkdir(mode=0o700, exist_ok=True)
        return self._base.path

    async def _open_proxy(self, base: Path) -> Path:
        from holdfast.core.process.sandbox.proxy import Proxy

        hosts = lambda: self._settings().hosts  # noqa: E731 - asked at each connection
        path = base / "proxy.sock"
        await self._stack.enter_async_context(Proxy(path, hosts=hosts, own_ports=self._own_ports))
        return path


def confinement(
    mode: Mode, network: Network, surroundings: Surroundings, settings: SandboxSettings, temporary: Path
) -> Confinement:
    """Looks at the machine. Raises SandboxUnavailable."""
    from holdfast.core.process.sandbox.places import (
        CONFIGURATION,
        EXECUTED_AT_LOGIN,
        existing,
        repository,
        secrets,
    )

    hidden = (*secrets(surroundings.home), *existing(surroundings.hidden))
    readable = existing(surroundings.readable)
    if mode == "read-only":
        return Confinement(mode, network, temporary, hidden=hidden, readable=readable)
    directory = Path(os.path.realpath(surroundings.directory))
    if directory == Path("/"):
        raise SandboxUnavailable(WHOLE_DISK)
    git = repository(surroundings.root) if surroundings.root is not None else None
    further = existing(_expanded(path, surroundings.home) for path in settings.writable)
    writable = (directory, *(git.writable if git is not None else ()), *(path for path in further if path.is_dir()))
    protected = [
        *(directory / name for name in CONFIGURATION),
        *(git.protected if git is not None else ()),
        *existing(surroundings.home / name for name in EXECUTED_AT_LOGIN),
    ]
    return Confinement(
        mode,
        network,
        temporary,
        writable=tuple(dict.fromkeys(writable)),
        protected=tuple(path for path in dict.fromkeys(protected) if any(root in path.parents for root in writable)),
        hidden=hidden,
        readable=readable,
    )


def _expanded(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else home / text
