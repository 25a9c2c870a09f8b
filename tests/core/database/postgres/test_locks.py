"""Units that rely on rows of other aggregates, each against what would take these rows away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.core.database.postgres.collisions import Nodes, child, records_of, two_nodes

from holdfast.core.database.unit import Committed, Statement, Unit
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.budgets import admit, reserve
from holdfast.core.session.errors import BudgetReached, MessageNotFound, SessionHasChildren, SessionNotFound
from holdfast.core.session.input_errors import PromptConflict
from holdfast.schema import session_event as ev
from holdfast.schema.budget import Budget
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Admission, Prompt
from holdfast.schema.session import CacheTokens, Session, Tokens
from holdfast.schema.turn_event import TurnDispatched

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("postgres", reason="SQLite has one writer at a time"),
]

CREATED, DELETED = "session.created", "session.deleted"
REVERTED, UNDONE = "session.next.revert.committed", "session.next.compaction.undone"
DISPATCHED, ADMITTED = "session.next.turn.dispatched", "session.next.prompt.admitted"
SHELL = "session.next.shell.started"


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with two_nodes(tmp_path) as nodes:
        yield nodes


async def test_a_parent_is_deleted_while_a_child_is_created(nodes: Nodes) -> None:
    """STO-040."""
    parent = await nodes.create()
    _, created = await nodes.collide(DELETED, nodes.one.sessions.delete(parent.id), child(nodes.two, parent))
    assert isinstance(created, SessionNotFound)
    assert nodes.rows("select id from session") == []


async def test_a_child_is_created_while_its_parent_is_deleted(nodes: Nodes) -> None:
    """STO-040."""
    parent = await nodes.create()
    created, deleted = await nodes.collide(CREATED, child(nodes.one, parent), records_of(nodes.two).delete(parent.id))
    assert isinstance(deleted, SessionHasChildren)
    assert isinstance(created, Session)


async def test_a_session_is_reverted_while_it_is_forked(nodes: Nodes) -> None:
    """STO-041: what the fork shows stays."""
    source = await nodes.create()
    await nodes.say(source, "a", "b", "c")
    await nodes.two.sessions.stage_revert(source.id, "msg_a")
    fork, _ = await nodes.collide(
        CREATED, nodes.one.sessions.fork(source.id, before="msg_c"), nodes.two.sessions.commit_revert(source.id)
    )
    assert await shown(nodes, fork.id) == ["msg_a", "msg_b"]
    assert await shown(nodes, source.id) == ["msg_a"]


async def test_a_session_is_forked_while_it_is_reverted(nodes: Nodes) -> None:
    """STO-041: a fork does not begin with messages that are gone."""
    source = await nodes.create()
    await nodes.say(source, "a", "b", "c")
    await nodes.one.sessions.stage_revert(source.id, "msg_a")
    _, fork = await nodes.collide(
        REVERTED, nodes.one.sessions.commit_revert(source.id), nodes.two.sessions.fork(source.id, before="msg_c")
    )
    assert isinstance(fork, MessageNotFound)


async def test_a_session_is_deleted_while_it_is_forked(nodes: Nodes) -> None:
    """STO-041."""
    source = await nodes.create()
    await nodes.say(source, "a", "b")
    fork, _ = await nodes.collide(CREATED, nodes.one.sessions.fork(source.id), nodes.two.sessions.delete(source.id))
    assert await shown(nodes, fork.id) == ["msg_a", "msg_b"]


async def test_a_session_is_forked_while_it_is_deleted(nodes: Nodes) -> None:
    """STO-041."""
    source = await nodes.create()
    await nodes.say(source, "a", "b")
    _, fork = await nodes.collide(DELETED, nodes.one.sessions.delete(source.id), nodes.two.sessions.fork(source.id))
    assert isinstance(fork, SessionNotFound)
    assert nodes.rows("select id from session_message") == []


async def test_the_last_two_that_show_a_message_are_deleted_at_once(nodes: Nodes) -> None:
    """STO-041: the later one takes the message along."""
    source = await nodes.create()
    await nodes.say(source, "a", "b")
    one, two = await nodes.one.sessions.fork(source.id), await nodes.one.sessions.fork(source.id)
    await nodes.one.sessions.delete(source.id)
    assert len(nodes.rows("select id from session_message")) == 2
    results = await nodes.collide(DELETED, nodes.one.sessions.delete(one.id), nodes.two.sessions.delete(two.id))
    assert results == [None, None]
    assert nodes.rows("select id from session_message") == []


async def test_a_checkpoint_is_undone_in_both_sessions_that_show_it(nodes: Nodes) -> None:
    """STO-041."""
    source = await nodes.create()
    await nodes.say(source, "a")
    key = {"session_id": source.id, "message_id": "msg_c"}
    await nodes.one.log.publish(ev.CompactionEnded(timestamp=1, reason="auto", text="c", recent="", **key))
    fork = await nodes.one.sessions.fork(source.id)
    results = await nodes.collide(
        UNDONE, nodes.one.sessions.undo_compaction(source.id), nodes.two.sessions.undo_compaction(fork.id)
    )
    assert results == [None, None]
    assert nodes.rows("select id from session_message") == [("msg_a",)]


async def test_the_epoch_of_a_session_ends_while_it_is_forked(nodes: Nodes, tmp_path: Path) -> None:
    """STO-041: the texts that the fork refers to stay."""
    source = await nodes.create()
    await nodes.one.sessions.prompt(source.id, Prompt(text="hello"))
    await nodes.one.sessions.wait(source.id)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fork, moved = await nodes.collide(
        CREATED, nodes.one.sessions.fork(source.id), nodes.two.sessions.move(source.id, str(elsewhere))
    )
    assert (type(fork), moved) == (Session, None)
    dangling = (
        "select session_id from session_context_epoch epoch where not exists ("
        "  select 1 from context_text where id = epoch.baseline_id) or not exists ("
        "  select 1 from context_text where id = epoch.snapshot_id)"
    )
    assert nodes.rows(dangling) == []
    assert nodes.rows("select session_id from session_context_epoch") == [(fork.id,)]


async def test_two_children_take_the_last_turn_of_their_parents_budget(nodes: Nodes) -> None:
    """STO-042: neither has a share yet."""
    parent = await nodes.create(budget=Budget(turns=1))
    one, two = await nodes.create(parent), await nodes.create(parent)
    results = await nodes.collide(DISPATCHED, dispatch(nodes.one, one), dispatch(nodes.two, two))
    assert [type(result) for result in results] == [Committed, BudgetReached]
    assert nodes.rows("select turns + reserved_turns from budget_total") == [(1,)]


async def test_a_budget_is_set_above_a_session_that_is_being_counted(nodes: Nodes) -> None:
    """STO-042: what the Session used is part of the new budget's total."""
    parent = await nodes.create()
    below = await nodes.create(parent)
    await nodes.one.budgets.set(below.id, Budget(turns=9))
    await use(nodes.one, below, 5)
    results = await nodes.collide(
        "session.next.budget.set", nodes.one.budgets.set(parent.id, Budget(tokens=1000)), use(nodes.two, below, 7)
    )
    assert not [result for result in results if isinstance(result, Exception)]
    assert nodes.rows(f"select tokens from budget_total where budget_id = '{parent.id}'") == [(12,)]


