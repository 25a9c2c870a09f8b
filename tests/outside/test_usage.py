"""What requests to models used: by day, project, model and tree, over HTTP and on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine
from tests.outside.scripted_provider import Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import Holdfast, InvalidRequest, Location, Session
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.usage import UsageReport, UsageSum

pytestmark = pytest.mark.anyio

ECHO = ("run", "-m", "demo/echo")
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 600}}
PRICE = {"input": 10, "output": 20, "cache_read": 1, "cache_write": 12}
COST = (400 * 10 + 600 * 1 + 10 * 20) / 1e6
SAVED = 600 * 9 / 1e6


def said(text: str = "done", **usage: Any) -> Turn:
    return Turn(text=text, usage={**USAGE, **usage})


def priced(world: World, **cost: float) -> None:
    models = {"m": {"tool_call": True, "cost": cost or PRICE}, "free": {"tool_call": True}}
    world.configure(provider={"mock": {**world.provider(), "models": models}})


async def one(hf: Holdfast, text: str = "go", **options: Any) -> Session:
    session = await hf.sessions.create(**options)
    await hf.sessions.rename(session.id, title=text)
    await ask(hf, session, text)
    return session


def close(left: UsageSum, right: UsageSum) -> bool:
    same = (left.requests, left.tokens, left.unpriced) == (right.requests, right.tokens, right.unpriced)
    return same and left.cost == pytest.approx(right.cost) and left.saved == pytest.approx(right.saved)


async def test_a_period_is_told_by_day_model_project_and_tree(world: World) -> None:
    """OPS-410, OPS-411: and each sum is the same however it is divided."""
    priced(world)
    world.model.always = Cast(
        tree=[Turn(calls=delegating("child").calls, usage=USAGE), said()], child=[said()], other=[said()]
    )
    other = world.home / "elsewhere"
    other.mkdir()
    async with world.host() as hf:
        tree = await one(hf, "tree")
        free = await one(hf, "other", location=Location(directory=str(other)), model="mock/free")
        reports = {by: await hf.system.usage(by=by) for by in ("day", "model", "project", "session")}
        whole = await hf.system.usage()
        both = await hf.system.usage(by="session,model")
    tokens = Tokens(input=1600, output=40, reasoning=0, cache=CacheTokens(read=2400, write=0))
    expected = UsageSum(requests=4, tokens=tokens, cost=3 * COST, saved=3 * SAVED, unpriced=1)
    assert close(whole.total, expected)
    assert whole.rows == ()
    assert all(close(report.total, expected) for report in reports.values())
    assert [(row.day is not None, row.requests) for row in reports["day"].rows] == [(True, 4)]
    assert {row.model.id: row.requests for row in reports["model"].rows if row.model} == {"m": 3, "free": 1}
    sessions = {row.session.id: (row.session.title, row.requests) for row in reports["session"].rows if row.session}
    assert sessions == {tree.id: ("tree", 3), free.id: ("other", 1)}
    assert sum(row.requests for row in reports["project"].rows) == 4
    assert sorted((row.model.id, row.requests) for row in both.rows if row.model) == [("free", 1), ("m", 3)]


async def test_a_report_is_of_a_directory_a_project_or_a_tree(world: World) -> None:
    """OPS-410: what is below a Session is counted where the Session is."""
    priced(world)
    world.model.always = Cast(tree=[Turn(calls=delegating("child").calls, usage=USAGE), said()], child=[said()])
    other = world.home / "elsewhere"
    other.mkdir()
    async with world.host() as hf:
        tree = await one(hf, "tree")
        await one(hf, "other", location=Location(directory=str(other)))
        children = await hf.sessions.list(parent_id=tree.id)
        here = await hf.system.usage(directory=str(world.project))
        there = await hf.system.usage(directory=str(other))
        project = await hf.system.usage(project=tree.project_id)
        below = await hf.system.usage(session=tree.id)
        child = await hf.system.usage(session=children.items[0].id)
        with pytest.raises(InvalidRequest, match="no session ses_0"):
            await hf.system.usage(session="ses_00000000000000000000000000")
    counts = [report.total.requests for report in (here, there, below, child)]
    assert counts == [3, 1, 3, 1]
    assert project.total.requests >= 3


async def test_days_begin_at_an_offset_and_periods_at_any_time(world: World) -> None:
    """OPS-410: `since` is part of a period and `until` is not."""
    priced(world)
    world.model.plays(said())
    async with world.host() as hf:
        session = await one(hf)
        (entry,) = (await hf.sessions.ledger(session.id)).items
        assert entry.ended is not None
        at = entry.ended
        exact: UsageReport = await hf.system.usage(since=at, until=at + 1)
        before = await hf.system.usage(since=0, until=at)
        after = await hf.system.usage(since=at + 1)
        days = {}
        for offset in (-1440, 0, 1440):
            (row,) = (await hf.system.usage(by="day", offset=offset)).rows
            days[offset] = str(row.day)
        with pytest.raises(InvalidRequest, match="before it begins"):
            await hf.system.usage(since=at, until=at - 1)
        with pytest.raises(InvalidRequest):
            await hf.system.usage(by="week")
    assert [report.total.requests for report in (exact, before, after)] == [1, 0, 0]
    assert len(set(days.values())) == 3
    assert sorted(days.values()) == [days[-1440], days[0], days[1440]]


async def test_what_the_cache_saved_is_what_it_was_worth_at_the_time(world: World) -> None:
    """OPS-411: also after the prices changed, and less than nothing if writing to it cost more than reading saved."""
    priced(world)
    world.model.plays(said(), said(prompt_tokens_details={"cached_tokens": 0}))
    async with world.host() as hf:
        await one(hf, "first")
        await one(hf, "without a cache")
    priced(world, input=10, output=20, cache_read=15)
    world.model.plays(said())
    async with world.host() as hf:
        await one(hf, "second")
        found = await hf.system.usage(by="session")
    saved = {row.session.title: row.saved for row in found.rows if row.session}
    assert saved == {
        "first": pytest.approx(SAVED),
        "without a cache": 0,
        "second": pytest.approx(-600 * 5 / 1e6),
    }
    assert found.total.unpriced == 0


async def test_the_runtime_own_requests_are_told_with_their_model(world: World) -> None:
    """OPS-410: titles, compactions and answers on the side."""
    priced(world)
    world.model.plays(said(), said("summary"))
    async with world.host() as hf:
        session = await one(hf)
        await hf.sessions.generate(session.id, prompt="in short?")
        found = await hf.system.usage(by="model")
        entries = (await hf.sessions.ledger(session.id)).items
    assert [(row.model and row.model.id, row.requests) for row in found.rows] == [("m", 2)]
    assert [(entry.purpose, entry.model and entry.model.id) for entry in entries] == [("turn", "m"), ("generate", "m")]


async def test_what_was_deleted_is_not_in_a_report(world: World) -> None:
    """OPS-412"""
    priced(world)
    world.model.plays(said(), said())
    async with world.host() as hf:
        gone = await one(hf)
        await one(hf)
        await hf.sessions.delete(gone.id)
        found = await hf.system.usage(by="session")
    assert found.total.requests == 1


async def test_a_failed_call_of_a_tool_does_not_change_the_count(world: World) -> None:
    """OPS-410: a request is one, whatever its calls do."""
    priced(world)
    world.model.plays(Turn(calls=calling("read", filePath="no such file").calls, usage=USAGE), said())
    async with world.host() as hf:
        await one(hf)
        assert (await hf.system.usage()).total.requests == 2


def test_the_command_prints_tables_json_and_csv(holdfast: Machine) -> None:
    """OPS-413"""
    id = holdfast(*ECHO, "hello").session
    table = holdfast("usage", "--by", "session", "--by", "model").out
    (record,) = json.loads(holdfast("usage", "--by", "session", "--json").out)
    (row,) = csv.DictReader(io.StringIO(holdfast("usage", "--by", "session", "--csv").out))
    assert id in table
    assert table.splitlines()[0].split()[:2] == ["SESSION", "MODEL"]
    assert record["session"] == row["session"] == id
    assert {name: str(value) for name, value in record.items()} == row
    assert list(row) == [
        *("session", "title", "requests", "input", "cached", "output", "cost", "saved", "unpriced"),
    ]
    of_session = holdfast("usage", id, "--by", "day", "--csv").out
    assert of_session.splitlines()[0].startswith("day,requests,")
    assert len(of_session.splitlines()) == 2


def test_the_command_tells_periods_that_have_nothing_or_are_none(holdfast: Machine, tmp_path: Path) -> None:
    """OPS-413"""
    holdfast(*ECHO, "hello")
    old = holdfast("usage", "--since", "2001-01-01", "--until", "2001-01-02")
    assert (old.code, old.out) == (0, "")
    assert "no usage" in old.err
    assert "from 2001-01-01" in old.err
    wrong = holdfast("usage", "--since", "2001-01-03", "--until", "2001-01-01")
    assert wrong.code == 2
    assert "before it begins" in wrong.err
    assert holdfast("usage", "--since", "yesterday").code == 2
    assert holdfast("usage", "--days", "2", "--since", "2001-01-01").code == 2
    assert holdfast("usage", "--csv", "--json").code == 2
