"""What a Location has of its own, and what all Locations share."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.conftest import MODEL

from holdfast.core.runtime.runtime import Runtime
from holdfast.core.scope import Scope
from holdfast.core.session.errors import DestinationMismatch
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.codec import decoder
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


def folder(base: Path, name: str) -> Location:
    (base / name).mkdir(parents=True)
    return Location(directory=str(base / name))


def test_two_references_with_equal_fields_are_one_location() -> None:
    """CAT-001: made or decoded, with no workspace or with an absent one."""
    made = Location(directory="/w")
    decoded: Location = decoder(Location).decode(b'{"directory":"/w"}')
    assert {made, decoded, Location(directory="/w", workspace_id=None)} == {made}
    assert made != Location(directory="/w", workspace_id="wrk_1")


async def test_services_are_built_once_per_location_and_kept_apart(runtime: Runtime, tmp_path: Path) -> None:
    """CAT-004, CAT-005, CAT-006: shared by all Sessions and users of one Location; invisible in another; what is global
    is the same in both."""
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    (Path(one.directory) / "opencode.json").write_text(json.dumps({"agents": {"own": {"description": "only here"}}}))

    async def use(location: Location) -> object:
        async with runtime.locations.use(location) as services:
            return services

    first, again = await asyncio.gather(use(one), use(one))
    assert first is again
    async with runtime.locations.use(one) as here, runtime.locations.use(two) as there:
        assert here is first
        own = ("config", "agents", "commands", "catalog", "permissions", "questions", "tools", "context", "plugins")
        assert all(getattr(here, name) is not getattr(there, name) for name in (*own, "runner", "search", "terminals"))
        assert (here.agents.get("own") is None, there.agents.get("own") is None) == (False, True)

        async def nothing(given: dict[str, str], context: ToolContext) -> str:
            return ""

        with Scope() as scope:
            here.tools.register({"mine": Tool("", dict[str, str], str, nothing)}, scope)
            assert "mine" in {item.name for item in here.tools.materialize(()).definitions}
            assert "mine" not in {item.name for item in there.tools.materialize(()).definitions}
        with Scope() as scope:
            runtime.application_tools.register({"everywhere": Tool("", dict[str, str], str, nothing)}, scope)
            for services in (here, there):
                assert "everywhere" in {item.name for item in services.tools.materialize(()).definitions}


async def test_a_drain_goes_to_where_the_session_is(runtime: Runtime, model: ScriptedTransport, tmp_path: Path) -> None:
    """CAT-008, CAT-009: each turn asks again. Moving to the same directory is nothing, to another project an error."""
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    for place in (one, two):
        (Path(place.directory) / "where.txt").write_text(place.directory)
    session: Session = await runtime.sessions.create(location=one, project=await runtime.project(one), model=MODEL)
    reading = Turn(calls=(Call(tool="read", input={"path": "where.txt"}),))
    model._turns.extend([reading, Turn(text="a"), reading, Turn(text="b")])

    await runtime.sessions.prompt(session.id, Prompt(text="x"))
    await runtime.sessions.wait(session.id)
    await runtime.sessions.move(session.id, one.directory)
    head = await runtime.log.latest(session.id)
    assert "session.next.moved.1" not in [event.type for event in await runtime.log.serialized(session.id, limit=999)]
    await runtime.sessions.move(session.id, two.directory)
    assert await runtime.log.latest(session.id) == head + 1
    await runtime.sessions.prompt(session.id, Prompt(text="y"))
    await runtime.sessions.wait(session.id)

    results = [item["content"] for item in model.requests[-1]["messages"] if item["role"] == "tool"]
    assert [one.directory in results[0], two.directory in results[1]] == [True, True]
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "opencode").write_text("another project")
    with pytest.raises(DestinationMismatch) as caught:
        await runtime.sessions.move(session.id, str(tmp_path / "repo"))
    assert (caught.value.expected, caught.value.actual) == (session.project_id, "another project")


async def test_skills_of_a_folder_that_appears_later_are_found(runtime: Runtime, tmp_path: Path) -> None:
    """CTX-173, CTX-177: the Location was opened before there was any `.opencode`."""
    here = folder(tmp_path, "late")
    async with runtime.locations.use(here) as services:
        before = {skill.name for skill in await services.context.skills.list()}
        skill = Path(here.directory) / ".opencode" / "skills" / "mow"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: mow\ndescription: How to mow\n---\nSlowly.\n")
        assert {found.name for found in await services.context.skills.list()} == before | {"mow"}
