"""The sandbox of one Location: decides the confinement of each command, and reports what is enforced.

Invariants
- Only the user's settings count: an argument, the environment, the user's configuration; never the project's.
- Commands of the agent `plan` are always confined read-only if the machine supports it.
- What cannot be enforced is refused or reported, never ignored.
- What a command leaves behind is examined before its result is returned. If this process is killed meanwhile, it is
  not: a later command takes it for the user's own."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.confinement import Confinement, SandboxSettings, SandboxUnavailable
from holdfast.core.process.sandbox.leftovers import Leftovers
from holdfast.core.process.sandbox.place_names import CONFIGURATION, TEMPORARY
from holdfast.core.process.sandbox.places import (
    ProtectedName,
    existing,
    git_paths,
    secrets,
    start_up_files,
)
from holdfast.core.process.sandbox.repositories import protected_names
from holdfast.core.run_to_completion import run_to_completion
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from holdfast.core.diagnostic import Diagnostic
    from holdfast.core.process.sandbox.backend import Backend
    from holdfast.core.process.sandbox.backends import BackendChooser
    from holdfast.core.process.sandbox.confinement import Mode, Network
    from holdfast.core.process.sandbox.leftovers import Baseline, Inventory
    from holdfast.core.process.sandbox.private_directory import PrivateDirectory

PLAN = "plan"
NO_PROXY_HERE = "network proxy needs a network namespace, which {backend} has not; the network is off"
WHOLE_DISK = "the project directory is /, so nothing could be protected"


class SandboxRefused(HoldfastError):
    """The user requires a sandbox, but none is available."""


class SandboxDecision(Frozen):
    """How a command runs. With all defaults, no sandbox is configured."""

    confinement: Confinement | None = None
    summary: str = ""
    """For example `workspace (bubblewrap, network off)`."""
    problem: str = ""
    """What differs from the configuration."""
    before: Baseline | None = None
    """What there was before the command, to compare with what it leaves behind."""


class SandboxReport(Frozen):
    mode: str
    backend: str | None
    """None if this machine cannot enforce a sandbox."""
    summary: str
    problem: str
    gaps: tuple[str, ...]
    required: bool


class SandboxPaths(Frozen):
    """The paths of this machine and project that a confinement is built from."""

    directory: Path
    """The directory of the Location."""
    root: Path | None
    """The root of the worktree, if there is a repository."""
    home: Path
    hidden: tuple[Path, ...]
    """Directories of the runtime: data, state, the user's configuration."""
    readable: tuple[Path, ...]
    """Paths in them that commands need: managed files, references, skills."""
    environment: Mapping[str, str] = {}
    """The runtime's own: variables move files of the user, and git is found in its PATH."""


class Sandbox:
    def __init__(
        self,
        backends: BackendChooser,
        settings: Callable[[], SandboxSettings],
        paths: SandboxPaths,
        *,
        own_ports: Callable[[], Collection[int]] = frozenset,
        diagnostics: Callable[[], tuple[Diagnostic, ...]] = tuple,
    ) -> None:
        """`settings` and `diagnostics` are called each time, as configuration may change."""
        self.diagnostics = diagnostics
        self._backends = backends
        self._settings = settings
        self._paths = paths
        self._own_ports = own_ports
        self._leftovers = Leftovers(paths.root, paths.directory, paths.environment)
        self._opening = asyncio.Lock()
        self._base: PrivateDirectory | None = None
        self._proxy: Path | None = None
        self._stack = AsyncExitStack()

    @property
    def settings(self) -> SandboxSettings:
        return self._settings()

    async def terms(self, agent: str) -> SandboxDecision:
        """The decision for a command of this agent. Raises SandboxRefused."""
        settings = self._settings()
        if agent == PLAN:
            network: Network = "on" if settings.mode == "off" else settings.network
            settings = settings.replace(mode="read-only", network=network)
        if settings.mode == "off":
            return SandboxDecision()
        try:
            backend = await self._backends.choose()
            confinement, problem, before = await self._confine(settings.mode, settings, backend)
        except SandboxUnavailable as error:
            if settings.required:
                raise SandboxRefused(f"holdfast.sandbox requires a sandbox, and there is none: {error}") from error
            return SandboxDecision(problem=f"sandbox {settings.mode} is not in force: {error}")
        summary = f"{settings.mode} ({backend.name}, network {confinement.network})"
        return SandboxDecision(confinement, summary, problem, before)

    async def settle(self, decision: SandboxDecision) -> tuple[str, ...]:
        """Call it after the command has ended, however it ended. Disables what it left behind for other programs to
        execute; returns what was disabled, for people and the model."""
        if decision.before is None:
            return ()
        return await run_to_completion(self._leftovers.settle(decision.before))

    async def report(self) -> SandboxReport:
        """What is enforced for agents other than `plan`, and what this machine supports."""
        settings, backend, problem = self._settings(), None, ""
        try:
            backend = await self._backends.choose()
        except SandboxUnavailable as error:
            problem = str(error)
        summary = ""
        if backend is not None and settings.mode != "off":
            network, problem = _network(settings, backend)
            if self._paths.directory == Path("/") and settings.mode == "workspace":
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

    async def _confine(
        self, mode: Mode, settings: SandboxSettings, backend: Backend
    ) -> tuple[Confinement, str, Baseline | None]:
        network, problem = _network(settings, backend)
        async with self._opening:
            try:
                base = await self._open()
                if network == "proxy" and self._proxy is None:
                    self._proxy = await self._open_proxy(base)
            except OSError as error:
                raise SandboxUnavailable(f"its directory cannot be made: {error}") from error
        inventory = None
        if mode == "workspace":
            writable = await asyncio.to_thread(writable_directories, self._paths, settings)
            inventory = await self._leftovers.take(writable)
            problem = "; ".join(filter(None, (problem, inventory.problem)))
        made = await asyncio.to_thread(confinement, mode, network, self._paths, settings, base / "tmp", inventory)
        before = None if inventory is None else self._leftovers.begin(made, inventory)
        return made.replace(proxy=self._proxy if network == "proxy" else None), problem, before

    async def _open(self) -> Path:
        if self._base is None:
            from holdfast.core.process.sandbox.private_directory import make

            self._base = await run_to_completion(asyncio.to_thread(make))
        (self._base.path / "tmp").mkdir(mode=0o700, exist_ok=True)
        return self._base.path

    async def _open_proxy(self, base: Path) -> Path:
        from holdfast.core.process.sandbox.proxy import SandboxProxy

        hosts = lambda: self._settings().hosts  # noqa: E731 - asked at each connection
        path = base / "proxy.sock"
        await self._stack.enter_async_context(SandboxProxy(path, hosts=hosts, own_ports=self._own_ports))
        return path


