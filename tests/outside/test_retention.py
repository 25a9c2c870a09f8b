"""Retention: which Sessions go by the user's policy, what is told before, and what stays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import Machine, Server
from tests.outside.test_bundles import various
from tests.outside.test_forks import shown, talked, through
from tests.outside.test_purge import mentioning
from tests.outside.world import World
from tests.prove.clock_shift import shifted

from holdfast import Holdfast, HoldfastError, InvalidRequest, PromptInput

pytestmark = pytest.mark.anyio


def policy(world: World, **retention: Any) -> None:
    world.configure(holdfast={"titles": False, "retention": retention})


async def ids(hf: Holdfast) -> set[str]:
    return {session.id for session in (await hf.sessions.list(limit=100)).items}


async def test_the_oldest_go_and_archived_ones_first(world: World) -> None:
    """OPS-110, OPS-111: a dry run removes nothing and says what goes and why; then the same goes."""
    policy(world, count=2)
    async with world.host() as hf:
        one, two, three, four = [await talked(hf, name) for name in ("one", "two", "three", "four")]
        await hf.sessions.archive(three.id)
        dry = await hf.apply_retention(dry_run=True)
        assert dry.dry_run
        assert [item.id for item in dry.items] == [three.id, one.id]
        assert {item.reason for item in dry.items} == {"more than 2 sessions"}
        assert (dry.trees, dry.events) == (4, 0)
        assert await ids(hf) == {one.id, two.id, three.id, four.id}
        done = await hf.apply_retention()
        assert done.items == dry.items
        assert done.events > 0
        assert await ids(hf) == {two.id, four.id}
        assert mentioning(world.data, one.id) == mentioning(world.data, three.id) == set()
        assert await hf.verify() == []
        assert (await hf.apply_retention()).items == ()


async def test_pinned_and_working_sessions_stay(world: World) -> None:
    """OPS-112: whatever the policy says; unpinned ones go again."""
    policy(world, age=0)
    async with world.host() as hf:
        pinned, waiting = await talked(hf, "pinned"), await hf.sessions.create()
        other = await talked(hf, "other")
        assert (await hf.sessions.pin(pinned.id)).time.pinned is not None
        await hf.sessions.prompt(waiting.id, prompt=PromptInput(text="later"), resume=False)
        report = await hf.apply_retention()
        assert [item.id for item in report.items] == [other.id]
        assert (report.pinned, report.busy) == (1, 1)
        assert (await hf.sessions.pin(pinned.id, pinned=False)).time.pinned is None
        assert [item.id for item in (await hf.apply_retention()).items] == [pinned.id]


async def test_a_source_goes_with_its_last_fork(world: World) -> None:
    """OPS-113: it stays as long as a fork is kept, and says so."""
    policy(world, age=0)
    async with world.host() as hf:
        source = await talked(hf, "one", "two")
        fork = await through(hf, source)
        await hf.sessions.pin(fork.id)
        report = await hf.apply_retention()
        assert report.items == ()
        assert any(f"{fork.id} was forked from it" in note for note in report.notes)
        assert len(await shown(hf, fork)) > 0
        await hf.sessions.pin(fork.id, pinned=False)
        report = await hf.apply_retention()
        assert {item.id for item in report.items} == {source.id, fork.id}
        assert await ids(hf) == set()
        assert await hf.verify() == []


async def test_bundles_are_written_first(world: World) -> None:
    """OPS-114: each can be imported again."""
    policy(world, count=0, export=str(world.home / "kept"))
    async with world.host() as hf:
        session = await talked(hf, "one")
        before = await shown(hf, session)
        report = await hf.apply_retention()
        assert report.exported == (str(world.home / "kept" / f"{session.id}.holdfast"),)
        assert await ids(hf) == set()
        await hf.import_bundle(report.exported[0])
        assert await shown(hf, session) == before


async def test_a_directory_may_have_limits_of_its_own(world: World) -> None:
    """OPS-110: the innermost one counts."""
    other = world.home / "other"
    other.mkdir()
    policy(world, age=0, projects={str(other): {"count": 1}})
    async with world.host() as hf:
        here = await talked(hf, "here")
        there = [await hf.sessions.create(location={"directory": str(other)}) for _ in range(2)]  # type: ignore[arg-type]
        report = await hf.apply_retention()
        assert {item.id for item in report.items} == {here.id, there[0].id}
        assert await ids(hf) == {there[1].id}


async def test_remains_of_deleted_sessions_go(world: World) -> None:
    """OPS-115: if the policy says so."""
    policy(world, deleted=0)
    async with world.host() as hf:
        session = await talked(hf, "one")
        await hf.sessions.delete(session.id)
        assert (await hf.apply_retention(dry_run=True)).deleted == 1
        assert mentioning(world.data, session.id) != set()
        assert (await hf.apply_retention()).deleted == 1
        assert mentioning(world.data, session.id) == set()


def test_the_days_of_deleted_sessions_count_from_their_deletion(holdfast: Machine) -> None:
    """OPS-115: a Session that nobody changed for 40 days can still be looked into for 30 days after its deletion."""
    holdfast.configure_user(holdfast={"retention": {"deleted": 30}})
    session = holdfast("run", "--model", "demo/echo", "one").session
    days = {count: shifted(holdfast.home / str(count), count * 24 * 3600) for count in (40, 60, 80)}
    assert holdfast("sessions", "delete", session, "--yes", **days[40]).code == 0
    assert json.loads(holdfast("retention", "--json", **days[60]).out).get("deleted", 0) == 0
    assert json.loads(holdfast("retention", "--json", **days[80]).out)["deleted"] == 1


@pytest.mark.store("sqlite", reason="PostgreSQL gives space back by itself")
async def test_the_file_gets_smaller(world: World) -> None:
    """OPS-116: while the host is open. A limit in megabytes chooses as many as are needed."""
    policy(world, size=1)
    async with world.host() as hf:
        for name in ("one", "two", "three"):
            session = await talked(hf, name)
            prompt = PromptInput(text="x" * 700_000)
            waiting = await hf.sessions.prompt(session.id, prompt=prompt, resume=False)
            await hf.sessions.withdraw(session.id, message_id=waiting.id)
        file = world.data / "holdfast.db"
        report = await hf.apply_retention()
        assert 1 <= len(report.items) <= 3
        assert report.freed > 0
        assert file.stat().st_size < 2_500_000
        assert await hf.verify() == []


async def test_a_policy_that_cannot_be_used_removes_nothing(world: World) -> None:
    """OPS-117: and without one the way to write one is told. A project cannot set one."""
    world.configure()
    (world.project / "opencode.json").write_text(json.dumps({"holdfast": {"retention": {"age": 0}}}))
    async with world.host(trust=True) as hf:
        session = await talked(hf, "one")
        with pytest.raises(InvalidRequest, match="There is no retention policy"):
            await hf.apply_retention()
        policy(world, age="soon")
        with pytest.raises(HoldfastError, match=r"holdfast\.retention\.age cannot be used: "):
            await hf.apply_retention()
        assert await ids(hf) == {session.id}


def test_the_command_lists_and_removes(holdfast: Machine) -> None:
    """OPS-110, OPS-111: by age, seen from a later day."""
    holdfast.configure_user(holdfast={"retention": {"age": 30}})
    old = holdfast("run", "--model", "demo/echo", "one").session
    kept = holdfast("run", "--model", "demo/echo", "two").session
    assert holdfast("sessions", "pin", kept).code == 0
    later = shifted(holdfast.home / "later", 40 * 24 * 3600)
    dry = holdfast("retention", "--dry-run", **later)
    assert dry.code == 0, dry.err
    assert old in dry.out
    assert "not changed for 40 days" in dry.out
    assert kept not in dry.out
    assert "1 of 2 sessions would be removed" in dry.out
    done = holdfast("retention", **later)
    assert "1 of 2 sessions removed" in done.out
    assert json.loads(holdfast("retention", "--json", **later).out)["items"] == []
    assert old not in holdfast("sessions", "--all").out
    assert "pinned" in holdfast("sessions", "show", kept).out
    assert holdfast("sessions", "unpin", kept).code == 0
    assert "1 of 1 sessions removed" in holdfast("retention", **later).out


def test_a_server_applies_the_policy_by_itself(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """OPS-118: if it is automatic."""
    session = holdfast("run", "--model", "demo/echo", "one").session
    holdfast.configure_user(holdfast={"retention": {"age": 0, "automatic": True}})
    serve()
    deadline = time.monotonic() + 45
    while session in holdfast("sessions", "--all").out:
        assert time.monotonic() < deadline


async def test_a_tree_with_a_pinned_subagent_stays_whole(world: World) -> None:
    """OPS-112: wherever in it the mark is; it goes with everything below when the mark is gone."""
    policy(world, age=0)
    async with world.host() as hf:
        root = await various(world, hf)
        (child,) = [node.id for node in (await hf.sessions.tree(root)).nodes if node.id != root]
        await hf.sessions.pin(child)
        other = await talked(hf, "other")
        report = await hf.apply_retention()
        assert ([item.id for item in report.items], report.pinned) == ([other.id], 1)
        assert {node.id for node in (await hf.sessions.tree(root)).nodes} == {root, child}
        await hf.sessions.pin(child, pinned=False)
        assert [item.id for item in (await hf.apply_retention()).items] == [root]
        assert mentioning(world.data, child) == set()