async def test_a_session_is_counted_while_a_budget_is_set_above_it(nodes: Nodes) -> None:
    """STO-042."""
    parent = await nodes.create()
    below = await nodes.create(parent)
    await nodes.one.budgets.set(below.id, Budget(turns=9))
    results = await nodes.collide(
        "session.next.usage", use(nodes.one, below, 7), nodes.two.budgets.set(parent.id, Budget(tokens=1000))
    )
    assert not [result for result in results if isinstance(result, Exception)]
    assert nodes.rows(f"select tokens from budget_total where budget_id = '{parent.id}'") == [(7,)]


async def test_a_child_is_released_while_it_reserves(nodes: Nodes) -> None:
    """STO-042: nothing stays reserved above it."""
    parent = await nodes.create(budget=Budget(turns=9))
    below = await nodes.create(parent)
    results = await nodes.collide(DISPATCHED, dispatch(nodes.one, below), records_of(nodes.two).release(below.id))
    assert not [result for result in results if isinstance(result, Exception)]
    assert nodes.rows("select reserved_turns from budget_total") == [(0,)]


async def test_a_fresh_beat_does_not_wait_for_another_drain(nodes: Nodes) -> None:
    """STO-043: the first commits of two drains of one node do not wait for each other."""
    one, two = await nodes.create(), await nodes.create()
    beat = Statement("owner.beat", {"id": "own_x", "pid": 1, "beat": 1, "number": 7})
    await nodes.one.database.submit(Unit(one.id, local=(beat,)))
    waited = nodes.rows("select beat from owner where id = 'own_x'")
    again = Unit(two.id, local=(beat,))
    switched = ev.AgentSwitched(timestamp=1, session_id=one.id, message_id="msg_s", agent="plan")
    order: list[str] = []

    async def held() -> None:
        await nodes.one.log.publish(switched, before=(beat,))
        order.append("held")

    async def other() -> None:
        await nodes.two.database.submit(again)
        order.append("other")

    await nodes.collide("session.next.agent", held(), other())
    assert order == ["other", "held"]
    assert nodes.rows("select beat from owner where id = 'own_x'") == waited


