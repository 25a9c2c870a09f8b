"""Random input and random interleavings of interruption, crash and reply: every call is settled exactly once, no file
is half written, and no process is left behind."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.conftest import steps
from tests.core.session.support_day import Place, begin, calling, play, say, tools_of
from tests.core.session.support_day_desk import desk_of, rules
from tests.core.session.support_lab import LAB, Provider, Reply, ending
from tests.core.session.support_lab import call as called
from tests.stores.stores import STORES, on_postgres

from holdfast.core.event.bus import Announcement
from holdfast.core.permission.errors import PermissionNotFound
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.codec import decode_any
from holdfast.schema.permission import Reply as Answer
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import ToolCompleted, ToolError

AGENTS = {
    "free": {"mode": "all", "permissions": rules("allow * *", "deny external_directory *", "deny bash *")},
    "asking": {"mode": "all", "permissions": rules("allow * *", "ask bash * # ask")},
}
TOOLS = ("read", "write", "edit", "apply_patch", "bash", "glob", "grep", "skill", "todowrite", "webfetch", "absent")
PROVIDER = {
    "api": {"type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://lab.invalid/v1"},
    "models": {"m": {}},
}
FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
MANY = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))


async def settled_once(runtime: Runtime, session_id: str) -> None:
    """Of the record: one settlement per call, and nothing that is still open."""
    states = [part.state for part in await tools_of(runtime, session_id)]
    assert all(isinstance(state, ToolCompleted | ToolError) for state in states)
    stored = await runtime.log.serialized(session_id, limit=10_000)
    ends: Counter[tuple[str, str]] = Counter()
    for event in stored:
        kind = event.type.removeprefix("session.next.tool.")
        if kind.startswith(("success", "failed")):
            data = decode_any(bytes(event.data))
            ends[data["assistantMessageID"], data["callID"]] += 1
    assert set(ends.values()) <= {1}
    assert ends.total() == len(states)
    assert await runtime.verify() == []


# -- random input ------------------------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = """
    path content oldString newString patchText command workdir timeout pattern include name todos url format offset
    limit replaceAll
