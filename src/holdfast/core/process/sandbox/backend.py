"""The mechanisms that confine commands: each turns a command and its confinement into a command line to execute."""

from __future__ import annotations

import marshal
import os
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast.core.process.sandbox import landlock, seccomp
from holdfast.core.process.sandbox.confinement import Confinement, Launch, SandboxUnavailable
from holdfast.core.process.sandbox.mounts import mounts
from holdfast.core.process.sandbox.placeholder import placeholders
from holdfast.core.process.which import is_program, which

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin", "/run/current-system/sw/bin")
"""Where bwrap is looked up. Not in PATH: confined commands may be able to write to one of its folders."""
UNIX_GAP = "Unix sockets outside /run and /tmp can be reached"
ABSTRACT_GAP = "with network on, abstract Unix sockets of the host can be reached"
LANDLOCK_GAPS = (
    "modes and times of the user's own files can be changed everywhere",
    "names of files and command lines of processes can be seen everywhere",
)
PROXY_PORT = 3128
START = "import marshal as m,posix as p;c,s=m.loads(p.read({0},1<<26));p.close({0});exec(c);main(s)"
RELAY = "import marshal as m;exec(m.loads(bytes.fromhex({0!r})));run()"


class Backend(ABC):
    name: str
    mounts = False
    """Whether commands have their own mount namespace. Then `network: proxy` can be enforced, their temporary directory
    is `/tmp`, and missing protected names need placeholders."""

    @abstractmethod
    def gaps(self) -> tuple[str, ...]:
        """What the back end cannot prevent on this machine."""

    @abstractmethod
    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch: ...

    def ended(self, launch: Launch) -> None:  # noqa: B027 - most back ends keep no state
        """Called after the command has ended."""


@contextmanager
def launched(
    backend: Backend,
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    confinement: Confinement,
) -> Iterator[Launch]:
    """The launch is valid inside the context. Reads directories; run it in a thread."""
    with placeholders(confinement.protected) if backend.mounts else nullcontext():
        launch = backend.launch(command, directory, _inside(backend, environment, confinement), confinement)
        try:
            yield launch
        finally:
            backend.ended(launch)
            for descriptor in launch.descriptors:
                os.close(descriptor)


class Bubblewrap(Backend):
    """The program `bwrap`: mount, process, IPC, user and network namespaces, and a system call filter."""

    name = "bubblewrap"
    mounts = True

    def __init__(self, program: str | None = None) -> None:
        _linux_only()
        found = program or next((path for folder in SYSTEM_FOLDERS if is_program(path := f"{folder}/bwrap")), None)
        if found is None:
            raise SandboxUnavailable("bwrap is not installed")
        self._program = found
        self._running: dict[int, Confinement] = {}
        self._guard = Lock()

    def gaps(self) -> tuple[str, ...]:
        return (UNIX_GAP, ABSTRACT_GAP)

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        wrapped = _relayed(_absolute(command, environment), confinement)
        calls = _memory_file(_program("all", shared=False))
        try:
            with self._guard:
                steady = self._steady(confinement)
                arguments = arguments_of(steady)
                self._running[calls] = steady
        except OSError:
            os.close(calls)
            raise
        options = (*arguments, "--chdir", str(directory), "--seccomp", str(calls))
        return Launch((self._program, *options, "--", *wrapped), environment, (calls,))

    def ended(self, launch: Launch) -> None:
        with self._guard:
            self._running.pop(launch.descriptors[0], None)

    def _steady(self, confinement: Confinement) -> Confinement:
        """Leave out paths that a running command could replace by symbolic links, because bwrap follows links. Such a
        path is protected only for commands that start after that command has ended."""
        protected, writable = set(confinement.protected), set(confinement.writable)
        for other in self._running.values():
            if writable & set(other.writable):
                protected &= set(other.protected)
                writable = {path for path in writable if path in other.writable or not writable & set(path.parents)}
        # Existing paths only: a missing path is not a mount point, so it is not protected for later commands.
        return confinement.replace(
            protected=tuple(path for path in confinement.protected if path in protected and os.path.lexists(path)),
            writable=tuple(path for path in confinement.writable if path in writable),
        )


def arguments_of(confinement: Confinement) -> list[str]:
    """Arguments for bwrap. Without `--new-session`: every command already leads a session without a terminal, and
    signals to the group must reach it."""
    spaces = ["user", "ipc", "pid", "uts", *([] if confinement.network == "on" else ["net"])]
    found = [*(f"--unshare-{space}" for space in spaces), "--unshare-cgroup-try", "--die-with-parent"]
    found += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    hidden = ["/proc"]
    for mount in mounts(confinement):
        match mount.kind:
            case "write":
                found += ["--bind", mount.source, mount.target]
            case "read":
                found += ["--ro-bind", mount.source, mount.target]
            case "nothing":
                found += ["--ro-bind", "/dev/null", mount.target]
            case "empty":
                found += ["--tmpfs", mount.target]
                hidden.append(mount.target)
    return [*found, *(word for path in hidden for word in ("--remount-ro", path))]


