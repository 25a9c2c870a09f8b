"""Session records: creating, finding again, and what is in them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.core.conftest import MODEL, event_types, new_session, tables

from holdfast.core.clock import Ids
from holdfast.core.database.errors import Refused, StorageError
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.errors import SessionNotFound
from holdfast.embedded.holdfast import Holdfast
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.ids import EventID
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_event import Moved
from holdfast.schema.version import __version__

pytestmark = pytest.mark.anyio


async def test_an_id_is_made_or_taken(runtime: Runtime) -> None:
    """SES-003: without an id a new one each time; an id that is free is used."""
    one, other = await new_session(runtime), await new_session(runtime)
    assert one.id != other.id
    assert one.id.startswith("ses_")
    named = await new_session(runtime, id="ses_mine")
    assert named.id == "ses_mine"
    assert await runtime.sessions.get("ses_mine") == named


async def test_creating_again_returns_the_session_as_it_is_now(runtime: Runtime, tmp_path: Path) -> None:
    """SES-004: whatever else is asked for, no event is appended and the current projection comes back."""
    made = await new_session(runtime, id="ses_mine", agent="build")
    moved = Location(directory=str(tmp_path))
    await runtime.log.publish(Moved(timestamp=made.time.created + 5, session_id=made.id, location=moved))
    before = await event_types(runtime, made.id)

    again = await new_session(
        runtime,
        id="ses_mine",
        agent="plan",
        model=ModelRef(id="other", provider_id="elsewhere"),
        location=Location(directory="/", workspace_id="wrk_x"),
    )

    assert again == await runtime.sessions.get("ses_mine")
    assert (again.agent, again.location) == ("build", moved)
    assert await event_types(runtime, made.id) == before


async def test_twenty_creations_at_once_make_one_session(runtime: Runtime) -> None:
    """SES-005: one Session, one event, and every caller gets the same record."""
    agents = [f"agent-{number}" for number in range(20)]
    made = await asyncio.gather(*(new_session(runtime, id="ses_race", agent=agent) for agent in agents))
    assert len({encode(session) for session in made}) == 1
    assert made[0].agent in agents
    assert await event_types(runtime, "ses_race") == ["session.created"]


async def test_another_failure_of_the_projection_is_not_taken_for_a_collision(runtime: Runtime) -> None:
    """SES-005: only `already projected` may be absorbed; anything else propagates and leaves nothing behind."""
    with tables(runtime) as sql:
        sql("create trigger refuse before insert on session begin select raise(abort, 'no room at the inn'); end")
        with pytest.raises(StorageError, match="no room at the inn"):
            await new_session(runtime, id="ses_refused")
        sql("drop trigger refuse")
        assert sql("select count(*) from event where aggregate_id = 'ses_refused'") == [(0,)]
    with pytest.raises(SessionNotFound):
        await runtime.sessions.get("ses_refused")


class Forgetful(Ids):
    """Gives every event the same id."""

    def event(self) -> EventID:
        return EventID("evt_same")


async def test_another_refusal_is_not_taken_for_a_collision_either(
    tmp_path: Path, project: Path, clock: ManualClock
) -> None:
    """SES-005: a reused event id is refused by the log, and the caller is told that and nothing else."""
    paths = Paths(tmp_path / "data")
    async with Runtime(paths=paths, directory=project, environment={}, ids=Forgetful(clock)) as runtime:
        await new_session(runtime, id="ses_first")
        with pytest.raises(Refused, match="already exists"):
            await new_session(runtime, id="ses_second")


async def test_a_new_session_has_default_title_zero_cost_and_equal_times(
    tmp_path: Path, project: Path, clock: ManualClock
) -> None:
    """SES-006, SES-008: title with the ISO time, zero cost and tokens, created = updated = now; absent is absent."""
    paths = Paths(tmp_path / "data")
    clock.millis = 1_700_000_000_123
    async with Runtime(paths=paths, directory=project, environment={}, clock=clock) as runtime:
        session = await new_session(runtime, model=None)
        subpath = str(project).lstrip("/")
        assert decode_any(encode(session)) == {
            "id": session.id,
            "projectID": "global",
            "cost": 0.0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": {"created": 1_700_000_000_123, "updated": 1_700_000_000_123},
            "title": "New session - 2023-11-14T22:13:20.123Z",
            "location": {"directory": str(project)},
            "subpath": subpath,
        }
        with tables(runtime) as sql:
            ((slug, version, path),) = sql("select slug, version, path from session")
            assert sql("select id, worktree, vcs from project") == [("global", "/", None)]
        assert slug
        assert (version, path) == (__version__, subpath)
        assert await event_types(runtime, session.id) == ["session.created"]


async def test_the_path_is_relative_to_the_repository(runtime: Runtime, tmp_path: Path) -> None:
    """SES-006: forward slashes below the project's directory, none at its root; one project row."""
    root = tmp_path / "repository"
    deep = root / "packages" / "core"
    deep.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "opencode").write_text("prj_cached")
    inside = await new_session(runtime, location=Location(directory=str(deep)))
    top = await new_session(runtime, location=Location(directory=str(root)))
    assert (inside.project_id, inside.subpath) == ("prj_cached", "packages/core")
    assert (top.project_id, top.subpath) == ("prj_cached", None)
    with tables(runtime) as sql:
        assert sql("select worktree, vcs from project where id = 'prj_cached'") == [(str(root), "git")]


