"""How budgets are counted: what a commit does for them, and what the rows beside the projections hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core.conftest import HeldTool, ToolRuntime, new_session, script, tables

from holdfast.core.database.job import Job
from holdfast.core.database.postgres.writer import Writer as PostgresWriter
from holdfast.core.database.unit import Statement
from holdfast.core.database.writer import Writer
from holdfast.core.runner.spending import OUTPUT_TOKENS, Expected
from holdfast.core.session.budgets import described
from holdfast.core.session.records import NewSession
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.budget import Budget, BudgetInfo, Spent
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session, Tokens

pytestmark = pytest.mark.anyio


def price(tokens: Tokens) -> float:
    return tokens.input * 1e-6 + tokens.output * 2e-6


async def below(runtime: ToolRuntime, parent: Session) -> Session:
    """A child, made without a call."""
    new = NewSession(
        id=runtime._ids.session(),
        project_id=parent.project_id,
        location=parent.location,
        subpath=None,
        parent_id=parent.id,
        model=parent.model,
    )
    return await runtime.sessions._records.create(new)


async def answered(runtime: ToolRuntime, session: Session) -> None:
    await runtime.sessions.prompt(session.id, Prompt(text="go"))
    await runtime.sessions.wait(session.id)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all statements that are committed from now on."""
    found: list[str] = []
    commit, put = Writer._commit, PostgresWriter.put

    def note(job: Job) -> None:
        parts: list[Statement] = [*job.unit.before, *job.unit.local]
        parts += [statement for event in job.unit.events for statement in event.projections]
        found.extend(statement.name for statement in parts)

    def noted(writer: Writer, batch: Sequence[Job]) -> None:
        for job in batch:
            note(job)
        commit(writer, batch)

    def noted_by_postgres(writer: PostgresWriter, job: Job) -> None:
        note(job)
        put(writer, job)

    monkeypatch.setattr(Writer, "_commit", noted)
    monkeypatch.setattr(PostgresWriter, "put", noted_by_postgres)
    return found


def of_budgets(statements: list[str]) -> list[str]:
    return [name for name in statements if name.startswith(("budget.", "pause."))]


async def test_without_a_budget_above_it_no_commit_has_a_statement_for_one(
    tooled: ToolRuntime, model: ScriptedTransport, held: HeldTool, statements: list[str]
) -> None:
    """SES-381: also while other Sessions have budgets."""
    held.go.set()
    script(model, *[Turn(calls=(Call(tool="held", input={}),)), Turn(text="done")] * 3)
    free, limited = await new_session(tooled), await new_session(tooled, budget=Budget(turns=9))
    statements.clear()
    await answered(tooled, free)
    assert of_budgets(statements) == []
    await answered(tooled, limited)
    assert "budget.refuses" in statements


async def test_a_dispatch_costs_the_same_whatever_the_number_of_children(
    tooled: ToolRuntime, model: ScriptedTransport, statements: list[str]
) -> None:
    """SES-381: the same statements, each on the rows of one Session and its budgets."""
    script(model, *[Turn(text="done")] * 3)
    root = await new_session(tooled, budget=Budget(turns=9))
    first = await below(tooled, root)
    statements.clear()
    await answered(tooled, first)
    alone = of_budgets(statements)
    for _ in range(20):
        await below(tooled, root)
    last = await below(tooled, root)
    statements.clear()
    await answered(tooled, last)
    assert of_budgets(statements) == alone


async def test_a_total_is_the_sum_of_the_shares_and_a_rebuild_of_any_session_leaves_it(
    tooled: ToolRuntime, model: ScriptedTransport
) -> None:
    """EVT-087: budgets at two levels, set before and after the work."""
    script(model, *[Turn(text="done")] * 6)
    root = await new_session(tooled, budget=Budget(turns=90))
    child = await below(tooled, root)
    grandchild = await below(tooled, child)
    for session in (root, child, grandchild, grandchild):
        await answered(tooled, session)
    await tooled.budgets.set(child.id, Budget(tokens=10**9))
    await answered(tooled, grandchild)
    with tables(tooled) as run:
        before = run("select * from budget_total order by 1"), run("select * from budget_share order by 1, 2")
    used = {info.session_id: info.used.turns for info in await tooled.store.budgets(grandchild.id)}
    assert used == {child.id: 4, root.id: 5}
    for session in (root, child, grandchild):
        await tooled.log.rebuild(session.id)
    await tooled.budgets.set(root.id, Budget(turns=91))
    with tables(tooled) as run:
        after = run("select * from budget_total order by 1"), run("select * from budget_share order by 1, 2")
        assert run("select sum(turns), sum(tokens) from budget_share where budget_id = ?", root.id) == run(
            "select turns, tokens from budget_total where budget_id = ?", root.id
        )
    assert after == before
    assert await tooled.verify() == []


async def test_a_deleted_budget_lets_go_on_what_waited_for_it(tooled: ToolRuntime, model: ScriptedTransport) -> None:
    """SES-379: the child of a deleted Session is limited by it no longer."""
    script(model, Turn(text="done"))
    root = await new_session(tooled, budget=Budget(turns=0))
    child = await below(tooled, root)
    await answered(tooled, child)
    assert await tooled.store.pause(child.id) is not None
    await tooled.sessions.delete(root.id, keep_children=True)
    await tooled.sessions.wait(child.id)
    assert len(model.requests) == 1
    with tables(tooled) as run:
        for table in ("budget_total", "budget_share", "session_pause"):
            assert run(f"select count(*) from {table}") == [(0,)]


def test_what_is_reserved_is_the_input_and_a_part_of_the_longest_answer() -> None:
    """SES-373: at most 4096 tokens of it; with an unknown limit an eighth of that."""
    assert Expected.estimated(1000, 8000, price) == Expected(money=3_000_000, tokens=2000)
    assert Expected.estimated(1000, 64_000, price).tokens == 1000 + OUTPUT_TOKENS
    assert Expected.estimated(1000, 0, price).tokens == 1000 + 512


def test_a_budget_is_described_with_its_units() -> None:
    """SES-375: the limits that are reached, or all."""
    limit, used = Budget(money=2, turns=10, time=60), Spent(money=2.000001, tokens=5, turns=3, time=1.5)
    reserved = Spent(money=0.25, tokens=1000, turns=1, time=0)
    info = BudgetInfo(session_id="ses_a", limit=limit, used=used, reserved=reserved, reached=("money",))
    assert described(info) == "$2.000001 of $2.00 used, $0.25 reserved"
    open_info = BudgetInfo(
        session_id="ses_a", limit=limit, used=used, reserved=Spent(money=0, tokens=0, turns=0, time=0)
    )
    assert described(open_info) == "$2.000001 of $2.00 used; 3 turns of 10 turns used; 1.5 s of 60 s used"