""".split()  # noqa: SIM905 - a list of words reads best as words
names = st.sampled_from(FIELDS)
paths = st.sampled_from(["a.txt", "../x", "/etc/passwd", ".", "", "a.txt/b", "\0", "~", "/proc/self/mem", "n" * 5_000])
arguments = (
    st.dictionaries(names, values | paths, max_size=5).map(lambda value: json.dumps(value))
    | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "replace"))
    | st.text(max_size=60)
    | values.map(lambda value: json.dumps(value))
)
Wild = list[tuple[str, str]]
wild = st.lists(st.tuples(st.sampled_from(TOOLS), arguments), min_size=4, max_size=12)


@FEW
@given(wild)
def test_random_arguments_are_settled_and_never_a_defect(calls: Wild) -> None:
    """TOL-020, TOL-022, TOL-023, TOL-314, SES-105: whatever bytes come, each call ends once, in words for the model,
    and nothing outside the project changes."""
    asyncio.run(check_arguments(calls))


@pytest.mark.prove
@pytest.mark.timeout(3_600)
@MANY
@given(wild)
def test_many_random_arguments_are_settled_and_never_a_defect(calls: Wild) -> None:
    """TOL-020, TOL-022, TOL-023, TOL-314, SES-105: the same, for longer."""
    asyncio.run(check_arguments(calls))


async def check_arguments(calls: Wild) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), agents=AGENTS, providers={"lab": PROVIDER})
        place.write("a.txt", "text\n")
        canary = place.write(place.folder / "x", "canary")
        pieces = [called(index, tool, text) for index, (tool, text) in enumerate(calls)]
        provider = Provider(Reply([*pieces, *ending("tool_calls")]))
        async with place.runtime(provider, unattended="deny") as runtime:
            session = await begin(runtime, agent="free", model=LAB)
            await say(runtime, session.id, "go")
            await settled_once(runtime, session.id)
            parts = await tools_of(runtime, session.id)
            assert len(parts) == len(calls)
            told = [part.state.error.message for part in parts if isinstance(part.state, ToolError)]
            assert not [text for text in told if text.startswith("Tool execution failed")], told
            assert len(provider.requests) == 2
        assert canary.read_text() == "canary"
        found = {path.name for path in place.folder.iterdir()}
        assert found - {"data"} == {"home", "project", "x"}  # without a file to store, nothing makes the data directory


# -- random interleavings ----------------------------------------------------------------------------------------


class Move(NamedTuple):
    """Something that happens after so many announcements, and some steps of the loop later."""

    after: int
    later: int
    what: str


class Play(NamedTuple):
    calls: list[str]
    moves: list[Move]


KINDS = ("write", "edit", "patch", "echo", "sleep", "family", "ask", "read")
WHAT = ("interrupt", "crash", "once", "always", "reject", "correct", "steer")


def plays(*kinds: str) -> st.SearchStrategy[Play]:
    moves = st.builds(Move, st.integers(0, 30), st.integers(0, 40), st.sampled_from(WHAT))
    return st.builds(
        Play,
        st.lists(st.sampled_from(kinds), min_size=1, max_size=5),
        st.lists(moves, min_size=1, max_size=4),
    )


@FEW
@given(plays(*KINDS))
def test_every_call_is_settled_once_whenever_it_is_interrupted(example: Play) -> None:
    """TOL-020, TOL-032, TOL-034, TOL-092, TOL-123, TOL-338, SES-118, SES-132, SES-137: one settlement per call, whole
    files, no process, no question; and the same for a process that takes over from a crash at any moment."""
    asyncio.run(check_play(example))


@pytest.mark.prove
@pytest.mark.timeout(3_600)
@MANY
@given(plays(*KINDS, "daemon"))
def test_every_call_is_settled_once_whenever_it_is_interrupted_for_longer(example: Play) -> None:
    """TOL-020, TOL-032, TOL-034, TOL-092, TOL-123, TOL-338, SES-118, SES-132, SES-137: the same, for longer."""
    asyncio.run(check_play(example))


class Stage:
    """One Session on a place of its own, with files that its calls may change and a mark on all its processes."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder, agents=AGENTS)
        self.mark = f"holdfast-fuzz-{uuid.uuid4().hex}"
        self.allowed: dict[str, set[str | None]] = {}

    def call(self, number: int, kind: str) -> tuple[str, dict[str, Any]]:
        path, new = f"{kind}-{number}.txt", f"new {number}\n" * 20_000
        sleep = f"exec -a {self.mark} sleep 60"
        match kind:
            case "write":
                self.allowed[path] = {None, new}
                return "write", {"path": path, "content": new}
            case "edit":
                self.place.write(path, "old\n")
                self.allowed[path] = {"old\n", f"{new}\n"}
                return "edit", {"path": path, "oldString": "old", "newString": new}
            case "patch":
                self.allowed[path] = {None, "one\ntwo\n"}
                return "apply_patch", {"patchText": f"*** Begin Patch\n*** Add File: {path}\n+one\n+two\n*** End Patch"}
            case "echo":
                return "bash", {"command": f"echo {number}"}
            case "sleep":
                return "bash", {"command": sleep}
            case "family":
                return "bash", {"command": f"({sleep}) & ({sleep}) & bash -c '{sleep}'"}
            case "daemon":
                return "bash", {"command": f"setsid bash -c '{sleep}' > /dev/null 2>&1 & echo started"}
            case "ask":
                return "bash", {"command": f"echo {number} # ask"}
            case _:
                return "read", {"path": "."}

    def check_files(self) -> None:
        found = {path.name: path.read_text() for path in self.place.project.iterdir() if path.is_file()}
        assert found.keys() <= self.allowed.keys()
        assert all(found.get(name) in texts for name, texts in self.allowed.items())

    def check_effects(self, inputs: list[dict[str, Any]]) -> None:
        """What was settled as done is done."""
        for call in inputs:
            if "content" in call or "newString" in call:
                text = call.get("content") or f"{call['newString']}\n"
                assert (self.place.project / call["path"]).read_text() == text

    def check_processes(self) -> None:
        running = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
        alive = [path.name for path in running if self.mark in _read(path / "cmdline")]
        assert alive == []


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


