"""The same units and reads on SQLite and on PostgreSQL: equal outcomes, equal rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.database.postgres.recording import Committing, Recording, statements_of
from tests.outside import (
    test_budgets,
    test_compaction_story,
    test_delegation,
    test_forks,
    test_forms,
    test_inbox_operations,
    test_instruction_entries,
    test_mcp_tools,
    test_permission_story,
    test_prompt_options,
    test_revert_and_move_story,
    test_session_trees,
    test_shell_messages,
    test_structured_output,
    test_subagents,
)
from tests.outside.scripted_provider import Model
from tests.outside.world import World
from tests.stores import stores
from tests.stores.stores import STORES

from holdfast.core.database.opening import open_database
from holdfast.core.database.postgres.text import restore
from holdfast.core.database.unit import Committed, NewEvent, Row, Statement, Unit

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="compares PostgreSQL with SQLite")]

Story = Callable[[World], Awaitable[None]]
STORIES: list[Story] = [
    test_forks.test_a_fork_goes_back_into_the_history_it_shares,
    test_forks.test_nothing_that_happens_to_the_source_shows_in_the_fork,
    test_forks.test_attachments_are_shared_and_outlive_the_source,
    test_budgets.test_at_the_limit_a_session_waits_and_goes_on_when_the_budget_is_raised,
    test_budgets.test_the_usage_of_a_session_is_told,
    test_compaction_story.test_a_second_summary_builds_on_the_first,
    test_compaction_story.test_a_checkpoint_can_be_inspected_and_undone,
    test_subagents.test_several_tasks_run_side_by_side,
    test_subagents.test_a_background_task_brings_its_result_by_itself,
    test_delegation.test_a_model_looks_after_its_background_tasks,
    test_permission_story.test_always_holds_for_what_was_shown_and_releases_what_it_covers,
    test_permission_story.test_a_model_asks_and_a_person_answers,
    test_forms.test_a_form_is_made_answered_and_read,
    test_mcp_tools.test_a_compaction_begins_a_new_offer,
    test_inbox_operations.test_a_queued_input_that_is_steered_joins_and_wakes,
    test_inbox_operations.test_a_cancelled_input_stays_cancelled,
    test_instruction_entries.test_entries_survive_a_restart_and_a_rebuild,
    test_prompt_options.test_options_hold_after_a_restart,
    test_revert_and_move_story.test_a_prompt_on_a_staged_revert_commits_it,
    test_revert_and_move_story.test_a_move_takes_the_session_and_its_context_along,
    test_session_trees.test_one_call_tells_the_whole_tree,
    test_session_trees.test_a_deletion_may_keep_the_children,
    test_session_trees.test_a_tree_that_waits_for_a_budget_says_so_and_can_be_stopped,
    test_shell_messages.test_a_command_becomes_a_message_that_the_model_reads_in_its_place,
    test_structured_output.test_an_answer_that_does_not_match_is_asked_for_again,
]
TIMES = (
    "lease.get",
    "lease.held",
    "owner.all",
    "event.position",
    "event.moved_since",
    "tree.moved_since",
    "request.owned",
)
"""Reads that tell of the server's time, its locks, or a position."""
OWN = ("owner",)
"""Tables with times of the server."""
SPACED = {"activity.endings"}
"""Statements that make JSON, which the stores space differently."""
UNORDERED = {"attachment.list", "context.told_after", "inbox.waiting", "inbox.wakes", "mcp.newest_hashes"}
UNORDERED |= {"tree.blocked", "tree.nodes", "tree.pauses", "tree.roots", "tree.tasks", "tree.turns"}
"""Reads whose order nobody relies on."""


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    model = Model()
    async with model.serving():
        yield model


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.removeprefix("test_"))
async def test_a_story_leaves_the_same_rows_and_reads(
    story: Story, tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-045, STO-046."""
    recording = Recording()
    with recording.installed(), monkeypatch.context() as patch:
        patch.setattr(stores, "on_postgres", lambda: False)
        await story(World(tmp_path, model))
    assert recording.steps
    await compare(recording, tmp_path / "other.db")
    check_locks(recording)


async def compare(recording: Recording, file: Path) -> None:
    database = open_database(STORES.database(file).address)
    try:
        for step in recording.steps:
            if isinstance(step, Committing):
                assert await outcome_of(database, step.unit) == told(step.outcome), step.unit
            elif step.name not in TIMES:
                found = await database.fetch_large(step.name, step.params)
                assert comparable(step.name, found) == comparable(step.name, step.rows), (step.name, step.params)
    finally:
        database.close()
    pooled = STORES.database(file)
    for table, rows in recording.tables().items():
        if table not in OWN:
            found = [tuple(map(_restored, row)) for row in pooled.run(f"select * from {table}")]
            if table == "budget_revision":
                found = found or [(0, 0)]  # emptied for the next test
            assert sorted(without_place(table, found), key=repr) == sorted(without_place(table, rows), key=repr), table


async def outcome_of(database: Any, unit: Unit) -> object:
    try:
        return told(await database.submit(unit))
    except Exception as error:  # noqa: BLE001 - what the unit was refused with is compared
        return told(error)


def told(outcome: object) -> object:
    return outcome if isinstance(outcome, Committed) else type(outcome)


def comparable(name: str, rows: list[Row]) -> list[Row]:
    if name in SPACED:
        rows = [
            tuple(json.loads(value) if isinstance(value, str) and value[:1] == "{" else value for value in row)
            for row in rows
        ]
    return sorted(rows, key=repr) if name in UNORDERED else rows


def without_place(table: str, rows: list[Row]) -> list[Row]:
    """Of an event, what is before its id is its place in the log of all aggregates."""
    return [row[1:] for row in rows] if table == "event" else [tuple(map(_as_text, row)) for row in rows]


def _restored(value: Any) -> Any:
    return restore(value) if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def check_locks(recording: Recording) -> None:
    """STO-040, STO-041: whoever relies on the rows of others says so."""
    for step in recording.steps:
        if not isinstance(step, Committing):
            continue
        unit = step.unit
        for statement in statements_of(unit):
            if statement.name.startswith("lineage.") and statement.name != "lineage.begin":
                assert unit.shares_lineage, statement
            other = statement.params.get("source_id") if statement.name == "context.take_over" else None
            if statement.name in ("session.exists", "fork.source_changed"):
                other = statement.params.get("id") or statement.params.get("session_id")
            assert other in (None, unit.aggregate_id, *unit.locks), statement


NULLABLE: tuple[str, ...] = (
    "workspace_id",
    "parent_id",
    "path",
    "share_url",
    "summary_additions",
    "summary_deletions",
    "summary_files",
)
NULLABLE += ("summary_diffs", "metadata", "revert", "permission", "agent", "model", "time_compacting", "time_archived")
NULLABLE += ("time_pinned",)
NULLABLE += ("fork",)
COUNTS = ("tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write")


def empty_session() -> dict[str, Any]:
    return {**dict.fromkeys(NULLABLE), **dict.fromkeys(COUNTS, 0)}


LONE = r"\ud800 \udfff \ud83d\ude00 \u0000 \uf8f1 \uF8F1 \\u0000"
"""Escapes as they stand in JSON that others have written."""
RAW = "\0 \uf8f1 0000 \\u0000 é 😀 \x1b \x7f"
LARGE = "x" * 5_000_000


def nasty_units() -> list[Unit]:
    """Messages and calls whose JSON somebody else has spelled."""
    key: dict[str, Any] = {"session_id": "ses_n", "message_id": "msg_n"}
    spelled = f'{{"b":1e3,"a":1.0,"text":"{LONE}","z":{{}},"y":[],"n":null,"i":100000000000000000000}}'
    call = '{"type":"tool","id":"c","name":"t","state":{"status":"pending","input":""},"time":{"created":1}}'
    session = empty_session()
    session |= {"id": "ses_n", "project_id": "p", "slug": RAW, "directory": "/n", "title": RAW, "version": "1"}
    session |= {"cost": 0.1, "time_created": 1, "time_updated": 1}
    place = {"session_id": "ses_n", "message_id": "msg_n", "kind": "tool", "key": "c"}
    target: dict[str, Any] = {"session_id": "ses_n", "message_id": "msg_n", "key": "c", "timestamp": 2}
    statements = [
        Statement("project.ensure", {"id": "p", "worktree": "/n", "vcs": None, "time_created": 1}),
        Statement("session.insert", session),
        Statement("lineage.begin", {"session_id": "ses_n"}),
        Statement(
            "message.insert",
            {
                "session_id": "ses_n",
                "id": "msg_n",
                "type": "assistant",
                "timestamp": 1,
                "data": '{"time":{"created":1}}',
            },
            changes=1,
        ),
        Statement("message.note_assistant", {"session_id": "ses_n"}),
        Statement("part.add", {**place, "status": "pending", "data": call}),
        Statement("part.tool_input", {**target, "text": RAW}),
        Statement("part.tool_called", {**target, "provider": spelled, "state": f'{{"input":{spelled}}}'}),
        Statement("part.tool_progress", {**target, "structured": spelled, "content": f"[{spelled}]"}),
        Statement(
            "part.tool_failed", {**target, "executed": 0, "metadata": spelled, "state": f'{{"error":{spelled}}}'}
        ),
        Statement("part.add", {**place, "kind": "text", "status": None, "data": '{"type":"text","id":"c","text":""}'}),
        Statement("part.end_text", {**target, "text": RAW + LARGE}),
        Statement("part.add", {**place, "kind": "reasoning", "status": None, "data": '{"id":"c","text":""}'}),
        Statement("part.end_reasoning", {**target, "text": RAW, "metadata": spelled}),
        Statement(
            "message.end_step", {**key, "timestamp": 2, "patch": f'{{"time":{{"completed":1e3}},"x":{spelled}}}'}
        ),
        Statement("message.end_step", {**key, "timestamp": 2, "patch": '{"x":{"b":null,"z":{"a":{}},"q":{"r":null}}}'}),
        Statement("message.set_structured", {**key, "value": spelled}),
        Statement("message.close_newest_assistant", {"session_id": "ses_n", "timestamp": 7}),
    ]
    first, *rest = (
        Unit("ses_n", events=(NewEvent(f"evt_{place}", "t.1", spelled, RAW, (statement,)),))
        for place, statement in enumerate(statements)
    )
    return [first, *rest, Unit("ses_n", events=(NewEvent("evt_large", "t.1", f'"{LARGE}"', None, ()),))]


NASTY_READS: list[tuple[str, dict[str, Any]]] = [
    ("message.get", {"session_id": "ses_n", "message_id": "msg_n"}),
    ("message.active", {"session_id": "ses_n"}),
    ("event.page", {"aggregate_id": "ses_n", "after": -1, "limit": 100}),
    ("event.page_of_types", {"aggregate_id": "ses_n", "after": -1, "limit": 100, "types": json.dumps(["t.1", RAW])}),
    ("session.get", {"id": "ses_n"}),
    ("projection.parts", {"id": "ses_n"}),
    ("task.calls", {"child_id": "ses_n", "promoted_seq": -1, "ended_seq": 100}),
    ("tree.nodes", {"ids": json.dumps(["ses_n", RAW], ensure_ascii=False)}),
]


async def test_json_and_texts_of_any_spelling_stay_as_they_are(tmp_path: Path) -> None:
    """STO-044, STO-045."""
    recording = Recording()
    with recording.installed():
        database = open_database(tmp_path / "one.db")
        for unit in nasty_units():
            assert isinstance(await database.submit(unit), Committed), unit
        for name, params in NASTY_READS:
            assert await database.fetch_large(name, params), name
        database.close()
    await compare(recording, tmp_path / "other.db")


LISTED = ("b", "a", "B", "é", "Z", "10", "9", "_", "%x", "\\x", "Ä", "ä")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"directory": "/d/1"},
        {"project": "p2"},
        {"search": "%B%"},
        {"search": "%ä%"},
        {"search": r"%\%%"},
        {"workspace": "w"},
        {"subpath": "A", "subpath_below": "A/%"},
        {"archived": 1},
        {"archived": 0},
        {"roots": 1},
        {"anchor_time": 2, "anchor_id": "ses_5"},
        {"limit": 3},
    ],
    ids=lambda given: "-".join(given) or "all",
)
async def test_lists_are_the_same(tmp_path: Path, given: dict[str, Any]) -> None:
    """STO-046, STO-047: order, case and what a pattern means."""
    recording = Recording()
    with recording.installed():
        database = open_database(tmp_path / "one.db")
        for unit in listed_units():
            assert isinstance(await database.submit(unit), Committed)
        anything: dict[str, Any] = {
            **dict.fromkeys(("directory", "project", "subpath", "subpath_below", "workspace", "search", "archived")),
            "anchor_time": None,
            "anchor_id": None,
            "roots": 0,
            "limit": 50,
            "parent": "ses_0",
            **given,
        }
        for order in ("list_desc", "list_asc", "children_desc", "children_asc"):
            await database.fetch_large(f"session.{order}", anything)
        database.close()
    await compare(recording, tmp_path / "other.db")


def listed_units() -> list[Unit]:
    units = []
    for number, title in enumerate(LISTED):
        row = empty_session()
        row |= {"id": f"ses_{number}", "project_id": f"p{number % 3}", "slug": "s", "directory": f"/d/{number % 2}"}
        row |= {"title": title, "version": "1", "cost": 0.0, "time_created": number // 3, "time_updated": 1}
        row |= {"path": f"a/{number}" if number % 4 else "A", "workspace_id": "w" if number % 5 == 0 else None}
        row |= {"parent_id": "ses_0" if number % 3 == 1 else None, "time_archived": 9 if number == 4 else None}
        project = {"id": f"p{number % 3}", "worktree": "/d", "vcs": None, "time_created": 1}
        local = (Statement("project.ensure", project), Statement("session.insert", row))
        units.append(Unit(f"ses_{number}", local=local))
    return units
