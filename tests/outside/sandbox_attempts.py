"""A program that tries to leave its sandbox, one way after another, and prints what came of it as JSON. It is run by
the tests as a command of an agent. An attempt that returns something true has succeeded; what it raises is why not."""

from __future__ import annotations

import array
import ctypes
import fcntl
import glob
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

Attempt = Callable[[dict[str, Any]], Any]
ATTEMPTS: dict[str, Attempt] = {}
LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {
        "ptrace": 101,
        "process_vm_readv": 310,
        "pivot_root": 155,
        "setns": 308,
        "keyctl": 250,
        "add_key": 248,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "init_module": 175,
        "kexec_load": 246,
        "clock_settime": 227,
        "open_by_handle_at": 304,
        "clone": 56,
        "shmget": 29,
        "shmat": 30,
        "getpid": 39,
    },
    "aarch64": {
        "ptrace": 117,
        "process_vm_readv": 270,
        "pivot_root": 41,
        "setns": 268,
        "keyctl": 219,
        "add_key": 217,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "init_module": 105,
        "kexec_load": 104,
        "clock_settime": 112,
        "open_by_handle_at": 265,
        "clone": 220,
        "shmget": 194,
        "shmat": 196,
        "getpid": 172,
    },
}[os.uname().machine]


def attempt(name: str) -> Callable[[Attempt], Attempt]:
    def add(function: Attempt) -> Attempt:
        ATTEMPTS[name] = function
        return function

    return add


def syscall(name: str | int, *arguments: Any) -> int:
    number = NUMBERS[name] if isinstance(name, str) else name
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *given))
    return checked(result)


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path: str, text: str = "escaped\n", flags: int = os.O_CREAT) -> bool:
    handle = os.open(path, os.O_WRONLY | flags, 0o644)
    os.write(handle, text.encode())
    os.close(handle)
    return True


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(4096)


def run(*command: str, **options: Any) -> bool:
    ended = subprocess.run(command, capture_output=True, text=True, **options)
    if ended.returncode:
        raise OSError((ended.stderr.strip() or f"code {ended.returncode}").splitlines()[-1])
    return True


# -- files outside ---------------------------------------------------------------------------------------------------


@attempt("create a file in the home directory")
def _(given: dict[str, Any]) -> Any:
    return write(f"{given['home']}/created")


@attempt("overwrite a file outside")
def _(given: dict[str, Any]) -> Any:
    return write(given["outside"], flags=os.O_TRUNC)


@attempt("append to a file outside")
def _(given: dict[str, Any]) -> Any:
    return write(given["outside"], flags=os.O_APPEND)


@attempt("truncate a file outside")
def _(given: dict[str, Any]) -> Any:
    os.truncate(given["outside"], 0)
    return True


@attempt("empty a file outside by opening it for reading")
def _(given: dict[str, Any]) -> Any:
    os.close(os.open(given["outside"], os.O_RDONLY | os.O_TRUNC))
    return os.stat(given["outside"]).st_size == 0


@attempt("delete a file outside")
def _(given: dict[str, Any]) -> Any:
    os.unlink(given["outside"])
    return True


@attempt("rename a file outside")
def _(given: dict[str, Any]) -> Any:
    os.rename(given["outside"], given["outside"] + ".moved")
    return True


@attempt("move a project file over one outside")
def _(given: dict[str, Any]) -> Any:
    write("src/moving")
    os.rename("src/moving", given["outside"])
    return True


@attempt("write through a symbolic link")
def _(given: dict[str, Any]) -> Any:
    os.symlink(given["outside"], "src/link")
    return write("src/link", flags=0)


@attempt("write through a hard link")
def _(given: dict[str, Any]) -> Any:
    os.link(given["outside"], "src/hard")
    return write("src/hard", flags=0)


@attempt("append to ~/.bashrc")
def _(given: dict[str, Any]) -> Any:
    return write(f"{given['home']}/.bashrc", "evil\n", os.O_APPEND)


@attempt("change the mode of a file outside")
def _(given: dict[str, Any]) -> Any:
    os.chmod(given["outside"], 0o666)
    return True


