"""Permission checks for tools that do none themselves: those of plugins and of the host program.

Invariants
- Rules apply to such a tool by its name, with `*` as the only resource, since it is unknown what the tool accesses.
- A tool of the host program is allowed where no rule matches. A tool of a plugin needs approval unless a rule of the
  user or of a trusted project allows it: its default `ask` rule follows the rules of built-in agents and plugins, and
  precedes all configured rules. Agents whose rules already deny or ask do not get it, so it never loosens anything.
- The floor of a tool is checked after its input was validated and before it runs, each time. It lowers no verdict."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.permission.rules import Terms, evaluate
from holdfast.core.tool.codec import json_value
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import Tool, ToolContext
    from holdfast.schema.agent import Agent

EVERYTHING = ("*",)


class CallPermission(Frozen):
    """The permission check of a tool's calls."""

    plugin: str | None = None
    """The plugin that registered the tool; None is the host program."""

    async def check(
        self, name: str, tool: Tool[Any, Any], given: Any, arguments: Any, context: ToolContext, authorizer: Authorizer
    ) -> None:
        """Wait until the call is allowed. Raises Denied or DeniedByPerson. The request shows the whole validated input,
        or the arguments as the model wrote them if it has no form in JSON."""
        floor = tool.approval(given) if callable(tool.approval) else tool.approval
        if inspect.isawaitable(floor):
            floor = await floor
        metadata = {"tool": name, "input": shown_input(given) or shown_input(arguments)}
        await authorizer.allow(
            context,
            name,
            EVERYTHING,
            save=() if floor else EVERYTHING,
            metadata=metadata if self.plugin is None else {"plugin": self.plugin, **metadata},
            terms=Terms(unmatched="allow" if self.plugin is None else "ask", floor=bool(floor)),
        )


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
    """The arguments of a call as JSON text, for a permission request."""
    try:
        return msgspec.json.encode(json_value(given)).decode()
    except Exception:  # noqa: BLE001 - the tool's own types may raise anything
        return ""