class Namespaces(Backend):
    """Our launcher: the same namespaces and filter, and Landlock in addition."""

    name = "namespaces"
    mounts = True

    def __init__(self) -> None:
        _linux_only()
        self._abi = landlock.version()

    def gaps(self) -> tuple[str, ...]:
        return (UNIX_GAP,) if self._abi >= 6 else (UNIX_GAP, ABSTRACT_GAP)

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        rules = landlock.within_namespaces(confinement, self._abi) if self._abi else None
        spec = {
            "namespaces": True,
            "own_network": confinement.network != "on",
            "mounts": [(mount.kind, mount.target, mount.source) for mount in mounts(confinement)],
            "seccomp": _program("all", shared=False),
        }
        return _start(spec, _relayed(_absolute(command, environment), confinement), directory, environment, rules)


class LandlockAlone(Backend):
    """Our launcher with Landlock and the filter only, for systems without user namespaces."""

    name = "landlock"

    def __init__(self) -> None:
        _linux_only()
        self._abi = landlock.version()
        if self._abi == 0:
            raise SandboxUnavailable("the kernel has no Landlock")

    def gaps(self) -> tuple[str, ...]:
        return (*LANDLOCK_GAPS, *landlock.missing(self._abi))

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        rules = landlock.alone(confinement, self._abi)
        sockets: seccomp.Sockets = "internet" if confinement.network == "on" else "none"
        spec = {"namespaces": False, "seccomp": _program(sockets, shared=True)}
        return _start(spec, _absolute(command, environment), directory, environment, rules)


class SandboxExec(Backend):
    """The program `sandbox-exec` of macOS."""

    name = "sandbox-exec"

    def __init__(self) -> None:
        if sys.platform != "darwin":
            raise SandboxUnavailable("sandbox-exec is a program of macOS")

    def gaps(self) -> tuple[str, ...]:
        return ("processes of the user can be seen and signalled",)

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        from holdfast.core.process.sandbox.seatbelt import profile

        return Launch(("/usr/bin/sandbox-exec", "-p", profile(confinement), *command), environment)


def _start(
    spec: dict[str, Any],
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    rules: landlock.Ruleset | None,
) -> Launch:
    whole = {
        **spec,
        "command": list(command),
        "directory": str(directory),
        "environment": dict(environment),
        "landlock": None if rules is None else (rules.filesystem, rules.network, rules.scoped, rules.rules),
    }
    handle = _memory_file(marshal.dumps((_launcher(), whole)))
    # The launcher is not confined yet, so the command's environment must not influence it.
    own = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return Launch((_interpreter(), "-I", "-S", "-c", START.format(handle)), own, (handle,))


def _relayed(command: Sequence[str], confinement: Confinement) -> tuple[str, ...]:
    """With a proxy, run the command through a relay that listens on a port inside the sandbox."""
    if confinement.proxy is None:
        return tuple(command)
    text = Path(__file__).with_name("relay.py").read_text(encoding="utf-8")
    code = marshal.dumps(compile(text, "relay", "exec"))
    start = RELAY.format(code.hex())
    return (_interpreter(), "-I", "-S", "-c", start, str(confinement.proxy), str(PROXY_PORT), *command)


def _inside(backend: Backend, environment: Mapping[str, str], confinement: Confinement) -> dict[str, str]:
    """The environment without variables for host services, with temporary and cache directories."""
    services = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST")
    kept = {name: value for name, value in environment.items() if name not in services}
    folder = "/tmp" if backend.mounts else str(confinement.temporary)
    temporary = {"TMPDIR": folder, "TMP": folder, "TEMP": folder}
    caches = {"XDG_CACHE_HOME": f"{folder}/cache", "npm_config_cache": f"{folder}/cache/npm"}
    proxies: dict[str, str] = {}
    if confinement.network != "on":
        kept = {name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}
        if confinement.proxy is not None:
            names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
            proxies = dict.fromkeys(names, f"http://127.0.0.1:{PROXY_PORT}")
    return {**kept, **temporary, **caches, **proxies}


def _absolute(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    found = which(command[0], environment.get("PATH"))
    if found is None:
        raise SandboxUnavailable(f"{command[0]} is not a program")
    return (os.path.abspath(found), *command[1:])


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("holdfast-sandbox", os.MFD_CLOEXEC)
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


@cache
def _program(sockets: seccomp.Sockets, *, shared: bool) -> bytes:
    return seccomp.program(os.uname().machine, sockets=sockets, shared=shared)


def _interpreter() -> str:
    """The interpreter outside the virtual environment, which a command may be able to write to."""
    return os.path.realpath(sys.executable)


@cache
def _launcher() -> Any:
    """Compiled once per process."""
    path = Path(__file__).with_name("launcher.py")
    return compile(path.read_text(encoding="utf-8"), "launcher", "exec")


def _linux_only() -> None:
    if not hasattr(os, "memfd_create"):
        raise SandboxUnavailable("it needs Linux")
