"""A crash, or a disk that fails, at every commit of a boundary: message and snapshot agree, and the model hears each
change exactly once."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import ManualClock
from tests.core.session.support_day import (
    AGENTS,
    DAY,
    MORNING,
    Place,
    begin,
    calling,
    heard,
    history,
    play,
    say,
    tools_of,
    view,
)
from tests.core.session.support_day_crash import Camera

from holdfast.core.context import date
from holdfast.core.context.nested import KEY as NESTED
from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Unit
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.errors import UnfinishedWork
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.schema.session import Session
from holdfast.schema.session_message import SystemMessage, ToolCompleted, ToolError, ToolPart, UserMessage

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.store("sqlite", reason="copies of the file at each sync"),
]

THURSDAY = "Thu Jun 04 2026"


class Scene(NamedTuple):
    """A Session that has begun, with things about to change."""

    place: Place
    clock: ManualClock
    model: ScriptedTransport
    runtime: Runtime
    session: Session


@pytest.fixture
def camera(tmp_path: Path, synced_commits: None) -> Iterator[Camera]:
    camera = Camera(tmp_path / "pictures")
    yield camera
    camera.unregister()


@pytest.fixture
async def scene(tmp_path: Path, camera: Camera) -> AsyncIterator[Scene]:
    place, clock, model = Place(tmp_path), ManualClock(MORNING), ScriptedTransport()
    place.write(AGENTS, "Be kind.\n")
    async with place.runtime(model, clock) as runtime:
        session = await begin(runtime)
        await say(runtime, session.id, "one " * 50)
        yield Scene(place, clock, model, runtime, session)


def change(scene: Scene) -> None:
    scene.place.write(AGENTS, "Be brief.\n")
    scene.clock.advance(DAY)


async def update(scene: Scene) -> None:
    change(scene)
    await say(scene.runtime, scene.session.id, "two")


async def twice(scene: Scene) -> None:
    """Two boundaries in one drain, the second after a tool."""
    play(scene.model, calling(("write", {"path": AGENTS, "content": "Be brief.\n"})))
    await say(scene.runtime, scene.session.id, "two")
    scene.clock.advance(DAY)
    await say(scene.runtime, scene.session.id, "three")


async def compaction(scene: Scene) -> None:
    change(scene)
    await say(scene.runtime, scene.session.id, "two")
    play(scene.model, Turn(text="Short."))
    await scene.runtime.sessions.compact(scene.session.id)
    await say(scene.runtime, scene.session.id, "three")


async def move(scene: Scene) -> None:
    change(scene)
    below = scene.place.project / "below"
    below.mkdir()
    await scene.runtime.sessions.move(scene.session.id, str(below))
    await say(scene.runtime, scene.session.id, "two")


async def revert(scene: Scene) -> None:
    """The message that told is taken away again, and with it the claim that the model knows."""
    change(scene)
    await say(scene.runtime, scene.session.id, "gone")
    first = (await history(scene.runtime, scene.session.id))[0]
    await scene.runtime.sessions.stage_revert(scene.session.id, first.id)
    await say(scene.runtime, scene.session.id, "two")


SCENES = [update, twice, compaction, move, revert]
Play = Callable[[Scene], Awaitable[None]]


@pytest.mark.parametrize("scenes", SCENES, ids=lambda scenes: scenes.__name__)
async def test_a_crash_at_any_commit_loses_and_repeats_nothing(scene: Scene, camera: Camera, scenes: Play) -> None:
    """CTX-086, CTX-095, CTX-096, CTX-106, CTX-111, SES-149: the files as each commit left them, and as a torn write
    would leave them, are opened by another process, which goes on."""
    await calm(scene.runtime)
    camera.on = True
    await scenes(scene)
    camera.on = False
    # After the crash the world is as it was at the end: only what was said differs.
    assert len(camera.pictures) >= 8
    for picture in camera.pictures:
        await check_after_crash(scene.place.with_data(picture), scene.session.id)


async def check_after_crash(place: Place, session_id: str) -> None:
    """Another process on what is there goes on."""
    model = ScriptedTransport()
    place.write(AGENTS, "Be brief.\n")
    async with place.runtime(model, ManualClock(MORNING + DAY)) as runtime:
        assert await runtime.verify() == []
        await agrees(runtime, session_id)
        admitted = await users(runtime, session_id)
        pending = [receipt.prompt.text for receipt in await runtime.sessions.pending(session_id)]
        await say(runtime, session_id, "after")
        assert await users(runtime, session_id) == [*admitted, *pending, "after"], place.data.name
        hears_once(model, place.data.name)
        await agrees(runtime, session_id)
        assert await runtime.verify() == []


@pytest.mark.prove
async def test_a_process_killed_after_any_commit_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """CTX-086, CTX-096, SES-137: a real process, really killed, with the commit on disk and nobody told."""
    point, killed = 0, True
    while killed:
        place = Place(tmp_path / str(point))
        place.write(AGENTS, "Be kind.\n")
        async with place.runtime(ScriptedTransport(), ManualClock(MORNING)) as runtime:
            session = await begin(runtime)
            await say(runtime, session.id, "one " * 50)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.core.session.support_day_child", place.folder, session.id, str(point)),
            cwd=Path(__file__).parents[3],
        )
        killed = await child.wait() != 0
        await check_after_crash(place, session.id)
        assert all(isinstance(part.state, ToolCompleted | ToolError) for part in await parts_of(place, session.id))
        point += 1
    assert 8 < point < 60


async def parts_of(place: Place, session_id: str) -> list[ToolPart]:
    async with place.runtime(ScriptedTransport()) as runtime:
        return await tools_of(runtime, session_id)


async def users(runtime: Runtime, session_id: str) -> list[str]:
    session = await runtime.sessions.get(session_id)
    messages = await history(runtime, session_id)
    if session.revert is not None:  # writing on commits it
        ids = [message.id for message in messages]
        messages = messages[: ids.index(session.revert.message_id) + 1]
    return [message.text for message in messages if isinstance(message, UserMessage)]


def hears_once(model: ScriptedTransport, where: str) -> None:
    text = heard(model.requests[-1])
    assert (text.count("Be brief."), text.count(THURSDAY)) == (1, 1), where


async def agrees(runtime: Runtime, session_id: str) -> None:
    """What the snapshot claims is what the last word on it said: in the baseline, or in a message after it."""
    seen = await view(runtime, session_id)
    if seen["status"] == "not initialized":
        return
    messages = await runtime.sessions.messages(session_id, order="asc", limit=200)
    later = [stored.decode() for stored in messages if stored.seq > seen["baselineSeq"]]
    said = [seen["baseline"], *(message.text for message in later if isinstance(message, SystemMessage))]
    values = {source["key"]: source.get("value") for source in seen["sources"]}
    for key, mark in (("core/instructions", "Instructions from"), (date.KEY, "Today's date")):
        last = next(text for text in reversed(said) if mark in text)
        value = values[key]
        assert (value if isinstance(value, str) else value[0]["content"]) in last


@pytest.mark.parametrize("scenes", SCENES, ids=lambda scenes: scenes.__name__)
async def test_a_disk_that_fails_at_any_commit_is_survived_in_place(scene: Scene, camera: Camera, scenes: Play) -> None:
    """CTX-086: the same process goes on when the disk does: nothing is wedged, lost or told twice."""
    points = 0
    while await one_failure(scene, camera, scenes, points):
        points += 1
    assert 4 < points < 60
    assert await scene.runtime.verify() == []


async def calm(runtime: Runtime) -> None:
    """Until the writer has done everything it was given: letting go of a lease is a commit that nobody waits for."""
    await runtime.database.submit(Unit("nothing"))


async def one_failure(scene: Scene, camera: Camera, scenes: Play, point: int) -> bool:
    """A Session of its own whose nth commit fails; whether there was an nth at all."""
    place, runtime = scene.place, scene.runtime
    place.write(AGENTS, "Be kind.\n")
    scene.clock.millis = MORNING
    below = place.project / "below"
    if below.exists():
        shutil.rmtree(below)
    camera.on = False
    session = await begin(runtime)
    await say(runtime, session.id, "one " * 50)
    await calm(runtime)
    camera.on, camera.commits, camera.fail_at = True, 0, point
    with suppress(StorageError, UnfinishedWork):  # a turn whose end was not recorded is not compacted away
        await scenes(scene._replace(session=session))
    await runtime.sessions.wait(session.id)
    camera.on, failed = False, camera.failed
    camera.failed = False
    change(scene)
    scene.clock.millis = MORNING + DAY
    await agrees(runtime, session.id)
    await say(runtime, session.id, "after")
    assert (await users(runtime, session.id))[-1] == "after"
    hears_once(scene.model, f"commit {point}")
    await agrees(runtime, session.id)
    return failed


async def test_a_discovery_is_recorded_with_the_settlement_of_its_read(scene: Scene, camera: Camera) -> None:
    """CTX-156, CTX-157: in one commit, so that no crash leaves one without the other; and it is told once."""
    scene.place.write(f"deep/{AGENTS}", "Nested.\n")
    scene.place.write("deep/file.txt", "text\n")
    play(scene.model, calling(("read", {"path": "deep/file.txt"})))
    await calm(scene.runtime)
    camera.on = True
    await say(scene.runtime, scene.session.id, "read")
    camera.on = False
    alone: list[str] = []
    for picture in camera.pictures:
        model = ScriptedTransport()
        async with scene.place.with_data(picture).runtime(model, ManualClock(MORNING)) as runtime:
            await say(runtime, scene.session.id, "after")
            settled = [part.state for part in await tools_of(runtime, scene.session.id)]
            assert all(isinstance(state, ToolCompleted | ToolError) for state in settled)
            found = any(source["key"] == NESTED for source in (await view(runtime, scene.session.id))["sources"])
            assert heard(model.requests[-1]).count("Nested.") == found
            if found != any(isinstance(state, ToolCompleted) for state in settled):
                alone.append(picture.name)
    assert alone == []
