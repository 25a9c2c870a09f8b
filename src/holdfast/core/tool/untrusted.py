"""Permission checks for plugin tools, which do none themselves.

Invariants
- A call needs approval unless a rule of the user or of a trusted project allows it: the default `ask` rule follows the
  rules of built-in agents and plugins, and precedes all configured rules.
- The default rule never loosens anything: agents whose rules already deny or ask do not get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.permission.rules import evaluate
from holdfast.core.tool.codec import json_value
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import In, Out, Tool, ToolContext
    from holdfast.schema.agent import Agent

EVERYTHING = ("*",)
INPUT_CHARACTERS = 2_000
"""How much of a call's arguments the permission request shows."""


def with_permission(tool: Tool[In, Out], name: str, plugin: str, authorizer: Authorizer) -> Tool[In, Out]:
    """The same tool, checked under a permission action of its own name. The only resource is `*`, since it is unknown
    what the tool accesses; the request shows the plugin and the arguments."""

    async def execute(given: In, context: ToolContext) -> Out:
        metadata = {"plugin": plugin, "tool": name, "input": shown_input(given)}
        await authorizer.allow(context, name, EVERYTHING, save=EVERYTHING, metadata=metadata)
        return await tool.execute(given, context)

    return tool.replace(execute=execute, action=name)


def ask_by_default(names: Iterable[str]) -> Callable[[AgentDraft], None]:
    """An agent transform that adds an `ask` rule for each of these tools that an agent's rules allow."""
    rules = [Rule(action=name, resource="*", effect="ask") for name in names]

    def stricter(agent: Agent) -> Agent:
        added = (rule for rule in rules if evaluate(agent.permissions, rule.action, "*") == "allow")
        return msgspec.structs.replace(agent, permissions=(*agent.permissions, *added))

    def transform(draft: AgentDraft) -> None:
        for agent in draft.list():
            draft.update(agent.id, stricter)

    return transform


def shown_input(given: Any) -> str:
    """The arguments of a call, as a permission request shows them."""
    try:
        text = msgspec.json.encode(json_value(given)).decode()
    except Exception:  # noqa: BLE001 - the plugin's own types may raise anything
        return ""
    return text if len(text) <= INPUT_CHARACTERS else f"{text[:INPUT_CHARACTERS]}…"
