"""The mechanisms that can confine a command: each turns a command and its confinement into what to execute."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.process.sandbox import landlock, seccomp
from holdfast.core.process.sandbox.confinement import Confinement, Launch, SandboxUnavailable
from holdfast.core.process.sandbox.mounts import mounts
from holdfast.core.process.sandbox.placeholder import placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin", "/run/current-system/sw/bin")
"""Where a program that confines others may be. Not the PATH: a command may be able to write in one of its folders."""
UNIX_GAP = "Unix sockets outside /run and /tmp can be reached"
ABSTRACT_GAP = "with network on, abstract Unix sockets of the host can be reached"
LANDLOCK_GAPS = (
    "modes and times of the user's own files can be changed everywhere",
    "names of files and command lines of processes can be seen everywhere",
)
PROXY_PORT = 3128
START = "import marshal as m,posix as p;c,s=m.loads(p.read({0},1<<26));p.close({0});exec(c);main(s)"
RELAY = "import marshal as m;exec(m.loads(bytes.fromhex({0!r})));run()"


class Backend(Protocol):
    name: str
    mounts: bool
    """Whether commands see a file system of their own. Then `network: proxy` can be enforced, their temporary directory
    is `/tmp`, and protected names need placeholders."""

    def gaps(self) -> tuple[str, ...]:
        """What it cannot prevent on this machine."""

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch: ...

    def ended(self, launch: Launch) -> None:
        """The command is over."""


@contextmanager
def launched(
    backend: Backend,
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    confinement: Confinement,
) -> Iterator[Launch]:
    """Valid until the command has ended. Reads directories, so it belongs into a thread."""
    with placeholders(confinement.protected) if backend.mounts else nullcontext():
        launch = backend.launch(command, directory, _inside(backend, environment, confinement), confinement)
        try:
            yield launch
        finally:
            backend.ended(launch)
            for descriptor in launch.descriptors:
                os.close(descriptor)


class Bubblewrap:
    """The program `bwrap`: mount, process, IPC, user and network namespaces, and a filter of system calls."""

    name = "bubblewrap"
    mounts = True

    def __init__(self, program: str | None = None) -> None:
        _linux_only()
        found = program or next((path for folder in SYSTEM_FOLDERS if _is_program(path := f"{folder}/bwrap")), None)
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
        """bwrap follows symbolic links, so it is given no path that a command which runs now could turn into one: what
        that command may still change is protected from the first command on that starts after its end."""
        protected, writable = set(confinement.protected), set(confinement.writable)
        for other in self._running.values():
            if writable & set(other.writable):
                protected &= set(other.protected)
                writable = {path for path in writable if path in other.writable or not writable & set(path.parents)}
        # Only what exists: a missing path is no mount point, so it does not hold for the next one either.
        return confinement.replace(
            protected=tuple(path for path in confinement.protected if path in protected and os.path.lexists(path)),
            writable=tuple(path for path in confinement.writable if path in writable),
        )


def arguments_of(confinement: Confinement) -> list[str]:
    """For bwrap. Its own new session is not asked for: every command already leads one, without a terminal, and signals
    to the group have to reach the command."""
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


class Namespaces:
    """Our launcher: the same namespaces and filter, and Landlock as a second line of defence."""

    name = "namespaces"
    mounts = True

    def __init__(self) -> None:
        _linux_only()
        self._abi = landlock.version()

    def ended(self, launch: Launch) -> None:
        return None

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


class LandlockAlone:
    """Our launcher with Landlock and the filter only, where namespaces are not allowed."""

    name = "landlock"
    mounts = False

    def __init__(self) -> None:
        _linux_only()
        self._abi = landlock.version()
        if self._abi == 0:
            raise SandboxUnavailable("the kernel has no Landlock")

    def ended(self, launch: Launch) -> None:
        return None

    def gaps(self) -> tuple[str, ...]:
        return (*LANDLOCK_GAPS, *landlock.missing(self._abi))

    def launch(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], confinement: Confinement
    ) -> Launch:
        rules = landlock.alone(confinement, self._abi)
        sockets: seccomp.Sockets = "internet" if confinement.network == "on" else "none"
        spec = {"namespaces": False, "seccomp": _program(sockets, shared=True)}
        return _start(spec, _absolute(command, environment), directory, environment, rules)


class SandboxExec:
    """The program `sandbox-exec` of macOS."""

    name = "sandbox-exec"
    mounts = False

    def __init__(self) -> None:
        if sys.platform != "darwin":
            raise SandboxUnavailable("sandbox-exec is a program of macOS")

    def ended(self, launch: Launch) -> None:
        return None

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
    import marshal

    whole = {
        **spec,
        "command": list(command),
        "directory": str(directory),
        "environment": dict(environment),
        "landlock": None if rules is None else (rules.filesystem, rules.network, rules.scoped, rules.rules),
    }
    handle = _memory_file(marshal.dumps((_launcher(), whole)))
    # The launcher is not confined yet, so nothing of the command's environment may steer it.
    own = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return Launch((_interpreter(), "-I", "-S", "-c", START.format(handle)), own, (handle,))


def _relayed(command: Sequence[str], confinement: Confinement) -> tuple[str, ...]:
    """With a proxy, the way to it is opened from the inside, before the command."""
    if confinement.proxy is None:
        return tuple(command)
    import marshal

    text = Path(__file__).with_name("relay.py").read_text(encoding="utf-8")
    code = marshal.dumps(compile(text, "relay", "exec"))
    start = RELAY.format(code.hex())
    return (_interpreter(), "-I", "-S", "-c", start, str(confinement.proxy), str(PROXY_PORT), *command)


def _inside(backend: Backend, environment: Mapping[str, str], confinement: Confinement) -> dict[str, str]:
    """Without ways to services of the host, with places to write temporary and cached files to."""
    names = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST")
    kept = {name: value for name, value in environment.items() if name not in names}
    folder = "/tmp" if backend.mounts else str(confinement.temporary)
    temporary = {"TMPDIR": folder, "TMP": folder, "TEMP": folder}
    caches = {"XDG_CACHE_HOME": f"{folder}/cache", "npm_config_cache": f"{folder}/cache/npm"}
    if confinement.network == "on":
        return {**kept, **temporary, **caches}
    kept = {name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}
    if confinement.proxy is None:
        return {**kept, **temporary, **caches}
    address = f"http://127.0.0.1:{PROXY_PORT}"
    ways = {name: address for base in ("http_proxy", "https_proxy") for name in (base, base.upper())}
    return {**kept, **temporary, **caches, **ways}


def _absolute(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    from holdfast.core.process.which import which

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
    """Without the virtual environment around it, which may lie in a project and be written by a command."""
    return os.path.realpath(sys.executable)


@cache
def _launcher() -> Any:
    """Compiled once, and from then on independent of the file."""
    path = Path(__file__).with_name("launcher.py")
    return compile(path.read_text(encoding="utf-8"), "launcher", "exec")


def _linux_only() -> None:
    if not hasattr(os, "memfd_create"):
        raise SandboxUnavailable("it needs Linux")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