@attempt("write to /etc/ld.so.preload")
def _(given: dict[str, Any]) -> Any:
    return write("/etc/ld.so.preload", "", os.O_CREAT)


@attempt("install a crontab")
def _(given: dict[str, Any]) -> Any:
    return write("/var/spool/cron/holdfast-test") or write("/etc/cron.d/holdfast-test")


@attempt("queue a job for at")
def _(given: dict[str, Any]) -> Any:
    return write("/var/spool/at/holdfast-test") or write("/var/spool/cron/atjobs/holdfast-test")


@attempt("write to /sys")
def _(given: dict[str, Any]) -> Any:
    return any(write(path, "1", 0) for path in glob.glob("/sys/kernel/mm/ksm/run")) or write("/sys/holdfast")


# -- secrets ---------------------------------------------------------------------------------------------------------


@attempt("read ~/.ssh/id_rsa")
def _(given: dict[str, Any]) -> Any:
    return read(f"{given['home']}/.ssh/id_rsa")


@attempt("read ~/.ssh/id_rsa through a symbolic link")
def _(given: dict[str, Any]) -> Any:
    os.symlink(f"{given['home']}/.ssh", "src/keys")
    return read("src/keys/id_rsa")


@attempt("read ~/.ssh/id_rsa through /proc/self/root")
def _(given: dict[str, Any]) -> Any:
    return read(f"/proc/self/root{given['home']}/.ssh/id_rsa")


@attempt("read ~/.ssh/id_rsa through /proc/1/root")
def _(given: dict[str, Any]) -> Any:
    return read(f"/proc/1/root{given['home']}/.ssh/id_rsa")


@attempt("read ~/.netrc")
def _(given: dict[str, Any]) -> Any:
    return "secret" in read(f"{given['home']}/.netrc")


@attempt("read the credentials of Holdfast")
def _(given: dict[str, Any]) -> Any:
    return read(f"{given['home']}/data/holdfast/credentials.json")


@attempt("read the database of Holdfast")
def _(given: dict[str, Any]) -> Any:
    return read(f"{given['home']}/data/holdfast/holdfast.db")


@attempt("read the user's configuration")
def _(given: dict[str, Any]) -> Any:
    return read(f"{given['home']}/config/opencode/opencode.json")


@attempt("read a disk")
def _(given: dict[str, Any]) -> Any:
    refused: OSError = FileNotFoundError("there is none")
    for path in [*glob.glob("/dev/[svx]d*"), *glob.glob("/dev/nvme*"), "/dev/mem", "/dev/loop0"]:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            refused = error
    raise refused


@attempt("read a file in /tmp of the host")
def _(given: dict[str, Any]) -> Any:
    return read(given["temporary"])


@attempt("write a file in /tmp of the host")
def _(given: dict[str, Any]) -> Any:
    return write(given["temporary"], flags=0)


@attempt("read shared memory of the host in /dev/shm")
def _(given: dict[str, Any]) -> Any:
    return read(given["shm"])


@attempt("attach System V shared memory of the host")
def _(given: dict[str, Any]) -> Any:
    return syscall("shmget", given["shm_key"], 4096, 0o600) >= 0


# -- other processes -------------------------------------------------------------------------------------------------


@attempt("read /proc/PID/environ of another process")
def _(given: dict[str, Any]) -> Any:
    return "DECOY" in read(f"/proc/{given['decoy']}/environ")


def ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])


@attempt("read the environment of the runtime")
def _(given: dict[str, Any]) -> Any:
    refused: OSError = PermissionError("the runtime cannot be seen")
    for pid in ancestors():
        try:
            if "HOLDFAST_SCRIPT" in read(f"/proc/{pid}/environ"):
                return True
        except OSError as error:
            refused = error
    raise refused


@attempt("use /proc/PID/root of another process")
def _(given: dict[str, Any]) -> Any:
    return os.listdir(f"/proc/{given['decoy']}/root")


@attempt("use /proc/PID/cwd of another process")
def _(given: dict[str, Any]) -> Any:
    return write(f"/proc/{given['decoy']}/cwd/created")


