"""Confines itself and executes a command. A separate program, never imported by the runtime.

It is executed as compiled code by an interpreter without site packages, and imports only built-in modules: `os`,
`ctypes` and `typing` would add 15 ms to every command. Nothing of Holdfast can be imported here.

Invariants
- Any failure before the command is executed ends the process with code 125: a command never runs partly confined.
- The first process stays outside the confinement and waits. When the command ends, all its processes are killed; the
  first process exits with the command's exit code or signal.
- With namespaces there are three processes: this one, the init of the pid namespace, and the command."""

from __future__ import annotations

import _ctypes
import _signal  # type: ignore[import-not-found]
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FAILED = 125
TERM_SECONDS = 2.5
"""Must be shorter than the runtime's wait between SIGTERM and SIGKILL."""
SWEEPS = 2000

NEW_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x00020000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 16384, 1 << 18
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH, MOUNT_ATTR_RDONLY = 1, 4, 0x40, 1
O_PATH, RESOLVE_NO_SYMLINKS = 0o10000000, 4
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
NUMBERS = {
    "x86_64": {"mount": 165, "unshare": 272, "prctl": 157, "capset": 126, "ioctl": 16},
    "aarch64": {"mount": 40, "unshare": 97, "prctl": 167, "capset": 91, "ioctl": 29},
}
SHARED = {
    **dict(open_tree=428, move_mount=429, openat2=437, mount_setattr=442),
    **dict(landlock_create_ruleset=444, landlock_add_rule=445, landlock_restrict_self=446),
}


class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class Function(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention, and errno is kept
    _restype_ = Long


class Kernel:
    def __init__(self, machine: str) -> None:
        self._numbers = {**SHARED, **NUMBERS[machine]}
        self._syscall: Any = Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type]

    def __call__(self, name: str, *arguments: int | bytes | None) -> int:
        given = [Long(each) if isinstance(each, int) else each for each in arguments]
        result = int(self._syscall(Long(self._numbers[name]), *given))
        if result < 0:
            number = _ctypes.get_errno()
            raise OSError(number, f"{name}: {posix.strerror(number)}")
        return result

    def prctl(self, option: int, value: int = 0, pointer: int | bytes = 0) -> None:
        self("prctl", option, value, pointer, 0, 0)


def main(spec: dict[str, Any]) -> None:
    try:
        launch(Kernel(posix.uname().machine), spec)
    except BaseException as error:  # noqa: BLE001 - a command must not run partly confined
        fail(error)


def fail(error: BaseException) -> None:
    posix.write(2, f"holdfast: the sandbox could not be set up: {error}\n".encode("utf-8", "replace"))
    posix._exit(FAILED)