async def test_a_session_is_created_twice_with_one_id(nodes: Nodes) -> None:
    """STO-049: both callers get the same Session."""
    results = await nodes.collide(CREATED, created(nodes.one, "ses_same"), created(nodes.two, "ses_same"))
    assert [session.id for session in results] == ["ses_same", "ses_same"]
    assert nodes.rows("select seq from event_sequence where aggregate_id = 'ses_same'") == [(0,)]


async def test_a_prompt_is_admitted_twice_with_one_id(nodes: Nodes) -> None:
    """STO-049: both callers get the same receipt."""
    session = await nodes.create()
    one, two = await nodes.collide(
        ADMITTED, admitted(nodes.one, session, "msg_same"), admitted(nodes.two, session, "msg_same")
    )
    assert (one.admitted_seq, one.id) == (two.admitted_seq, two.id)
    assert nodes.rows("select session_id from session_input") == [(session.id,)]


async def test_two_sessions_are_given_a_prompt_with_one_id(nodes: Nodes) -> None:
    """STO-049: the second is refused, and nothing of it is stored."""
    one, two = await nodes.create(), await nodes.create()
    _, refused = await nodes.collide(
        ADMITTED, admitted(nodes.one, one, "msg_same"), admitted(nodes.two, two, "msg_same")
    )
    assert isinstance(refused, PromptConflict)
    assert nodes.rows("select session_id from session_input") == [(one.id,)]
    assert nodes.rows(f"select seq from event_sequence where aggregate_id = '{two.id}'") == [(0,)]


@pytest.mark.parametrize("first", ["prompt", "shell"])
async def test_a_prompt_and_a_shell_message_of_two_sessions_have_one_id(nodes: Nodes, first: str) -> None:
    """STO-049, STO-151: the second is refused, and nothing of it is stored."""
    one, two = await nodes.create(), await nodes.create()
    work: tuple[Coroutine[Any, Any, Any], ...]
    if first == "prompt":
        work = admitted(nodes.one, one, "msg_same"), nodes.two.sessions.shell(two.id, "true", id="msg_same")
    else:
        work = nodes.one.sessions.shell(one.id, "true", id="msg_same"), admitted(nodes.two, two, "msg_same")
    _, refused = await nodes.collide(ADMITTED if first == "prompt" else SHELL, work[0], work[1])
    assert isinstance(refused, PromptConflict)
    used = nodes.rows("select session_id from session_input union all select session_id from session_message")
    assert used == [(one.id,)]
    assert nodes.rows(f"select seq from event_sequence where aggregate_id = '{two.id}'") == [(0,)]


async def test_two_sessions_let_go_of_a_text_that_they_share(nodes: Nodes, tmp_path: Path) -> None:
    """STO-041: the later one takes the text along."""
    source = await nodes.create()
    await nodes.one.sessions.prompt(source.id, Prompt(text="hello"))
    await nodes.one.sessions.wait(source.id)
    fork = await nodes.one.sessions.fork(source.id)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert nodes.rows("select count(*) from context_text") == [(2,)]
    results = await nodes.collide(
        "session.next.moved",
        nodes.one.sessions.move(source.id, str(elsewhere)),
        nodes.two.sessions.move(fork.id, str(elsewhere)),
    )
    assert results == [None, None]
    assert nodes.rows("select id from context_text") == []


async def created(runtime: Runtime, id: str) -> Session:
    return await runtime.sessions.create(
        location=runtime.location, project=await runtime.project(runtime.location), id=id
    )


async def admitted(runtime: Runtime, session: Session, id: str) -> Admission:
    return await runtime.sessions.prompt(session.id, Prompt(text="hello"), id=id, resume=False)


async def dispatch(runtime: Runtime, session: Session) -> Committed:
    """The commit that asks for a turn and reserves it."""
    dispatched = TurnDispatched(
        timestamp=1,
        session_id=session.id,
        agent="build",
        model=ModelRef(id="echo", provider_id="demo"),
        attempt=1,
        baseline_seq=-1,
        checkpoint_seq=-1,
        pruned_seq=-1,
        tools="",
        system="",
        controls="",
        last_step=False,
    )
    return await runtime.log.publish(dispatched, before=admit(session.id), local=reserve(session.id, 0, 0))


async def use(runtime: Runtime, session: Session, tokens: int) -> None:
    used = Tokens(input=tokens, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))
    spent = ev.UsageRecorded(timestamp=1, session_id=session.id, purpose="title", cost=0.0, tokens=used)
    await runtime.log.publish(spent, local=await runtime.budgets.settlement(session.id))


async def shown(nodes: Nodes, session_id: str) -> list[str]:
    return [message.id for message in await nodes.two.sessions.messages(session_id, order="asc", limit=50)]