@attempt("open /proc/PID/mem of another process")
def _(given: dict[str, Any]) -> Any:
    return os.open(f"/proc/{given['decoy']}/mem", os.O_RDWR)


@attempt("ptrace another process")
def _(given: dict[str, Any]) -> Any:
    return syscall("ptrace", 16, given["decoy"], 0, 0) == 0


@attempt("ptrace at all")
def _(given: dict[str, Any]) -> Any:
    return syscall("ptrace", 0, 0, 0, 0) == 0


@attempt("process_vm_readv")
def _(given: dict[str, Any]) -> Any:
    return syscall("process_vm_readv", given["decoy"], None, 0, None, 0, 0) >= 0


@attempt("kill another process")
def _(given: dict[str, Any]) -> Any:
    os.kill(given["decoy"], signal.SIGTERM)
    return True


@attempt("kill the runtime")
def _(given: dict[str, Any]) -> Any:
    refused: OSError = ProcessLookupError("the runtime cannot be seen")
    for pid in ancestors():
        if "--sandbox" in read(f"/proc/{pid}/cmdline"):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError as error:
                refused = error
            else:
                return True
    raise refused


@attempt("signal through a pidfd")
def _(given: dict[str, Any]) -> Any:
    signal.pidfd_send_signal(os.pidfd_open(given["decoy"]), signal.SIGTERM)
    return True


@attempt("change limits of another process")
def _(given: dict[str, Any]) -> Any:
    import resource

    return resource.prlimit(given["decoy"], resource.RLIMIT_NOFILE, (10, 10))


@attempt("inherited descriptors")
def _(given: dict[str, Any]) -> Any:
    return [name for name in given["descriptors"] if int(name) > 2]


# -- the network -----------------------------------------------------------------------------------------------------


@attempt("TCP to the host")
def _(given: dict[str, Any]) -> Any:
    return socket.create_connection(("127.0.0.1", given["tcp"]), 2)


@attempt("TCP over IPv6 to the host")
def _(given: dict[str, Any]) -> Any:
    return socket.create_connection(("::1", given["tcp6"]), 2)


@attempt("UDP to the host")
def _(given: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("127.0.0.1", given["udp"]))
        out.send(b"escaped")
        out.settimeout(0.3)
        return out.recv(16)  # the host answers what arrives


@attempt("TCP to the internet")
def _(given: dict[str, Any]) -> Any:
    return socket.create_connection(("192.0.2.1", 80), 2)