def launch(kernel: Kernel, spec: dict[str, Any]) -> None:
    if spec["namespaces"]:
        enter_namespaces(kernel, spec)
    else:
        kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
    ends = posix.pipe()
    for end in ends:
        posix.set_inheritable(end, False)
    child = posix.fork()
    if child:
        posix.close(ends[1])
        supervise(kernel, child, ends[0], spec["namespaces"])
    try:
        if spec["namespaces"]:
            kernel.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
            mount(kernel, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
            run_init(ends[1])
        execute(kernel, spec)
    except BaseException as error:  # noqa: BLE001 - a command must not run partly confined
        fail(error)


def run_init(report: int) -> None:
    """The init of the pid namespace: fork, return in the child, reap all processes and report the child's status."""
    command = posix.fork()
    if command == 0:
        return
    while True:
        ended, status = posix.waitpid(-1, 0)
        if ended == command:
            posix.write(report, status.to_bytes(4, "little"))
            posix._exit(0)


def execute(kernel: Kernel, spec: dict[str, Any]) -> None:
    posix.chdir(spec["directory"])
    drop_capabilities(kernel)
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    if spec["landlock"] is not None:
        restrict(kernel, *spec["landlock"])
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores them, and the command would inherit that
    filter_calls(kernel, spec["seccomp"])
    posix.execve(spec["command"][0], spec["command"], spec["environment"])


def supervise(kernel: Kernel, child: int, report: int, namespaces: bool) -> None:
    def end(number: int, frame: object) -> None:
        _signal.setitimer(_signal.ITIMER_REAL, TERM_SECONDS)

    def kill(number: int, frame: object) -> None:
        posix.kill(child, _signal.SIGKILL)

    for number in (_signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)
    _signal.signal(_signal.SIGALRM, kill)
    _signal.signal(_signal.SIGTERM, end)  # the command got the signal too, and has until the alarm to exit
    while True:
        ended, status = posix.waitpid(-1, 0)
        if ended == child:
            break
    if namespaces:
        told = posix.read(report, 4)
        status = int.from_bytes(told, "little") if told else status
    else:
        kill_descendants()
    finish(kernel, status)


def kill_descendants() -> None:
    """Kill all remaining processes. Orphans become children of this process, so none is missed, whatever they changed
    in their environment, session or group."""
    for _ in range(SWEEPS):
        try:
            handle = posix.open("/proc/thread-self/children", posix.O_RDONLY)
        except OSError:
            return  # not supported by this kernel: the runtime still kills the group and marked processes
        children = posix.read(handle, 1 << 16).split()
        posix.close(handle)
        if not children:
            return
        for pid in children:
            posix.kill(int(pid), _signal.SIGKILL)
        for _ in children:
            posix.waitpid(-1, 0)


def finish(kernel: Kernel, status: int) -> None:
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        kernel.prctl(PR_SET_DUMPABLE, 0)  # no core file of this process
        posix.kill(posix.getpid(), number)
    posix._exit(posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else FAILED)


def enter_namespaces(kernel: Kernel, spec: dict[str, Any]) -> None:
    user, group = posix.geteuid(), posix.getegid()
    kernel("unshare", NEW_NAMESPACES | (CLONE_NEWNET if spec["own_network"] else 0))
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")
    if spec["own_network"]:
        raise_loopback(kernel)
    mount(kernel, None, "/", None, MS_REC | MS_PRIVATE)
    # Open all sources before mounting: a mount could cover one of them.
    devices = [(name, open_tree(kernel, f"/dev/{name}")) for name in DEVICES]
    null = open_tree(kernel, "/dev/null")
    trees = [open_tree(kernel, source) if kind in ("write", "read") else -1 for kind, _, source in spec["mounts"]]
    set_read_only(kernel, AT_FDCWD, "/", AT_RECURSIVE)
    make_devices(kernel, devices)
    hidden = []
    for (kind, target, _), tree in zip(spec["mounts"], trees, strict=True):
        if kind == "empty":
            make_directory(target)
            place = open_path(kernel, target)
            mount(kernel, "tmpfs", f"/proc/self/fd/{place}", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
            posix.close(place)
            hidden.append(target)
        elif kind == "nothing":
            attach(kernel, null, target)
            null = open_tree(kernel, "/dev/null")
        else:
            if kind == "read":
                set_read_only(kernel, tree, "", AT_EMPTY_PATH | AT_RECURSIVE)
            attach(kernel, tree, target)
    for target in hidden:
        set_read_only(kernel, AT_FDCWD, target, 0)


def make_devices(kernel: Kernel, devices: list[tuple[str, int]]) -> None:
    mount(kernel, "tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755")
    for name, tree in devices:
        posix.close(posix.open(f"/dev/{name}", posix.O_CREAT | posix.O_RDONLY, 0o600))
        attach(kernel, tree, f"/dev/{name}")
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        posix.symlink(f"/proc/self/{target}", f"/dev/{name}")
    posix.mkdir("/dev/shm", 0o777)
    posix.mkdir("/dev/pts", 0o755)
    mount(kernel, "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    posix.symlink("pts/ptmx", "/dev/ptmx")


def open_tree(kernel: Kernel, path: str) -> int:
    place = open_path(kernel, path)
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | AT_EMPTY_PATH | posix.O_CLOEXEC
    tree = kernel("open_tree", place, b"\0", flags)
    posix.close(place)
    return tree


def open_path(kernel: Kernel, path: str) -> int:
    """Fails on symbolic links: paths were resolved before, so a link was swapped in by another command."""
    how = b"".join(value.to_bytes(8, sys.byteorder) for value in (O_PATH | posix.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS))
    return kernel("openat2", AT_FDCWD, encoded(path), how, len(how))


def attach(kernel: Kernel, tree: int, target: str) -> None:
    if not exists(target):
        if is_directory(f"/proc/self/fd/{tree}"):
            make_directory(target)
        else:
            make_directory(target.rpartition("/")[0])
            posix.close(posix.open(target, posix.O_CREAT | posix.O_RDONLY, 0o600))
    place = open_path(kernel, target)
    kernel("move_mount", tree, b"\0", place, b"\0", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
    posix.close(place)
    posix.close(tree)


def set_read_only(kernel: Kernel, folder: int, path: str, flags: int) -> None:
    attributes = MOUNT_ATTR_RDONLY.to_bytes(8, sys.byteorder) + bytes(24)
    kernel("mount_setattr", folder, encoded(path), flags, attributes, len(attributes))


def mount(kernel: Kernel, source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    given = [None if text is None else encoded(text) for text in (source, target, kind)]
    kernel("mount", given[0], given[1], given[2], flags, encoded(data) if data else None)


def raise_loopback(kernel: Kernel) -> None:
    import _socket

    with_flags = b"lo".ljust(16, b"\0") + (1).to_bytes(2, sys.byteorder) + bytes(22)
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    kernel("ioctl", connection.fileno(), 0x8914, with_flags)
    connection.close()


def make_directory(path: str) -> None:
    if path and not exists(path):
        make_directory(path.rpartition("/")[0])
        posix.mkdir(path, 0o755)


def exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def is_directory(path: str) -> bool:
    return posix.stat(path).st_mode & 0o170000 == 0o040000


def write(path: str, text: str) -> None:
    handle = posix.open(path, posix.O_WRONLY)
    posix.write(handle, text.encode())
    posix.close(handle)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") + b"\0"


def drop_capabilities(kernel: Kernel) -> None:
    """Drop all capabilities, including those that root would regain by executing a program."""
    try:
        for capability in range(64):
            kernel.prctl(PR_CAPBSET_DROP, capability)
    except OSError:
        pass  # beyond the last capability, or this user has none to drop
    kernel.prctl(PR_CAP_AMBIENT, 4)
    header = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
    kernel("capset", header, bytes(24))


def restrict(kernel: Kernel, filesystem: int, network: int, scoped: int, rules: list[tuple[str, int]]) -> None:
    attributes = b"".join(value.to_bytes(8, sys.byteorder) for value in (filesystem, network, scoped))
    size = 24 if scoped else 16 if network else 8
    ruleset = kernel("landlock_create_ruleset", attributes[:size], size, 0)
    for path, rights in rules:
        try:
            place = posix.open(path, posix.O_CLOEXEC | posix.O_NOFOLLOW | O_PATH)
        except OSError:
            continue  # removed since it was listed, or inaccessible: no rights there
        rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        try:
            kernel("landlock_add_rule", ruleset, 1, rule, 0)
        finally:
            posix.close(place)
    kernel("landlock_restrict_self", ruleset, 0)
    posix.close(ruleset)


def filter_calls(kernel: Kernel, program: bytes) -> None:
    if len(program) % 8 or not program:
        raise ValueError("the filter of system calls is damaged")
    buffer = Buffer(program)
    prog = (len(program) // 8).to_bytes(8, sys.byteorder) + buffer.address.to_bytes(8, sys.byteorder)
    kernel.prctl(PR_SET_SECCOMP, 2, prog)


class Buffer:
    """Bytes at a known address."""

    def __init__(self, data: bytes) -> None:
        class Bytes(_ctypes.Array):  # type: ignore[type-arg]
            _type_ = Byte
            _length_ = len(data)

        self._kept: Any = Bytes(*data)
        self.address: int = _ctypes.addressof(self._kept)


class Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"
