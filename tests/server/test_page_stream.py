"""The stream of a page: entries by sequence, live text, open work and requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import MODEL
from tests.server.conftest import PATIENCE, eventually

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call as ToolCall
from holdfast.llm.offline import OfflineResponse, ScriptedTransport, Turn
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema import session_event as ev
from holdfast.schema.live_event import GlobalDisposed, TextDelta
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.server.web import followed, stream

pytestmark = pytest.mark.anyio


class PacedTransport(ScriptedTransport):
    """A model that says what the test says, when it says it."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def send(self, request: HttpRequest) -> OfflineResponse:
        async with self._arrived:
            self.requests.append({})
            self._arrived.notify_all()
        return OfflineResponse(200, self._frames())

    async def _frames(self) -> AsyncIterator[bytes]:
        base = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "echo"}
        while (piece := await self.pieces.get()) is not None:
            delta = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            yield b"data: %s\n\n" % json.dumps({**base, "choices": [delta]}).encode()
        yield (
            b"data: %s\n\n"
            % json.dumps({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode()
        )
        yield b"data: [DONE]\n\n"


@pytest.fixture
async def paced() -> PacedTransport:
    return PacedTransport()


@pytest.fixture
async def slow(tmp_path: Path, project: Path, paced: PacedTransport) -> AsyncIterator[Runtime]:
    async with Runtime(
        paths=Paths(tmp_path / "data"),
        directory=project,
        environment={"HOME": str(tmp_path)},
        transport=paced,
        options=HostOptions(titles=False, trust=True),
    ) as runtime:
        yield runtime


class Page:
    """A page as the design describes it: entries by id, live text by part."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames
        self._waiting: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []
        self.entries: dict[str, dict[str, Any]] = {}
        self.live: dict[str, str] = {}

    async def frame(self) -> dict[str, Any] | None:
        async with asyncio.timeout(PATIENCE):
            while not self._waiting:
                try:
                    chunk = await anext(self._frames)
                except StopAsyncIteration:
                    return None
                for one in chunk.split(b"\n\n"):
                    if one.startswith(b"data: "):
                        self._waiting.append(json.loads(one[6:]))
        frame = self._waiting.pop(0)
        self.seen.append(frame)
        self._apply(frame)
        return frame

    def _apply(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "entries":
            for entry in frame["entries"]:
                self.entries[entry["id"]] = entry
                for part in entry.get("parts", ()):
                    if not part.get("open"):
                        self.live.pop(part["id"], None)
        elif frame["type"] == "block":
            assert frame["messageID"] in self.entries, "the entry comes before its text"
            if "html" in frame:
                self.live[frame["partID"]] = ""
            elif "text" in frame:
                self.live[frame["partID"]] = frame["text"]
            else:
                self.live[frame["partID"]] += frame["add"]

    async def until(self, type: str, **fields: Any) -> dict[str, Any]:
        while (frame := await self.frame()) is not None:
            if frame["type"] == type and all(frame.get(name) == value for name, value in fields.items()):
                return frame
        raise AssertionError(f"no {type}")

    async def until_live(self, text: str) -> None:
        while text not in self.live.values():
            assert await self.frame() is not None

    async def until_answered(self) -> dict[str, Any]:
        while True:
            for entry in self.entries.values():
                if entry["type"] == "assistant" and not entry.get("open"):
                    return entry
            assert await self.frame() is not None


@asynccontextmanager
async def opened(
    runtime: Runtime, session_id: str | None, after: int | None = None, ended: asyncio.Event | None = None
) -> AsyncIterator[Page]:
    async with aclosing(stream.frames(runtime, session_id, after, ended or asyncio.Event())) as frames:
        yield Page(frames)


async def create(runtime: Runtime) -> Session:
    return await runtime.sessions.create(
        location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
    )


async def test_a_page_sees_a_turn_from_prompt_to_answer(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """WEB-120, WEB-121: entries are whole, in the order of sequences, and reach the head of the log."""
    async with opened(runtime, session.id) as page:
        hello = await page.frame()
        assert hello is not None
        assert (hello["type"], hello["head"]) == ("hello", await runtime.log.latest(session.id))
        assert (await page.frame() or {})["type"] == "caught"
        await runtime.sessions.prompt(session.id, Prompt(text="say **it**"))
        answer = await page.until_answered()
        await runtime.sessions.wait(session.id)
        head = await runtime.log.latest(session.id)
        while page.seen[-1].get("seq") != head and await runtime.log.latest(session.id) != head:
            await page.frame()
    user = next(entry for entry in page.entries.values() if entry["type"] == "user")
    assert user["html"] == "<p>say <strong>it</strong></p>\n"
    assert user["delivery"] == "steer"
    assert answer["turn"] == 1
    assert [part["html"] for part in answer["parts"]] == ["<p>done</p>\n"]
    reached = [frame["seq"] for frame in page.seen if frame["type"] == "entries"]
    assert reached == sorted(set(reached))


async def test_a_page_that_connects_again_gets_what_changed_since(runtime: Runtime, session: Session) -> None:
    """WEB-121: by sequence; what it has already is not sent."""
    await runtime.sessions.prompt(session.id, Prompt(text="first"))
    await runtime.sessions.wait(session.id)
    middle = await runtime.log.latest(session.id)
    await runtime.sessions.prompt(session.id, Prompt(text="second"))
    await runtime.sessions.wait(session.id)
    async with opened(runtime, session.id, middle) as page:
        caught = await page.until("caught")
        assert caught["seq"] == await runtime.log.latest(session.id)
        assert [entry["type"] for entry in page.entries.values()] == ["user", "assistant"]
        assert next(iter(page.entries.values()))["text"] == "second"
        assert next(entry for entry in page.entries.values() if entry["type"] == "assistant")["turn"] == 2


async def test_who_is_far_behind_loads_again(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-122."""
    monkeypatch.setattr(followed, "FAR_BEHIND", 3)
    await runtime.sessions.prompt(session.id, Prompt(text="first"))
    await runtime.sessions.wait(session.id)
    async with opened(runtime, session.id, -1) as page:
        await page.until("caught")
        assert [frame["type"] for frame in page.seen] == ["hello", "reset", "caught"]


async def test_a_committed_revert_resets_and_a_deletion_ends(runtime: Runtime, session: Session) -> None:
    """WEB-122."""
    admission = await runtime.sessions.prompt(session.id, Prompt(text="first"))
    await runtime.sessions.wait(session.id)
    async with opened(runtime, session.id) as page:
        await page.until("caught")
        await runtime.sessions.stage_revert(session.id, admission.id, files=False)
        await runtime.sessions.commit_revert(session.id)
        await page.until("reset")
        await runtime.sessions.delete(session.id)
        await page.until("gone")
        other = await create(runtime)
        await runtime.sessions.prompt(other.id, Prompt(text="x"), resume=False)
        assert [told["session"]["id"] for told in (await page.until("overview"))["sessions"]] == [other.id]


async def test_a_session_that_does_not_exist_is_gone(runtime: Runtime) -> None:
    """WEB-122."""
    async with opened(runtime, "ses_unknown", 3) as page:
        await page.until("gone")


async def test_text_is_shown_while_it_is_written_and_replaced_by_the_entry(
    slow: Runtime, paced: PacedTransport
) -> None:
    """WEB-123."""
    session = await create(slow)
    async with opened(slow, session.id) as page:
        await page.until("caught")
        await slow.sessions.prompt(session.id, Prompt(text="go"))
        for piece in ("Hello ", "wor"):
            paced.pieces.put_nowait(piece)
        await page.until_live("Hello wor")
        paced.pieces.put_nowait("ld\n\nNext\n")
        await page.until_live("Next\n")
        paced.pieces.put_nowait(None)
        answer = await page.until_answered()
        assert [part["html"] for part in answer["parts"]] == ["<p>Hello world</p>\n<p>Next</p>\n"]
        assert page.live == {}
    html = [frame["html"] for frame in page.seen if frame["type"] == "block" and "html" in frame]
    assert html == ["<p>Hello world</p>\n"]


async def test_a_page_that_connects_in_the_middle_shows_the_text_from_its_beginning(
    slow: Runtime, paced: PacedTransport
) -> None:
    """WEB-125: with or without others that observe, nothing is doubled and nothing is missing."""
    session = await create(slow)
    await slow.sessions.prompt(session.id, Prompt(text="go"))
    words = [f"w{number} " for number in range(60)]
    for word in words[:10]:
        paced.pieces.put_nowait(word)
    await eventually(lambda: bool(slow.open_answers.of(session.id)))
    async with opened(slow, session.id, -1) as first:
        await first.until("caught")
        await first.until_live("".join(words[:10]))  # nobody observed when they came
        for index, word in enumerate(words[10:]):
            paced.pieces.put_nowait(word)
            if index % 10 == 5:
                async with opened(slow, session.id, -1) as second:
                    await second.until("caught")
                    text = "".join(words[: 11 + index])
                    await second.until_live(text)
        await first.until_live("".join(words))
        paced.pieces.put_nowait(None)
        answer = await first.until_answered()
        assert answer["parts"][0]["html"] == f"<p>{''.join(words).strip()}</p>\n"
    assert slow.open_answers.of(session.id) == []


async def test_a_text_whose_beginning_is_elsewhere_says_so(runtime: Runtime, session: Session) -> None:
    """WEB-125: another process receives the answer, and only its deltas come here."""
    key: dict[str, Any] = {"timestamp": 1, "session_id": session.id, "assistant_message_id": "msg_a"}
    await runtime.log.publish(ev.StepStarted(**key, agent="build", model=MODEL))
    await runtime.log.publish(ev.TextStarted(**key, text_id="t1"))
    async with opened(runtime, session.id, -1) as page:
        await page.until("caught")
        await page.until("overview")
        runtime.log.announce(TextDelta(**key, text_id="t1", delta=" end"))
        await page.until_live("… end")
        await runtime.log.publish(ev.TextEnded(**key, text_id="t1", text="the end"))
        await page.until("entries")
        assert page.live == {}
        runtime.log.announce(TextDelta(**key, text_id="t1", delta="late"))
        await runtime.log.publish(ev.TextStarted(**key, text_id="t2"))
        runtime.log.announce(TextDelta(**key, text_id="t2", delta="whole"))
        await page.until_live("whole")
    assert not any("late" in json.dumps(frame) for frame in page.seen)


async def test_a_call_that_waits_for_a_person_is_a_request(
    runtime: Runtime, session: Session, model: ScriptedTransport, project: Path
) -> None:
    """WEB-120, WEB-126: its entry, the status of the Session and the requests say so, and again when it is answered."""
    (project / "opencode.json").write_text('{"permission": {"edit": "ask"}}')
    model._turns = [Turn(calls=(ToolCall(tool="write", input={"path": "x.txt", "content": "hi\n"}),)), Turn(text="ok")]
    async with opened(runtime, session.id) as page:
        await page.until("caught")
        await runtime.sessions.prompt(session.id, Prompt(text="write"))
        while not any(frame["type"] == "requests" and frame["requests"] for frame in page.seen):
            await page.frame()
        (request,) = page.seen[-1]["requests"]
        while not any(_status(entry) == "waiting" for entry in page.entries.values()):
            await page.frame()
        while not any(frame["type"] == "status" and frame["session"]["state"] == "waiting" for frame in page.seen):
            await page.frame()
        async with runtime.locations.use(runtime.location) as services:
            await services.permissions.reply(session.id, request["id"], "once")
        while not any(_status(entry) == "completed" for entry in page.entries.values()):
            await page.frame()
        while [frame["requests"] for frame in page.seen if frame["type"] == "requests"][-1]:
            await page.frame()


def _status(entry: dict[str, Any]) -> str | None:
    return next((part["status"] for part in entry.get("parts", ()) if part["type"] == "tool"), None)


async def test_without_a_session_only_work_and_requests_are_sent(runtime: Runtime, session: Session) -> None:
    """WEB-126."""
    async with opened(runtime, None) as page:
        await page.until("overview")
        await runtime.sessions.prompt(session.id, Prompt(text="x"))
        await runtime.sessions.wait(session.id)
        await asyncio.sleep(0.3)
    assert {frame["type"] for frame in page.seen} == {"hello", "requests", "overview"}


async def test_nothing_is_read_while_nothing_changes(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-126."""
    reads: list[str] = []
    fetch = runtime.database.fetch_large

    async def counted(name: str, *arguments: Any, **options: Any) -> Any:
        reads.append(name)
        return await fetch(name, *arguments, **options)

    async with opened(runtime, session.id) as page:
        await page.until("overview")
        following = asyncio.create_task(page.frame())
        await asyncio.sleep(0.4)
        monkeypatch.setattr(runtime.database, "fetch_large", counted)
        await asyncio.sleep(0.5)
        assert reads == []
        following.cancel()
        await asyncio.wait({following})


async def test_the_overview_is_read_at_most_once_a_second(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-126: however much happens."""
    times: list[float] = []
    read = runtime.overview.open

    async def counted(*arguments: Any, **options: Any) -> Any:
        times.append(asyncio.get_running_loop().time())
        return await read(*arguments, **options)

    monkeypatch.setattr(runtime.overview, "open", counted)
    async with opened(runtime, session.id) as page:
        until = asyncio.get_running_loop().time() + 2.3
        following = asyncio.create_task(_drain(page))
        while asyncio.get_running_loop().time() < until:
            await runtime.sessions.rename(session.id, f"t{len(times)}")
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.wait({following})
    assert 2 <= len(times) <= 4
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))


async def _drain(page: Page) -> None:
    while await page.frame() is not None:
        pass


@pytest.mark.parametrize("reason", ["stopping", "signed-out"])
async def test_the_last_frame_says_why(runtime: Runtime, session: Session, reason: str) -> None:
    """WEB-127."""
    ended = asyncio.Event()
    async with opened(runtime, session.id, ended=ended) as page:
        await page.until("overview")
        if reason == "stopping":
            runtime.log.announce(GlobalDisposed())
        else:
            ended.set()
        assert (await page.until("bye"))["reason"] == reason
        assert await page.frame() is None


async def test_a_reader_that_falls_behind_is_ended(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-127: it connects again with the sequence that it has reached."""
    monkeypatch.setattr(stream, "CAPACITY", 4)
    async with opened(runtime, session.id) as page:
        await page.until("overview")
        for number in range(50):
            delta = TextDelta(timestamp=1, session_id=session.id, assistant_message_id="msg_x", text_id="t", delta="x")
            runtime.log.announce(delta)
            if number % 10 == 0:
                await asyncio.sleep(0)
        assert (await _rest(page))[-1:] != [{"type": "bye"}]


async def _rest(page: Page) -> list[dict[str, Any]]:
    frames = []
    while (frame := await page.frame()) is not None:
        frames.append(frame)
    return frames


async def test_a_closed_page_leaves_nothing_behind(slow: Runtime, paced: PacedTransport) -> None:
    """WEB-127: no task, no subscription, wherever it is closed."""
    session = await create(slow)
    await slow.sessions.prompt(session.id, Prompt(text="go"))
    await paced.seen(1)
    before = asyncio.all_tasks()
    for steps in range(8):
        page = stream.frames(slow, session.id, -1, asyncio.Event())
        for _ in range(steps):
            paced.pieces.put_nowait("x ")
            await anext(page)
        await page.aclose()
    reading = stream.frames(slow, session.id, None, asyncio.Event())
    waiting = asyncio.ensure_future(_all(reading))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await reading.aclose()
    await eventually(lambda: asyncio.all_tasks() <= before)
    assert not slow.log.bus.observed
    paced.pieces.put_nowait(None)


async def _all(frames: AsyncIterator[bytes]) -> None:
    async for _ in frames:
        pass


async def test_a_page_follows_what_another_process_executes(
    runtime: Runtime, session: Session, tmp_path: Path, project: Path
) -> None:
    """WEB-121, WEB-126: entries and open work, also without a connection to that process."""
    async with Runtime(
        paths=Paths(tmp_path / "data"),
        directory=project,
        environment={"HOME": str(tmp_path)},
        transport=ScriptedTransport(),
        options=HostOptions(titles=False, trust=True),
    ) as other:
        async with opened(other, session.id) as page:
            await page.until("overview")
            await runtime.sessions.prompt(session.id, Prompt(text="there"))
            answer = await page.until_answered()
            assert answer["parts"][0]["html"] == "<p>done</p>\n"
            await runtime.sessions.wait(session.id)
        async with opened(other, session.id) as page:
            await page.until("overview")
            await runtime.sessions.prompt(session.id, Prompt(text="later"), resume=False)
            while not (await page.until("status"))["pending"]:
                pass
