"""The agents that are always there."""

from __future__ import annotations

import os

from tests.core.agent.conftest import DIRECTORIES, AgentPlace

from holdfast.core.agent import builtin
from holdfast.core.agent.agents import Agents
from holdfast.core.agent.builtin import builtin_agents
from holdfast.core.agent.draft import AgentDraft
from holdfast.core.permission.protected import PROTECTED
from holdfast.core.permission.rules import evaluate
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase
from holdfast.schema.agent import Agent, ProviderRequest

BASE = [
    "allow * *",
    "ask sandbox_escape *",
    "ask external_directory *",
    "allow external_directory /d/tool-output/*",
    "deny question *",
    "allow read *",
    "ask read *.env",
    "ask read *.env.*",
    "allow read *.env.example",
    *(f"ask edit {pattern}" for pattern in PROTECTED),
]


def test_built_in_agents_have_these_modes_and_system_texts(place: AgentPlace) -> None:
    """CAT-055, CAT-058: modes, hidden ones, and who has words of its own."""
    agents = place.agents().list()
    assert [(agent.id, agent.mode, agent.hidden, agent.system) for agent in agents] == [
        ("build", "primary", False, None),
        ("plan", "primary", False, None),
        ("general", "subagent", False, None),
        ("explore", "subagent", False, builtin.EXPLORE_SYSTEM),
        ("compaction", "primary", True, builtin.COMPACTION_SYSTEM),
        ("title", "primary", True, builtin.TITLE_SYSTEM),
        ("summary", "primary", True, builtin.SUMMARY_SYSTEM),
    ]


def test_built_in_agents_have_these_rules_in_this_order(place: AgentPlace) -> None:
    """CAT-059, CAT-060, CAT-061, TOL-083, TOL-084, TOL-376, TOL-379: in this order, since the last match decides."""
    relative = os.path.relpath("/d/plans", place.root)
    assert place.rules("build") == [*BASE, "allow question *"]
    assert place.rules("plan") == [
        *BASE,
        "allow question *",
        "allow external_directory /d/plans/*",
        "ask bash *",
        "deny edit *",
        "deny sandbox_escape *",
        "allow edit .opencode/plans/*.md",
        "allow edit /d/plans/*.md",
        f"allow edit {relative}/*.md",
    ]
    assert place.rules("general") == [*BASE, "deny todowrite *", "deny subagent *"]
    assert place.rules("explore") == [
        "deny * *",
        "allow grep *",
        "allow glob *",
        "allow webfetch *",
        "allow websearch *",
        "allow read *",
        "ask external_directory *",
        "allow external_directory /d/tool-output/*",
        "deny subagent *",
    ]
    for id in ("compaction", "title", "summary"):
        assert place.rules(id) == ["deny * *"]
    every = [rule for agent in place.agents().list() for rule in agent.permissions]
    assert [rule.effect for rule in every if rule.action == "bash"] == ["ask"]


def test_the_plan_agent_can_write_plans_and_nothing_else(place: AgentPlace) -> None:
    """CAT-059, CAT-060: a plan can be written and nothing else; secrets are asked about, examples are not."""
    plan = place.agents().authority("plan")
    assert plan is not None
    verdicts = {
        ("edit", "src/a.py"): "deny",
        ("edit", ".opencode/plans/x.md"): "allow",
        ("edit", "/d/plans/x.md"): "allow",
        ("read", "a/.env"): "ask",
        ("read", "a/.env.local"): "ask",
        ("read", ".env.example"): "allow",
        ("external_directory", "/etc/*"): "ask",
        ("external_directory", "/t/x/*"): "ask",
        ("sandbox_escape", "make"): "deny",
        ("bash", "ls"): "ask",
        ("doom_loop", "read"): "allow",
    }
    assert {key: evaluate(plan.rules, *key) for key in verdicts} == verdicts


def test_words_that_were_set_before_stay(place: AgentPlace) -> None:
    """CAT-058: built-in text is only a default."""
    agents, scope = Agents(Batches()), Scope()

    def earlier(draft: AgentDraft) -> None:
        draft.update(
            "explore",
            lambda _: Agent(
                id="explore",
                request=ProviderRequest(headers={}, body={}),
                mode="all",
                hidden=False,
                permissions=(),
                system="mine",
            ),
        )

    agents.state.transform(earlier, scope, phase=Phase.BUILTIN)
    agents.state.transform(builtin_agents(DIRECTORIES, place.root), scope, phase=Phase.BUILTIN)
    explore = agents.get("explore")
    assert explore is not None
    assert (explore.system, explore.mode) == ("mine", "subagent")
