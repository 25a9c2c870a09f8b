"""Runs a PostgreSQL server for as long as another process lives: `keeper.py FOLDER PID BIN SYNC [POOLER]`.

It is a process of its own, so that the server ends and its files go however that process ends, `kill -9` included. When
the server accepts connections, FOLDER has a file `port`; if it cannot be started, a file `failed` with the reason. With
the path of PgBouncer as POOLER, that runs too, in transaction mode, and its port is in the file `pooler`."""

from __future__ import annotations

import ctypes
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLAIN_USERS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root; the first of these users that exists runs it instead."""
START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.2
PR_SET_PDEATHSIG = 1
SETTINGS = {
    "max_connections": "500",
    "shared_buffers": "128MB",
    "dynamic_shared_memory_type": "mmap",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "jit": "off",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %d ",
    "timezone": "UTC",
}
POOLER_SETTINGS = """[databases]
* = host={folder} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 8
server_idle_timeout = 5
"""
NOT_SYNCED = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "30s",
    "checkpoint_timeout": "1h",
    # Nobody connects again after a crash here: a lock that is free says that its owner is dead.
    "holdfast.settling_seconds": "0",
}


def main() -> None:
    folder, watched, programs, synced = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "1"
    if os.fork():  # tests count the children of their process
        os._exit(0)
    server: subprocess.Popen[bytes] | None = None
    pooler: subprocess.Popen[bytes] | None = None
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        port = free_port()
        server = _start(folder, programs, synced, port)
        if len(sys.argv) > 5:
            pooler = _start_pooler(folder, sys.argv[5], port)
        _announce(folder, "port", port)
        _wait_for_end(watched, server)
    except Exception as error:  # noqa: BLE001 - whoever waits reads the reason
        (folder / "failed").write_text(f"{error}\n{_log(folder)}", encoding="utf-8")
        _wait_for_end(watched, None)
    finally:
        if pooler is not None:
            pooler.kill()
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGQUIT)
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)


def _start(folder: Path, programs: Path, synced: bool, port: int) -> subprocess.Popen[bytes]:
    user = plain_user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    os.chmod(folder, 0o711)
    data = folder / "data"
    change_user = becoming(user)
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        preexec_fn=change_user,
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.decode(errors='replace')}")
    settings = {**SETTINGS, **({} if synced else NOT_SYNCED), "port": str(port), "listen_addresses": "127.0.0.1"}
    settings["unix_socket_directories"] = str(folder)
    arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    with open(folder / "log", "wb") as output:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *arguments],
            preexec_fn=change_user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
    _wait_until_ready(folder, server)
    return server


def _start_pooler(folder: Path, program: str, server_port: int) -> subprocess.Popen[bytes]:
    port = free_port()
    (folder / "users.txt").write_text('"holdfast" ""\n"postgres" ""\n', encoding="utf-8")
    settings = POOLER_SETTINGS.format(folder=folder, server_port=server_port, port=port)
    (folder / "pooler.ini").write_text(settings, encoding="utf-8")
    with open(folder / "pooler.log", "wb") as output:
        pooler = subprocess.Popen(
            [program, "-q", folder / "pooler.ini"],
            preexec_fn=becoming(plain_user()),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
    deadline = time.monotonic() + START_SECONDS
    while not _accepts(port):
        if pooler.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the pooler does not start: {(folder / 'pooler.log').read_text(encoding='utf-8')}")
        time.sleep(0.02)
    _announce(folder, "pooler", port)
    return pooler


def _announce(folder: Path, name: str, port: int) -> None:
    """The file appears whole."""
    draft = folder / f"{name}.draft"
    draft.write_text(str(port), encoding="utf-8")
    draft.rename(folder / name)


def _accepts(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def plain_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in PLAIN_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL cannot run as root, and there is no other user")


def becoming(user: pwd.struct_passwd | None) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    def become() -> None:
        if user is not None:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        if sys.platform == "linux":  # after the change of user, which resets it
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)

    return become


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_until_ready(folder: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_ready(folder / "data"):
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server does not start")
        time.sleep(0.02)


def is_ready(data: Path) -> bool:
    """Whether the server of this directory accepts connections: the last line of its file says so."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return len(lines) > 7 and lines[7].strip() in ("ready", "standby")


def _wait_for_end(watched: int, server: subprocess.Popen[bytes] | None) -> None:
    """Until the process or the server has ended."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(watched)
        except OSError:
            return
        while not select.select([handle], [], [], LOOK_SECONDS * 5)[0]:
            if server is not None and server.poll() is not None:
                return
    else:
        while _lives(watched) and (server is None or server.poll() is None):
            time.sleep(LOOK_SECONDS)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _log(folder: Path) -> str:
    try:
        return (folder / "log").read_text(encoding="utf-8", errors="replace")[-4000:]
    except OSError:
        return ""


if __name__ == "__main__":
    main()
