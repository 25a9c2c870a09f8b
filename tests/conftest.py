"""Fixtures: a real database in a temporary directory, a real runtime, and a model under the test's control."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import HealthCheck, settings
from tests.database_template import DatabaseTemplate
from tests.forked_process import fork_server
from tests.hang_report import HangReport
from tests.stores.server import mark_run
from tests.stores.stores import SQLITE, STORES, OpenedDatabase, chosen_store, installed
from tests.unsynced import leave_out_syncs, sync_commits

from holdfast.core.clock import Ids
from holdfast.core.event.log import EventLog
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.model import ModelRef
from holdfast.schema.session import Session

TESTS = Path(__file__).parent
FIXTURES = TESTS / "fixtures"
WITHOUT = frozenset({"ci", "client", "http", "llm", "mcp", "protocol", "schema", "typing", "test_licences.py"})
"""Folders whose tests open no store."""
RECORDINGS = Path(os.environ.get("HOLDFAST_RECORDINGS") or Path(__file__).parents[2] / "shared")
"""What OpenCode's server and real providers sent, if it was recorded. The repository has samples of its own instead."""
MODEL = ModelRef(id="echo", provider_id="demo")

# On a busy machine an example may take any time; a test that hangs is ended by pytest-timeout.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")


HANGS = pytest.StashKey[HangReport]()


def pytest_configure(config: pytest.Config) -> None:
    mark_run()
    config.stash[HANGS] = HangReport(float(config.getini("timeout")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    report = item.config.stash[HANGS]
    report.began(item.nodeid)
    try:
        return (yield)
    finally:
        report.ended()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _select_store(config, items)
    if RECORDINGS.is_dir():
        return
    absent = pytest.mark.skip(reason="no recordings here; tests/fixtures has samples of the same shapes")
    for item in items:
        if item.get_closest_marker("recorded"):
            item.add_marker(absent)


def _select_store(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other store, and on PostgreSQL also those that open no store at all."""
    store, kept, others = chosen_store(), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        marker = item.get_closest_marker("store")
        if marker is not None and not marker.kwargs.get("reason"):
            raise pytest.UsageError(f"{item.nodeid}: the marker `store` needs a reason")
        elsewhere = marker is not None and marker.args[0] != store
        without = (
            store != SQLITE and item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in WITHOUT
        )
        (others if elsewhere or without else kept).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def _the_chosen_store() -> Iterator[None]:
    with installed(), closing(STORES), STORES.frame():
        yield


@pytest.fixture(scope="module", autouse=True)
def _stores_of_a_module() -> Iterator[None]:
    with STORES.frame():
        yield


@pytest.fixture(autouse=True)
def _stores_of_a_test(_stores_of_a_module: None) -> Iterator[None]:
    with STORES.frame():
        yield


@pytest.fixture(scope="session", autouse=True)
def _new_databases_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In this process. The tests of the database itself and all `holdfast` processes migrate an empty file."""
    template = DatabaseTemplate(tmp_path_factory.mktemp("template"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.core.database.database.prepare", template.prepare)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        leave_out_syncs(patch.setattr)
        yield


@pytest.fixture
def synced_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite syncs, as in the product."""
    sync_commits(monkeypatch.setattr)


def pytest_sessionstart() -> None:
    """Processes would inherit what is ignored: SIGHUP in `nohup make test`, SIGINT and SIGQUIT in `make test &`."""
    for number, usual in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_unconfigure() -> None:
    if fork_server.cache_info().currsize:
        fork_server().close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay alive. The garbage collector leaves them out, which halves its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


class _ShortSleeps:
    """`asyncio` with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> Iterator[None]:
    """uvicorn looks ten times a second whether it is to end, and then whether its connections have ended: 0.15 s for
    each test with a server. A `holdfast` process still does that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _ShortSleeps())
        yield


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ManualClock:
    """A clock that moves when told to."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.millis = now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self.millis

    def advance(self, millis: int) -> None:
        self.millis += millis
        for due, sleeper in self._sleepers:
            if due <= self.millis and not sleeper.done():
                sleeper.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Until the clock has been moved that far."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.millis + seconds * 1000, sleeper))
        await sleeper


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ids(clock: ManualClock) -> Ids:
    return Ids(clock, random.Random(7))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OpenedDatabase]:
    database = STORES.open(tmp_path / "data" / "holdfast.db")
    yield database
    database.close()


@pytest.fixture
async def log(database: OpenedDatabase, ids: Ids) -> AsyncIterator[EventLog]:
    log = EventLog(database, MANIFEST, SESSION_PROJECTORS, ids)
    yield log
    await log.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory to work in, outside any repository."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello world\n", encoding="utf-8")
    return folder


@pytest.fixture
async def model() -> ScriptedTransport:
    """A scripted model; without turns it says `done`."""
    return ScriptedTransport()


@pytest.fixture
async def runtime(tmp_path: Path, project: Path, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    """A whole runtime on its own data directory, with the scripted model behind demo/echo."""
    async with Runtime(
        paths=Paths(tmp_path / "data"),
        directory=project,
        environment={"HOME": str(tmp_path)},
        transport=model,
        options=HostOptions(titles=False, trust=True),
    ) as runtime:
        yield runtime


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await runtime.sessions.create(
        location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
    )