def _network(settings: SandboxSettings, backend: Backend) -> tuple[Network, str]:
    """The network mode that the back end can enforce, and the problem if it is not the configured one."""
    if settings.network == "proxy" and not backend.mounts:
        return "off", NO_PROXY_HERE.format(backend=backend.name)
    return settings.network, ""


def confinement(
    mode: Mode,
    network: Network,
    paths: SandboxPaths,
    settings: SandboxSettings,
    temporary: Path,
    inventory: Inventory | None = None,
) -> Confinement:
    """Build a confinement from the files of this machine; blocks. Raises SandboxUnavailable."""
    hidden = (*secrets(paths.home, paths.environment), *existing(paths.hidden))
    readable = existing((*paths.readable, *_project_in_temporary(paths)))
    if mode == "read-only":
        return Confinement(mode, network, temporary, hidden=hidden, readable=readable)
    writable = writable_directories(paths, settings)
    names = [*(ProtectedName(writable[0] / name, directory=True) for name in CONFIGURATION)]
    if paths.root is not None:
        names += git_paths(paths.root, *(() if inventory is None else (inventory.hooks, inventory.included))).protected
    if inventory is not None:
        for repository in inventory.nested:
            names += protected_names(repository, writable, inventory.hooks)
    protected, absent = _by_existence(names, writable)
    started, missing = _by_existence(start_up_files(paths.home, paths.environment, writable), writable)
    return Confinement(
        mode,
        network,
        temporary,
        writable=writable,
        protected=tuple(dict.fromkeys((*protected, *started))),
        absent=tuple(dict.fromkeys((*absent, *missing))),
        hidden=hidden,
        readable=readable,
    )


def writable_directories(paths: SandboxPaths, settings: SandboxSettings) -> tuple[Path, ...]:
    """The project directory first. Raises SandboxUnavailable."""
    directory = Path(os.path.realpath(paths.directory))
    if directory == Path("/"):
        raise SandboxUnavailable(WHOLE_DISK)
    git = git_paths(paths.root).writable if paths.root is not None else ()
    further = existing(_expanded(path, paths.home) for path in settings.writable)
    return tuple(dict.fromkeys((directory, *git, *(path for path in further if path.is_dir()))))


def _by_existence(names: Iterable[ProtectedName], writable: Collection[Path]) -> tuple[list[Path], list[Path]]:
    """The names inside writable directories: those to protect, with their real paths, and missing files. Of a missing
    directory the first missing parent is protected."""
    protected, absent = [], []
    for name in names:
        path = Path(os.path.realpath(name.path.parent)) / name.path.name
        if not any(root in path.parents for root in writable):
            continue
        if os.path.lexists(path):
            protected.append(path)
        elif name.directory:
            protected.append(next(each for each in (*reversed(path.parents), path) if not os.path.lexists(each)))
        else:
            absent.append(path)
    return protected, absent


def _project_in_temporary(paths: SandboxPaths) -> list[Path]:
    """The directories of the project that are in a temporary directory of the host, which is hidden."""
    own = existing(path for path in (paths.root, paths.directory) if path is not None)
    return [path for path in own if any(folder in path.parents for folder in existing(TEMPORARY))]


def _expanded(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else home / text
