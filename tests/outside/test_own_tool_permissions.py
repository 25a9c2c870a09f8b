"""Permission rules for tools that a program registers, as its author meets them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PermissionDecision, PermissionReply, PermissionRequest
from holdfast.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio
REFUND = ToolCall("refund", order=7, amount=150)
SMALL = ToolCall("refund", order=8, amount=5)


class Shop:
    """A host with one tool, and what it and its person did."""

    def __init__(self, decision: PermissionDecision = "reject", **floor: Any) -> None:
        self.decision = decision
        self.floor = floor
        self.refunded: list[int] = []
        self.asked: list[PermissionRequest] = []

    def open(self, host: Holdfast) -> None:
        async def refund(order: int, amount: float) -> str:
            """Give money back."""
            self.refunded.append(order)
            return "refunded"

        host.tool(**self.floor)(refund)
        host.on_permission(self.decide)

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        self.asked.append(request)
        return self.decision

    async def serve(self, home: Path, *calls: ToolCall, **settings: Any) -> str:
        model = ScriptedModel(*calls, "done")
        async with model.host(home, **settings) as host:
            self.open(host)
            try:
                return (await host.run("Refund it.")).text
            except Exception as error:  # noqa: BLE001 - a person who rejects without a word ends the turn
                return type(error).__name__


@pytest.mark.parametrize(
    ("permission", "asked", "executed"),
    [
        ({}, False, True),
        ({"refund": "ask"}, True, False),
        ({"*": "ask"}, True, False),
        ({"ref*": "ask"}, True, False),
        ({"refund": {"*": "ask"}}, True, False),
        ({"refund": "allow"}, False, True),
        ({"refund": "deny"}, False, False),
        ({"*": "deny", "refund": "allow"}, False, True),
    ],
)
async def test_rules_apply_to_a_registered_tool_by_its_name(
    tmp_path: Path, permission: dict[str, Any], asked: bool, executed: bool
) -> None:
    """TOL-521: without a rule it is allowed."""
    shop = Shop(PermissionReply("reject", "Not today."))
    await shop.serve(tmp_path, REFUND, config={"permission": permission})
    assert (bool(shop.asked), bool(shop.refunded)) == (asked, executed)


@pytest.mark.parametrize("permissions", [[], [{"action": "bash", "resource": "*", "effect": "deny"}]])
async def test_an_agent_without_a_rule_for_it_may_call_it(tmp_path: Path, permissions: list[Any]) -> None:
    """TOL-521: also an agent of the configuration, whose other actions would ask."""
    shop = Shop()
    agents = {"support": {"system": "You help.", "permissions": permissions}}
    await shop.serve(tmp_path, REFUND, config={"agents": agents, "default_agent": "support"})
    assert (shop.asked, shop.refunded) == ([], [7])


async def test_the_request_shows_the_name_and_the_whole_input(tmp_path: Path) -> None:
    """TOL-411, TOL-521."""
    note = "x" * 9_000 + "the end"
    shop, asked = Shop(), []

    def decide(request: PermissionRequest) -> PermissionDecision:
        asked.append(request)
        return "once"

    model = ScriptedModel(ToolCall("memo", text=note), "done")
    async with model.host(tmp_path, config={"permission": {"memo": "ask"}}) as host:

        @host.tool
        async def memo(text: str) -> str:
            """Keep a note."""
            shop.refunded.append(len(text))
            return "kept"

        host.on_permission(decide)
        await host.run("Note it.")
    (request,) = asked
    assert (request.action, request.resources, request.save) == ("memo", ("*",), ("*",))
    assert request.metadata == {"tool": "memo", "input": f'{{"text":"{note}"}}'}
    assert shop.refunded == [len(note)]


async def test_a_tool_raises_its_own_floor(tmp_path: Path) -> None:
    """TOL-522: whatever the rules allow, and each time: nothing is offered to be saved."""
    shop = Shop("always", approval=True)
    await shop.serve(tmp_path, REFUND, SMALL, config={"permission": {"*": "allow", "refund": "allow"}})
    assert [request.save for request in shop.asked] == [None, None]
    assert shop.refunded == [7, 8]


async def test_a_floor_may_depend_on_the_validated_input(tmp_path: Path) -> None:
    """TOL-522."""
    shop = Shop("once", approval=lambda amount: amount > 100)
    await shop.serve(tmp_path, SMALL, REFUND)
    assert len(shop.asked) == 1
    assert shop.refunded == [8, 7]


async def test_a_saved_approval_does_not_lower_a_floor(tmp_path: Path) -> None:
    """TOL-522: `always` for small ones is no approval of large ones."""
    ask = {"permission": {"refund": "ask"}}
    shop = Shop("always", approval=lambda amount: amount > 100)
    await shop.serve(tmp_path, SMALL, SMALL, REFUND, config=ask)
    assert [request.save for request in shop.asked] == [("*",), None]
    assert shop.refunded == [8, 8, 7]


async def test_a_floor_does_not_lift_a_denial(tmp_path: Path) -> None:
    """TOL-522."""
    shop = Shop("once", approval=lambda amount: False)
    await shop.serve(tmp_path, SMALL, config={"permission": {"refund": "deny"}})
    assert (shop.asked, shop.refunded) == ([], [])


async def test_a_floor_that_fails_executes_nothing(tmp_path: Path) -> None:
    """TOL-522."""

    def broken(order: int) -> bool:
        raise ValueError(order)

    shop = Shop("once", approval=broken)
    await shop.serve(tmp_path, SMALL)
    assert (shop.asked, shop.refunded) == ([], [])


async def test_a_floor_with_unknown_parameters_is_refused_at_registration(tmp_path: Path) -> None:
    """TOL-522."""
    async with ScriptedModel().host(tmp_path) as host:
        with pytest.raises(TypeError, match="refund: approval: the tool has no parameter total"):
            Shop(approval=lambda total: total > 1).open(host)


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_an_answer_after_a_restart_carries_the_call_out_once(tmp_path: Path, reply: Any) -> None:
    """TOL-522, TOL-101: the request of a tool's own floor is stored as any other."""
    model, first, second = ScriptedModel(REFUND, "done", "done"), Shop(approval=True), Shop(approval=True)
    async with model.host(tmp_path) as host:
        first.decision = None
        first.open(host)
        session = await host.sessions.create()
        await host.sessions.prompt(session.id, prompt="Refund it.")
        before = await the_request(host, session.id)
    async with model.host(tmp_path) as host:
        second.decision = None
        second.open(host)
        after = await the_request(host, session.id)
        assert (after.id, after.metadata) == (before.id, before.metadata)
        assert (after.metadata or {})["approval"] is True
        await host.permissions.reply(session.id, request_id=after.id, reply=reply)
        await host.sessions.wait(session.id)
        assert await host.permissions.list(session.id) == []
    assert (first.refunded, second.refunded) == ([], [7] if reply == "once" else [])


async def the_request(host: Holdfast, session_id: str) -> PermissionRequest:
    for _ in range(2_000):
        if found := await host.permissions.list(session_id):
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was asked")
