"""Which agent speaks for a Session, and drafts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.agent.conftest import AgentPlace

from holdfast.core.agent.agents import Agents, AgentSelection
from holdfast.core.agent.draft import AgentDraft
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase
from holdfast.schema.agent import Agent, new_agent


@pytest.mark.parametrize(
    ("config", "chosen"),
    [
        ({}, "build"),
        ({"default_agent": "plan"}, "plan"),
        ({"default_agent": "explore"}, "build"),
        ({"default_agent": "title"}, "build"),
        ({"default_agent": "none"}, "build"),
        ({"default_agent": "mine", "agents": {"mine": {}}}, "mine"),
        ({"agents": {"build": {"disabled": True}}}, "plan"),
        ({"agents": {"build": {"hidden": True}, "plan": {"mode": "subagent"}, "mine": {"mode": "all"}}}, "mine"),
    ],
)
def test_the_default_agent_is_the_configured_one_then_build_then_the_first(
    place: AgentPlace, config: dict[str, Any], chosen: str
) -> None:
    """CAT-056, TOL-080: the configured one if it can be chosen, else `build`, else the first that can."""
    place.write("opencode.json", config)
    agents = place.agents()
    assert agents.select(None) == AgentSelection(chosen, agents.get(chosen))
    assert agents.authority(None) == agents.authority(chosen)


def test_without_any_agent_there_is_a_name_and_no_record(place: AgentPlace) -> None:
    """CAT-056, CAT-057: and no rules, which permission checks read as deny everything."""
    disabled = {agent.id: {"disabled": True} for agent in place.agents().list()}
    place.write("opencode.json", {"agents": disabled})
    agents = place.agents()
    assert (agents.select(None), agents.authority(None)) == (AgentSelection("build", None), None)


def test_a_named_agent_is_taken_as_it_is(place: AgentPlace) -> None:
    """CAT-057: hidden ones and subagents too; an unknown one has no record and no rules."""
    agents = place.agents()
    assert [agents.select(id).agent for id in ("title", "explore")] == [agents.get("title"), agents.get("explore")]
    assert (agents.select("none"), agents.authority("none")) == (AgentSelection("none", None), None)


def test_a_new_agent_is_visible_and_has_no_rules() -> None:
    """CAT-055: for all uses, shown, without rules."""
    draft = AgentDraft()
    draft.update("x", lambda agent: agent)
    assert draft.get("x") == new_agent("x")
    assert (new_agent("x").mode, new_agent("x").hidden, new_agent("x").permissions) == ("all", False, ())


def test_an_update_cannot_change_the_id_of_an_agent() -> None:
    """CAT-140: the id is the draft's."""
    draft = AgentDraft()
    draft.update("x", lambda agent: msgspec.structs.replace(agent, id="y"))
    assert [agent.id for agent in draft.list()] == ["x"]


def test_records_edited_in_place_change_nothing() -> None:
    """CAT-140, CAT-149: not those that were read, nor those of a transform that failed, nor a published value."""
    agents, scope = Agents(Batches()), Scope()

    def edits(draft: AgentDraft) -> None:
        for agent in draft.list():
            agent.request.body["list"] = True

        def fail(agent: Agent) -> Agent:
            agent.request.body["update"] = True
            raise ValueError

        draft.update("x", fail)

    agents.state.transform(lambda draft: draft.update("x", lambda agent: agent), scope, phase=Phase.BUILTIN)
    agents.state.transform(edits, scope, phase=Phase.PLUGIN)
    read = agents.get("x")
    assert read is not None
    read.request.body["read"] = True
    assert agents.get("x") == new_agent("x")
