"""PgBouncer in transaction mode in front of a server, to be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from tests.stores.keeper import START_SECONDS, becoming, free_port, plain_user
from tests.stores.private import PASSWORD, ROLE, PrivateServer
from tests.stores.server import pgbouncer

SETTINGS = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 4
{more}
"""


class Pooler:
    def __init__(self, folder: Path, server: PrivateServer, more: str = "") -> None:
        """`more` are further lines of its settings."""
        self._program = pgbouncer()
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        for name, text in (
            ("users.txt", f'"{ROLE}" "{PASSWORD}"\n'),
            ("pooler.ini", SETTINGS.format(server=server.port, port=self.port, folder=folder, more=more)),
            ("log", ""),
        ):
            (folder / name).write_text(text, encoding="utf-8")
        user = plain_user()
        if user is not None:
            for path in (folder, *folder.iterdir()):
                os.chown(path, user.pw_uid, user.pw_gid)
        self.start()

    def start(self) -> None:
        with open(self._folder / "log", "ab") as output:
            self._process = subprocess.Popen(
                [self._program, "-q", self._folder / "pooler.ini"],
                preexec_fn=becoming(plain_user()),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._accepts():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def _accepts(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0
