"""Tools of plugins, which ask for nothing themselves: the runtime asks before each of their calls.

Invariants
- Without a rule of the user or of a trusted project, a call is asked for: the rule that says so follows the rules of
  built-in agents and of plugins, and comes before everything that is configured.
- The rule never loosens anything: an agent that is denied the tool, or is asked already, gets none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.permission.rules import evaluate
from holdfast.core.tool.codec import plain
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import In, Out, Tool, ToolContext
    from holdfast.schema.agent import Agent

EVERYTHING = ("*",)
INPUT_CHARACTERS = 2_000
"""Of a call's arguments in its permission request."""


def asking(tool: Tool[In, Out], name: str, plugin: str, authorizer: Authorizer) -> Tool[In, Out]:
    """The same tool behind a permission of its own name. Nothing is known of what it touches, hence one resource; the
    request says which plugin it comes from and what it is called with."""

    async def execute(given: In, context: ToolContext) -> Out:
        metadata = {"plugin": plugin, "tool": name, "input": _shown(given)}
        await authorizer.allow(context, name, EVERYTHING, save=EVERYTHING, metadata=metadata)
        return await tool.execute(given, context)

    return tool.replace(execute=execute, action=name)


def ask_by_default(names: Iterable[str]) -> Callable[[AgentDraft], None]:
    """A transform of the agents: those that may simply use one of these tools have to ask."""
    rules = [Rule(action=name, resource="*", effect="ask") for name in names]

    def stricter(agent: Agent) -> Agent:
        added = (rule for rule in rules if evaluate(agent.permissions, rule.action, "*") == "allow")
        return msgspec.structs.replace(agent, permissions=(*agent.permissions, *added))

    def transform(draft: AgentDraft) -> None:
        for agent in draft.list():
            draft.update(agent.id, stricter)

    return transform


def _shown(given: Any) -> str:
    try:
        text = msgspec.json.encode(plain(given)).decode()
    except Exception:  # noqa: BLE001 - a type of the plugin's own: how it prints is up to the plugin
        return ""
    return text if len(text) <= INPUT_CHARACTERS else f"{text[:INPUT_CHARACTERS]}…"
