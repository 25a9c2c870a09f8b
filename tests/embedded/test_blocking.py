"""The host for scripts and notebooks."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.stores.stores import STORES

from holdfast import PromptInput
from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.resume import follow_sync
from holdfast.client.sync_core import SyncStream
from holdfast.core.database.errors import StorageUnavailable
from holdfast.embedded.blocking import HoldfastSync
from holdfast.embedded.loop_thread import LoopThread
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.model import ModelRef
from holdfast.schema.session_message import AssistantMessage, ToolPart
from holdfast.schema.typed_event import Event

ECHO = ModelRef(id="echo", provider_id="demo")
PATIENCE = 30.0
ENDED = "session.next.step.ended"


@contextmanager
def host(project: Path, model: ScriptedTransport | None = None) -> Iterator[HoldfastSync]:
    threads = set(threading.enumerate())
    with HoldfastSync(
        project, data=project.parent / "data", environment={"HOME": str(project.parent)}, transport=model
    ) as hf:
        yield hf
    assert set(threading.enumerate()) <= threads


def exchange(hf: HoldfastSync) -> str:
    session = hf.sessions.create(model=ECHO)
    hf.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
    hf.sessions.wait(session.id)
    (last,) = hf.sessions.messages(session.id, limit=1).items
    assert isinstance(last, AssistantMessage)
    return session.id


def test_ordinary_code_gets_an_answer(project: Path) -> None:
    """API-400, API-402: groups on one object, no port, and nothing is left behind, no thread either."""
    with host(project) as hf:
        session_id = exchange(hf)
        with pytest.raises(ApiError) as unknown:
            hf.sessions.get("ses_unknown")
        assert unknown.value.code == "SessionNotFoundError"
        assert hf.verify() == []
    with host(project) as hf:
        assert len(hf.sessions.context(session_id)) == 2
        assert hf.default_model() is None


def test_the_blocking_host_works_inside_a_running_loop(project: Path) -> None:
    """API-402: as in a notebook."""

    async def cell() -> str:
        with host(project) as hf:
            return exchange(hf)

    assert asyncio.run(cell()).startswith("ses_")


def test_blocking_streams_are_ordinary_iterators(project: Path) -> None:
    """API-312, API-404: read to a point, dropped half-way, or left open when the host closes."""
    with host(project) as hf:
        session = hf.sessions.create(model=ECHO)
        with hf.events.subscribe() as live:
            assert next(live).type == "server.connected"
            hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
            seen = [event.durable.seq for event in _until_ended(iter(hf.sessions.events(session.id))) if event.durable]
            assert ENDED in [event.type for event in _until_ended(live)]
        followed = [event.durable.seq for event in _until_ended(follow_sync(hf, session.id)) if event.durable]
        for _ in hf.events.subscribe():
            break
        gc.collect()
        left = hf.events.subscribe()
        assert next(left).type == "server.connected"

    assert seen == followed != []
    assert [event.type for event in left][-1] == "global.disposed"


def test_a_stream_ends_when_its_host_closes(project: Path) -> None:
    """API-402, API-404: a reader in another thread sees the farewell and the end, not an error."""
    types: list[str] = []
    opened = threading.Event()

    def read(hf: HoldfastSync) -> None:
        for event in hf.events.subscribe():
            types.append(event.type)
            opened.set()

    with HoldfastSync(project, data=project.parent / "data", environment={"HOME": str(project.parent)}) as hf:
        reader = threading.Thread(target=read, args=(hf,))
        reader.start()
        assert opened.wait(PATIENCE)
    reader.join(PATIENCE)

    assert not reader.is_alive()
    assert types == ["server.connected", "global.disposed"]


def test_a_slow_reader_gets_everything_that_came_before_the_end(project: Path) -> None:
    """API-402, API-404: also what it had not asked for yet when the host closed."""
    types: list[str] = []
    opened, closed = threading.Event(), threading.Event()

    def read(hf: HoldfastSync) -> None:
        for event in hf.events.subscribe():
            types.append(event.type)
            opened.set()
            assert closed.wait(PATIENCE)

    with HoldfastSync(project, data=project.parent / "data", environment={"HOME": str(project.parent)}) as hf:
        reader = threading.Thread(target=read, args=(hf,))
        reader.start()
        assert opened.wait(PATIENCE)
        for _ in range(200):
            hf.sessions.create()
    closed.set()
    reader.join(PATIENCE)

    assert not reader.is_alive()
    assert types[0] == "server.connected"


def test_tools_of_a_script_run_in_a_thread(project: Path) -> None:
    """API-403: registered from outside the loop, run in a thread, and they may use the client themselves."""
    model = ScriptedTransport([Turn(calls=(Call(tool="count", input={}),))])
    with host(project, model) as hf:

        @hf.tool
        def count() -> int:
            """How many Sessions there are."""
            return len(hf.sessions.list().items)

        session_id = exchange(hf)
        parts = [
            part
            for message in hf.sessions.context(session_id)
            if isinstance(message, AssistantMessage)
            for part in message.content
            if isinstance(part, ToolPart)
        ]

    assert [part.state.structured["value"] for part in parts] == [1]  # type: ignore[union-attr]


def test_a_call_that_would_wait_for_itself_is_refused(project: Path) -> None:
    """API-402: an asynchronous tool runs on the host's loop, which a blocking call would stop for ever."""
    failures: list[str] = []
    model = ScriptedTransport([Turn(calls=(Call(tool="stuck", input={}),))])
    with host(project, model) as hf:

        @hf.tool
        async def stuck() -> str:
            """Stuck."""
            try:
                hf.sessions.list()
            except RuntimeError as error:
                failures.append(str(error))
            return "went on"

        exchange(hf)

    assert len(failures) == 1
    assert "would never return" in failures[0]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt. A shell ignores it in background jobs, and Python keeps that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_leaves_the_call_and_not_the_host(project: Path) -> None:
    """API-308, API-402: what was asked for goes on, the next call is answered."""
    model = ScriptedTransport()
    model.hold(0)
    here = threading.get_ident()

    def interrupt(path: str) -> None:
        """Once the call has arrived, so that its caller is waiting."""
        while not any(task.get_name().endswith(path) for task in tuple(hf._host._transport._tasks)):  # type: ignore[attr-defined]
            time.sleep(0.005)
        signal.pthread_kill(here, signal.SIGINT)

    with host(project, model) as hf:
        session = hf.sessions.create(model=ECHO)
        hf.sessions.prompt(session.id, prompt=PromptInput(text="slow"))
        interrupting = threading.Thread(target=interrupt, args=(f"/api/session/{session.id}/wait",))
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            hf.sessions.wait(session.id)
        interrupting.join()
        assert list(hf.sessions.active()) == [session.id]
        hf.sessions.interrupt(session.id)
        assert hf.sessions.active() == {}


