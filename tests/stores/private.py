"""A PostgreSQL server for one test or module: of any version, with any settings, to be stopped, killed and started
again. Whoever connects by TCP needs a password; the superuser is admitted by the socket alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.stores.keeper import SETTINGS, START_SECONDS, becoming, free_port, is_ready, plain_user
from tests.stores.server import programs

PASSWORD = "hunter2"
ROLE = "holdfast"
ADMISSION = """
local all postgres trust
local replication postgres trust
host all all 127.0.0.1/32 scram-sha-256
"""


class PrivateServer:
    def __init__(
        self,
        folder: Path,
        *,
        version: str | None = None,
        settings: Mapping[str, str] | None = None,
        admission: str = ADMISSION,
    ) -> None:
        self.programs = programs(version)
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.settings = {**SETTINGS, "fsync": "off", "shared_buffers": "16MB", "max_connections": "60"}
        self.settings |= {"password_encryption": "scram-sha-256", **(settings or {})}
        self._user = plain_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = open(folder / "log", "ab")  # noqa: SIM115 - open as long as the server
        self._own(folder)
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.write("pg_hba.conf", admission)

    def write(self, name: str, text: str) -> Path:
        """A file in the server's directory, which only the server can read."""
        path = self.data / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        self._own(path)
        return path

    def start(self) -> None:
        settings = {
            **self.settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
        }
        arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self.programs / "postgres", "-D", self.data, *arguments],
            preexec_fn=becoming(self._user),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            process_group=0,
        )
        deadline = time.monotonic() + START_SECONDS
        while not is_ready(self.data):
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT is a fast shutdown, SIGQUIT leaves a recovery to the next start."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process = None

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        self._log.close()

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements as the superuser, each in a transaction of its own; the rows of the last one."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.admin(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description is not None else []
        return rows

    def admin(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def address(
        self, database: str, *, user: str = ROLE, password: str = PASSWORD, port: int | None = None, **parameters: str
    ) -> str:
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        place = f"127.0.0.1:{port or self.port}/{database}"
        return f"postgresql://{user}:{password}@{place}{'?' + query if query else ''}"

    def new_role(self, name: str = ROLE) -> None:
        """An ordinary role that may log in and nothing else."""
        self.sql(f"create role {name} login password '{PASSWORD}'")

    def run(self, program: str, *arguments: str | Path, given: bytes | None = None) -> bytes:
        """Run one of the programs of this server, as its user."""
        ran = subprocess.run(
            [self.programs / program, *arguments],
            preexec_fn=becoming(self._user),
            cwd=self.folder,
            input=given,
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode(errors="replace")
        return ran.stdout

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)


@contextmanager
def private_server(*, version: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[PrivateServer]:
    """A running server with the role `ROLE`. Raises NoPostgres if there is none of that version."""
    programs(version)
    # Not in the folder of the test: the path of a socket is short, and the server's user has to reach it.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-private-"))
    folder.chmod(0o711)
    server: PrivateServer | None = None
    try:
        server = PrivateServer(folder, version=version, settings=settings)
        server.start()
        server.new_role()
        yield server
    finally:
        if server is not None:
            server.close()
        with suppress(OSError):
            shutil.rmtree(folder)