class Moments:
    """Counts what observers hear."""

    def __init__(self) -> None:
        self.count = 0
        self._grew = asyncio.Event()
        self.over = False

    def __call__(self, announcement: Announcement) -> None:
        self.count += 1
        self._grew.set()

    def end(self) -> None:
        self.over = True
        self._grew.set()

    async def reach(self, count: int) -> None:
        """Or the end, or a silence: then nothing more will come by itself."""
        while self.count < count and not self.over:
            self._grew.clear()
            try:
                async with asyncio.timeout(0.1):
                    await self._grew.wait()
            except TimeoutError:
                return


async def check_play(example: Play) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        pictures: list[Path] = []
        model = ScriptedTransport()
        calls = [stage.call(number, kind) for number, kind in enumerate(example.calls)]
        async with stage.place.runtime(model) as runtime:
            session = await begin(runtime, agent="asking")
            play(model, calling(*calls, text="Now."))
            await act(runtime, session.id, stage, example.moves, pictures)
            await settled_once(runtime, session.id)
            stage.check_files()
            stage.check_processes()
            stage.check_effects(await succeeded(runtime, session.id))
        for picture in pictures:
            await check_takeover(stage, picture, session.id)
        stage.check_processes()


async def act(runtime: Runtime, session_id: str, stage: Stage, moves: Sequence[Move], pictures: list[Path]) -> None:
    moments = Moments()
    stop = runtime.log.bus.listen(moments)
    async with desk_of(runtime) as desk:
        await runtime.sessions.prompt(session_id, Prompt(text="go"))
        idle = asyncio.create_task(runtime.sessions.wait(session_id))
        idle.add_done_callback(lambda _: moments.end())
        for move in sorted(moves):
            await moments.reach(move.after)
            await steps(move.later)
            match move.what:
                case "interrupt":
                    await runtime.sessions.interrupt(session_id)
                case "crash":
                    pictures.append(photograph(stage, len(pictures)))
                case "steer":
                    await runtime.sessions.prompt(session_id, Prompt(text="and this"))
                case what:
                    await answer(desk.services.permissions, session_id, what)
        await runtime.sessions.interrupt(session_id)
        await runtime.sessions.wait(session_id)
        await idle
        assert await desk.services.permissions.list() == ()
    stop()


async def answer(permissions: Any, session_id: str, what: str) -> None:
    for request in (await permissions.for_session(session_id))[:1]:
        reply: Answer = "reject" if what in ("reject", "correct") else "always" if what == "always" else "once"
        message = "Not so." if what == "correct" else None
        with suppress(PermissionNotFound):  # it was closed in the meantime
            await permissions.reply(session_id, request.id, reply, message=message)


def photograph(stage: Stage, number: int) -> Path:
    """The files as a crash would leave them: the log may end in the middle of a write, never the database before it."""
    picture = stage.place.folder / f"picture-{number}"
    if on_postgres():
        STORES.copy(stage.place.data, picture)
        return picture
    picture.mkdir()
    for name in ("holdfast.db", "holdfast.db-wal"):
        shutil.copy(stage.place.data / name, picture)
    return picture


async def check_takeover(stage: Stage, picture: Path, session_id: str) -> None:
    before = {path: path.read_bytes() for path in stage.place.project.iterdir() if path.is_file()}
    model = ScriptedTransport()
    async with Runtime(
        paths=Paths(picture),
        directory=stage.place.project,
        environment=dict(stage.place.environment),
        transport=model,
        options=HostOptions(titles=False),
    ) as runtime:
        await say(runtime, session_id, "after")
        await settled_once(runtime, session_id)
        assert len(model.requests) == 1
        async with desk_of(runtime) as desk:
            assert await desk.services.permissions.list() == ()
    assert {path: path.read_bytes() for path in stage.place.project.iterdir() if path.is_file()} == before


async def succeeded(runtime: Runtime, session_id: str) -> list[dict[str, Any]]:
    return [part.state.input for part in await tools_of(runtime, session_id) if isinstance(part.state, ToolCompleted)]