def test_a_timeout_is_a_transport_failure(project: Path) -> None:
    """API-308, API-309: and the host goes on."""
    model = ScriptedTransport()
    model.hold(0)
    with host(project, model) as hf:
        session = hf.sessions.create(model=ECHO)
        hf.sessions.prompt(session.id, prompt=PromptInput(text="slow"))
        with pytest.raises(ClientError) as caught:
            hf.sessions.wait(session.id, options=Options(timeout=0.05))
        assert caught.value.reason == "Transport"
        assert list(hf.sessions.active()) == [session.id]


def test_a_call_that_still_waits_when_the_host_closes_is_told(project: Path) -> None:
    """API-309, API-402: in another thread; by the server, or as a transport failure."""
    model = ScriptedTransport([Turn(calls=(Call(tool="asked", input={}),))])
    outcome: list[Exception | None] = []
    waiting = threading.Event()

    def wait(hf: HoldfastSync, session_id: str) -> None:
        try:
            hf.sessions.wait(session_id)
            outcome.append(None)
        except (ApiError, ClientError) as error:
            outcome.append(error)

    with host(project, model) as hf:

        @hf.tool
        async def asked() -> str:
            """Never answered."""
            waiting.set()
            await asyncio.Event().wait()
            return ""

        session = hf.sessions.create(model=ECHO)
        hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        assert waiting.wait(PATIENCE)
        caller = threading.Thread(target=wait, args=(hf, session.id))
        caller.start()
        hf.close()
        caller.join(PATIENCE)
        hf.close()

    assert not caller.is_alive()
    assert len(outcome) == 1


def test_a_stream_ends_when_another_thread_closes_it(project: Path) -> None:
    """API-312, API-404: the reader sees the end, not an error, and the host goes on."""
    types: list[str] = []
    opened = threading.Event()

    def read(stream: SyncStream[Event]) -> None:
        for event in stream:
            types.append(event.type)
            opened.set()

    with host(project) as hf:
        stream = hf.events.subscribe()
        reader = threading.Thread(target=read, args=(stream,))
        reader.start()
        assert opened.wait(PATIENCE)
        stream.close()
        reader.join(PATIENCE)
        assert not reader.is_alive()
        assert hf.health.get().healthy

    assert types == ["server.connected"]


def test_a_call_that_meets_the_end_of_its_loop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-309, API-402: it is either run or refused, and never waits for a loop that is gone."""
    thread = LoopThread()
    thread.start()
    closing = threading.Thread(target=thread.close)
    hand_over = asyncio.run_coroutine_threadsafe

    def late(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        closing.start()
        closing.join(0.2)
        return hand_over(work, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", late)
    with suppress(ClientError):
        assert thread.run(asyncio.sleep(0, "done")) == "done"
    closing.join(PATIENCE)

    with pytest.raises(ClientError, match="not open"):
        thread.run(asyncio.sleep(0))
    assert not thread.running


def test_a_host_that_is_not_open_says_so(project: Path) -> None:
    """API-309, API-402: before and after its block."""
    hf = HoldfastSync(project, data=project.parent / "data", environment={"HOME": str(project.parent)})
    with pytest.raises(ClientError, match="not open"):
        hf.health.get()
    with hf:
        with pytest.raises(RuntimeError, match="already open"):
            hf.__enter__()
        assert hf.health.get().healthy
    with pytest.raises(ClientError, match="not open"):
        hf.health.get()


def test_a_host_that_cannot_open_leaves_no_thread(project: Path, tmp_path: Path) -> None:
    """API-402: the failure is the caller's, the thread is gone."""
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    threads = set(threading.enumerate())
    hf = HoldfastSync(
        project, data=blocked / "data", database=STORES.unreachable(), environment={"HOME": str(tmp_path)}
    )
    with pytest.raises(StorageUnavailable), hf:
        pass

    assert set(threading.enumerate()) <= threads


def _until_ended(events: Iterator[Event]) -> Iterator[Event]:
    for event in events:
        yield event
        if event.type == ENDED:
            return