async def test_the_session_lives_where_the_host_does_unless_told(tmp_path: Path, project: Path) -> None:
    """SES-007: every argument of the public operation is optional; each is honoured when given."""
    other = tmp_path / "other"
    other.mkdir()
    async with Holdfast(project, data=tmp_path / "data", environment={}, transport=ScriptedTransport()) as host:
        default = await host.sessions.create()
        chosen = await host.sessions.create(
            id="ses_chosen", agent="plan", model=MODEL, location=Location(directory=str(other))
        )
    assert default.location == Location(directory=str(project))
    assert (chosen.id, chosen.agent, chosen.location.directory) == ("ses_chosen", "plan", str(other))
    assert chosen.model == ModelRef(id="echo", provider_id="demo", variant="default")


@pytest.mark.parametrize(("given", "read"), [(None, "default"), ("default", "default"), ("high", "high")])
async def test_a_model_reads_back_with_a_variant(runtime: Runtime, given: str | None, read: str) -> None:
    """SES-008: stored without a variant, it reads back as `default`."""
    session = await new_session(runtime, model=ModelRef(id="m", provider_id="p", variant=given))
    assert session.model == ModelRef(id="m", provider_id="p", variant=read)


async def test_a_given_workspace_survives_the_round_trip(runtime: Runtime, model: ScriptedTransport) -> None:
    """SES-009: omitted it is absent on the wire; given it round-trips and the Session still executes."""
    here = runtime.location
    placed = await new_session(runtime, location=Location(directory=here.directory, workspace_id="wrk_7"))
    local = await new_session(runtime)
    assert decode_any(encode(placed))["location"] == {"directory": here.directory, "workspaceID": "wrk_7"}
    assert decode_any(encode(local))["location"] == {"directory": here.directory}
    await runtime.sessions.prompt(placed.id, Prompt(text="hello"))
    await runtime.sessions.wait(placed.id)
    assert len(model.requests) == 1
    assert (await runtime.sessions.get(placed.id)).location.workspace_id == "wrk_7"


async def test_every_operation_asks_first_whether_the_session_exists(runtime: Runtime, session: Session) -> None:
    """SES-010: not-found with the id, before anything else is done; only the primitive tolerates it."""
    operations = runtime.sessions
    missing = "ses_missing"

    async def follow() -> None:
        async for _ in operations.events(missing):
            pass

    for attempt in (
        operations.get(missing),
        operations.prompt(missing, Prompt(text="x"), id="msg_x"),
        operations.messages(missing, order="asc", limit=1),
        operations.message(missing, "msg_x"),
        operations.context(missing),
        operations.history(missing),
        follow(),
        operations.run(missing),
        operations.wake(missing),
        operations.wait(missing),
        operations.interrupt(missing),
    ):
        with pytest.raises(SessionNotFound) as refused:
            await attempt
        assert refused.value.session_id == missing
        assert refused.value.code == "SessionNotFoundError"
    await runtime.execution.interrupt(missing)
    with tables(runtime) as sql:
        assert sql("select count(*) from session_input") == [(0,)]
        assert sql("select distinct aggregate_id from event") == [(session.id,)]
