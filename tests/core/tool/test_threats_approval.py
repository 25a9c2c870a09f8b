"""An approval covers what was shown and nothing more: attempts to make it stretch, from inside running turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.core.session.support_day import Place, begin, calling, play, say, tools_of
from tests.core.session.support_day_desk import Desk, call, desk_of, rules

from holdfast.core.permission.errors import InvalidSave, PermissionNotFound
from holdfast.core.runner.publish import TOOL_INTERRUPTED
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

ASKING = {"asking": {"mode": "all", "permissions": rules("allow * *", "ask bash *", "ask edit *")}}
TOUCH = ("bash", {"command": "touch done"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, agents=ASKING)


@pytest.fixture
async def runtime(place: Place, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    async with place.runtime(model) as runtime:
        yield runtime


@pytest.fixture
async def desk(runtime: Runtime) -> AsyncIterator[Desk]:
    async with desk_of(runtime) as desk:
        yield desk


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await begin(runtime, agent="asking")


async def errors(runtime: Runtime, session_id: str) -> list[str | None]:
    """Of each call that has ended; None for one that succeeded."""
    states = [part.state for part in await tools_of(runtime, session_id)]
    return [
        state.error.message if isinstance(state, ToolError) else None
        for state in states
        if isinstance(state, ToolCompleted | ToolError)
    ]


async def test_a_reply_of_once_releases_one_call(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk
) -> None:
    """TOL-322: of two calls that ask for the very same thing one is released, and the next turn's asks again."""
    play(model, calling(TOUCH, TOUCH), calling(TOUCH))
    await runtime.sessions.prompt(session.id, Prompt(text="go"))
    first, second = await desk.asked(2)
    await desk.answer(first, "once")
    assert await desk.services.permissions.list() == (second,)
    await desk.answer(second, "once")
    [third] = await desk.asked(3)
    assert third.resources == ("touch done",)
    await desk.answer(third, "reject")
    await runtime.sessions.wait(session.id)
    assert await errors(runtime, session.id) == [None, None, TOOL_INTERRUPTED]


async def test_only_what_was_offered_can_be_saved(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-322, TOL-099: a wider pattern is refused, and the call goes on waiting."""
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    for pattern in ("*", "touch*", "rm *"):
        with pytest.raises(InvalidSave):
            await desk.answer(request, "always", save=[pattern])
    assert await desk.services.permissions.list() == (request,)
    assert (await desk.services.permissions.saved.here(), (place.project / "done").exists()) == ((), False)
    await runtime.sessions.interrupt(session.id)


async def test_always_is_for_one_project(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-322, TOL-096: what was saved here is asked for there."""
    other = place.folder / "other"
    place.write(other / ".git" / "opencode", "another project")
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    await desk.answer(request, "always")
    await runtime.sessions.wait(session.id)
    await call(runtime, model, session.id, TOUCH)
    await runtime.sessions.wait(session.id)
    assert (await errors(runtime, session.id), len(desk.heard)) == ([None, None], 1)

    elsewhere = await begin(runtime, agent="asking", location=Location(directory=str(other)))
    await call(runtime, model, elsewhere.id, TOUCH)
    await desk.asked(2)
    assert desk.heard[1]["sessionID"] == elsewhere.id
    assert not (other / "done").exists()
    await runtime.sessions.interrupt(elsewhere.id)


async def test_a_session_that_moves_takes_no_approval_along(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-322, SES-144, TOL-090: the question is closed with the place, and a late yes runs nothing anywhere."""
    below = place.project / "below"
    below.mkdir()
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    await runtime.sessions.move(session.id, str(below))
    with pytest.raises(PermissionNotFound):
        await desk.answer(request, "always")
    await runtime.sessions.wait(session.id)
    assert await errors(runtime, session.id) == [TOOL_INTERRUPTED]
    assert [reply["reply"] for reply in desk.replies] == ["reject"]
    assert not [path for path in place.project.rglob("done")]
    assert await desk.services.permissions.saved.here() == ()


async def test_a_file_changed_between_approval_and_edit_is_not_overwritten(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-322, TOL-315, TOL-346: the approval was for this change to that file; a link put in its place is refused."""
    outside = place.write(place.folder / "outside.txt", "canary old")
    place.write("a.txt", "old")
    await call(runtime, model, session.id, ("edit", {"path": "a.txt", "oldString": "old", "newString": "new"}))
    [request] = await desk.asked()
    assert request.resources == ("a.txt",)
    (place.project / "a.txt").unlink()
    (place.project / "a.txt").symlink_to(outside)
    await desk.answer(request, "once")
    await runtime.sessions.wait(session.id)
    [told] = await errors(runtime, session.id)
    assert told is not None
    assert "canary" not in told
    assert outside.read_text() == "canary old"


async def test_nothing_is_shown_of_a_secret_looking_file_before_approval(
    tmp_path: Path, model: ScriptedTransport
) -> None:
    """TOL-083, TOL-329, TOL-330: the usual agent asks before it reads `.env`; unanswered, no byte of it is anywhere."""
    place = Place(tmp_path)
    place.write(".env", "TOKEN=canary-in-a-file\n")
    place.write("deep/.env.local", "TOKEN=canary-in-a-file\n")
    async with place.runtime(model, unattended="deny") as runtime, desk_of(runtime) as desk:
        session = await begin(runtime)
        play(
            model,
            calling(
                ("read", {"path": ".env"}),
                ("read", {"path": "deep/.env.local"}),
                ("read", {"path": "deep/../.env"}),
                ("grep", {"pattern": "canary"}),
                ("grep", {"pattern": "TOKEN", "path": ".env"}),
            ),
        )
        await say(runtime, session.id, "go")
        asked = [item["resources"][0] for item in desk.heard if item["action"] == "read"]
        assert sorted(asked[:3]) == [".env", ".env", "deep/.env.local"]
        assert "canary-in-a-file" not in repr(await runtime.log.serialized(session.id, limit=1_000))
        assert "canary-in-a-file" not in repr(model.requests)
