"""Calls of tools of MCP servers need approval unless a configured rule allows them.

Invariants
- The default rule of a server follows the rules of built-in agents and plugins, and precedes all configured rules.
- It never loosens anything: agents whose rules already deny or ask do not get it, and a denial of one of its tools
  stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.mcp.tool_names import server_prefix
from holdfast.core.permission.rules import evaluate
from holdfast.core.permission.wildcard import matches
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.schema.agent import Agent


def ask_for_servers(names: Callable[[], Iterable[str]]) -> Callable[[AgentDraft], None]:
    """An agent transform that adds an `ask` rule for all tools of each of these servers."""

    def transform(draft: AgentDraft) -> None:
        rules = [Rule(action=f"{server_prefix(name)}*", resource="*", effect="ask") for name in sorted(names())]
        for agent in draft.list() if rules else ():
            draft.update(agent.id, lambda known: _stricter(known, rules))

    return transform


def _stricter(agent: Agent, rules: Iterable[Rule]) -> Agent:
    added: list[Rule] = []
    for rule in rules:
        if evaluate(agent.permissions, rule.action, "*") == "allow":
            narrower = (known for known in agent.permissions if matches(rule.action, known.action))
            added += [rule, *(known for known in narrower if known.effect == "deny")]
    return msgspec.structs.replace(agent, permissions=(*agent.permissions, *added))