@attempt("a raw socket")
def _(given: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attempt("a packet socket")
def _(given: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


@attempt("a netlink socket for device events")
def _(given: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)


@attempt("a socket to the hypervisor")
def _(given: dict[str, Any]) -> Any:
    return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)


@attempt("an abstract Unix socket of the host")
def _(given: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect("\0" + given["abstract"])
        return True


@attempt("a Unix socket of the host, as docker.sock")
def _(given: dict[str, Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(given["unix"])
        return True


# -- the kernel ------------------------------------------------------------------------------------------------------


@attempt("bind mount")
def _(given: dict[str, Any]) -> Any:
    return checked(LIBC.mount(given["home"].encode(), b"src", None, 4096, None)) == 0


@attempt("remount the root writable")
def _(given: dict[str, Any]) -> Any:
    return checked(LIBC.mount(b"", b"/", None, 32 | 4096, None)) == 0


@attempt("unmount what hides ~/.ssh")
def _(given: dict[str, Any]) -> Any:
    return checked(LIBC.umount2(f"{given['home']}/.ssh".encode(), 2)) == 0


@attempt("the new mount calls")
def _(given: dict[str, Any]) -> Any:
    return syscall(428, -100, b"/\0", 1) >= 0


@attempt("a new user namespace")
def _(given: dict[str, Any]) -> Any:
    return checked(LIBC.unshare(0x10000000)) == 0


@attempt("a new user namespace by clone")
def _(given: dict[str, Any]) -> Any:
    pid = syscall("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return True


@attempt("a new user namespace by clone3")
def _(given: dict[str, Any]) -> Any:
    arguments = array.array("Q", [0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0])
    pid = syscall(435, arguments.tobytes(), 64)
    if pid == 0:
        os._exit(0)
    return True


@attempt("enter a namespace of another process")
def _(given: dict[str, Any]) -> Any:
    return syscall("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0) == 0


@attempt("chroot")
def _(given: dict[str, Any]) -> Any:
    os.chroot("src")
    return True


@attempt("pivot_root")
def _(given: dict[str, Any]) -> Any:
    return syscall("pivot_root", b"src\0", b"src\0") == 0


@attempt("make a device")
def _(given: dict[str, Any]) -> Any:
    os.mknod("src/disk", 0o060600, os.makedev(254, 0))
    return True


@attempt("set the setuid bit")
def _(given: dict[str, Any]) -> Any:
    write("src/tool")
    os.chmod("src/tool", 0o4755)
    return True


@attempt("set the setuid bit with fchmodat2")
def _(given: dict[str, Any]) -> Any:
    return syscall(452, -100, b"src/tool\0", 0o4755, 0) == 0


@attempt("create a setuid file")
def _(given: dict[str, Any]) -> Any:
    os.umask(0)
    return os.open("src/tool2", os.O_CREAT | os.O_WRONLY, 0o4755)


@attempt("capabilities")
def _(given: dict[str, Any]) -> Any:
    status = read("/proc/self/status")
    found = [line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff", "CapBnd"))]
    return "NoNewPrivs:\t1" not in status or int(found[1], 16) or int(found[0], 16)


@attempt("core_pattern")
def _(given: dict[str, Any]) -> Any:
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attempt("sysrq")
def _(given: dict[str, Any]) -> Any:
    return os.open("/proc/sysrq-trigger", os.O_WRONLY)


@attempt("keyring")
def _(given: dict[str, Any]) -> Any:
    return syscall("add_key", b"user\0", b"holdfast\0", b"x", 1, -3) >= 0


@attempt("read the session keyring")
def _(given: dict[str, Any]) -> Any:
    return syscall("keyctl", 0, -3, 0) >= 0


@attempt("io_uring")
def _(given: dict[str, Any]) -> Any:
    return syscall(425, 1, bytes(120)) >= 0


@attempt("bpf")
def _(given: dict[str, Any]) -> Any:
    return syscall("bpf", 0, bytes(64), 64) >= 0


@attempt("perf_event_open")
def _(given: dict[str, Any]) -> Any:
    return syscall("perf_event_open", array.array("I", [1, 112] + [0] * 26).tobytes(), 0, -1, -1, 0) >= 0


@attempt("userfaultfd")
def _(given: dict[str, Any]) -> Any:
    return syscall("userfaultfd", 0) >= 0


@attempt("load a kernel module")
def _(given: dict[str, Any]) -> Any:
    return syscall("init_module", b"", 0, b"\0") == 0


@attempt("load another kernel")
def _(given: dict[str, Any]) -> Any:
    return syscall("kexec_load", 0, 0, None, 0) == 0


@attempt("set the clock")
def _(given: dict[str, Any]) -> Any:
    return syscall("clock_settime", 0, array.array("q", [10**9, 0]).tobytes()) == 0


@attempt("set the host name")
def _(given: dict[str, Any]) -> Any:
    socket.sethostname("escaped")
    return True


@attempt("open a file by its handle")
def _(given: dict[str, Any]) -> Any:
    return syscall("open_by_handle_at", os.open(".", os.O_RDONLY), bytes(16), 0) >= 0


@attempt("system calls of another architecture")
def _(given: dict[str, Any]) -> Any:
    return os.uname().machine == "x86_64" and syscall(0x40000000 | NUMBERS["getpid"]) > 0


@attempt("type into the terminal")
def _(given: dict[str, Any]) -> Any:
    _, slave = os.openpty()
    return fcntl.ioctl(slave, 0x5412, b"x") is not None


@attempt("execute from memory and write outside")
def _(given: dict[str, Any]) -> Any:
    handle = os.memfd_create("program", 0)
    with open("/bin/sh", "rb") as shell:
        os.write(handle, shell.read())
    return run(f"/proc/self/fd/{handle}", "-c", f"echo x >> {given['outside']}", pass_fds=(handle,))


@attempt("a preloaded library that writes outside")
def _(given: dict[str, Any]) -> Any:
    return run("sh", "-c", f"echo x >> {given['outside']}", env={**os.environ, "LD_PRELOAD": "libc.so.6"})


# -- the project's own protected files -------------------------------------------------------------------------------


@attempt("write a git hook")
def _(given: dict[str, Any]) -> Any:
    return write(".git/hooks/pre-commit", "#!/bin/sh\n")


@attempt("write .git/config")
def _(given: dict[str, Any]) -> Any:
    return write(".git/config", "[core]\nfsmonitor = evil\n", os.O_APPEND)


@attempt("git config core.fsmonitor")
def _(given: dict[str, Any]) -> Any:
    return run("git", "config", "core.fsmonitor", "evil")


@attempt("move a file over .git/config")
def _(given: dict[str, Any]) -> Any:
    write("src/config")
    os.rename("src/config", ".git/config")
    return True


@attempt("move .git/hooks away")
def _(given: dict[str, Any]) -> Any:
    os.rename(".git/hooks", ".git/hooks2")
    return True


@attempt("move .git away")
def _(given: dict[str, Any]) -> Any:
    os.rename(".git", "src/git")
    return True


@attempt("write .git/info/attributes")
def _(given: dict[str, Any]) -> Any:
    return write(".git/info/attributes", "* filter=evil\n")


@attempt("git hooks from elsewhere that write outside")
def _(given: dict[str, Any]) -> Any:
    os.makedirs("src/hooks", exist_ok=True)
    write("src/hooks/pre-commit", f"#!/bin/sh\necho x >> {given['outside']}\n")
    os.chmod("src/hooks/pre-commit", 0o755)
    return run("git", "-c", "core.hooksPath=src/hooks", "commit", "--allow-empty", "-m", "x")


@attempt("edit opencode.json")
def _(given: dict[str, Any]) -> Any:
    return write("opencode.json", "{}", os.O_TRUNC)


@attempt("replace opencode.json")
def _(given: dict[str, Any]) -> Any:
    write("src/opencode.json", "{}")
    os.replace("src/opencode.json", "opencode.json")
    return True


@attempt("delete opencode.json")
def _(given: dict[str, Any]) -> Any:
    os.unlink("opencode.json")
    return True


@attempt("create opencode.jsonc")
def _(given: dict[str, Any]) -> Any:
    return write("opencode.jsonc", "{}")


@attempt("create .opencode/agents")
def _(given: dict[str, Any]) -> Any:
    os.makedirs(".opencode/agents")
    return True


@attempt("remove the placeholder of .opencode")
def _(given: dict[str, Any]) -> Any:
    os.rmdir(".opencode")
    os.mkdir(".opencode")
    return True


@attempt("create .envrc")
def _(given: dict[str, Any]) -> Any:
    return write(".envrc", "evil\n")


@attempt("move the project directory away")
def _(given: dict[str, Any]) -> Any:
    here = os.getcwd()
    os.rename(here, f"{here}.moved")
    return True


@attempt("point git to another directory")
def _(given: dict[str, Any]) -> Any:
    write(".git/commondir", "../src/git\n")  # the test looks whether it is still there afterwards
    return False


@attempt("a process that outlives the command")
def _(given: dict[str, Any]) -> Any:
    # It has another session, another group and no environment; the test looks whether it still holds its lock.
    leave = "import fcntl,os,time\nos.fork() and os._exit(0)\nos.setsid()\nos.fork() and os._exit(0)\n"
    hold = "fcntl.flock(os.open('src/alive',os.O_CREAT|os.O_RDWR),2)\nprint('held',flush=True)\ntime.sleep(1000)"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", leave + hold],
        env={},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    return False


def main() -> None:
    given = json.loads(read(sys.argv[1]))
    given["descriptors"] = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    results = {}
    for name, function in ATTEMPTS.items():
        try:
            found = function(given)
            results[name] = ("escaped", str(found)[:80]) if found else ("refused", "no effect")
        except (OSError, subprocess.SubprocessError, ValueError, AssertionError) as error:
            results[name] = ("refused", getattr(error, "strerror", None) or str(error))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
