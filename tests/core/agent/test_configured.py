"""Agents of documents and of files."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.core.agent.conftest import AgentPlace, spelled

from holdfast.core.agent.agents import Agents
from holdfast.core.agent.configured import configured_agents
from holdfast.core.config import markdown
from holdfast.core.config.rules import InvalidEnvironmentRules
from holdfast.core.config.trust import TRUST_EVERYTHING, TRUST_NOTHING, Trust
from holdfast.core.permission.rules import evaluate
from holdfast.schema.agent import Agent, ProviderRequest
from holdfast.schema.codec import encode
from holdfast.schema.model import ModelRef
from holdfast.schema.permission import Rule


def rule(text: str) -> dict[str, str]:
    return dict(zip(("effect", "action", "resource"), text.split(" ", 2), strict=True))


def one(place: AgentPlace, id: str = "a") -> Agent:
    agent = place.agents().get(id)
    assert agent is not None
    return agent


def test_global_rules_come_before_every_agents_own(place: AgentPlace) -> None:
    """CAT-062, TOL-085: for existing and for new agents, whichever document they stand in."""
    place.user_config(
        {
            "permissions": [rule("ask bash *")],
            "agents": {"build": {"permissions": [rule("allow bash git *")]}, "mine": {}},
        }
    )
    place.write(
        "opencode.json",
        {"permissions": [rule("deny bash rm *")], "agents": {"mine": {"permissions": [rule("allow edit *")]}}},
    )
    assert place.rules("build")[-3:] == ["ask bash *", "deny bash rm *", "allow bash git *"]
    assert place.rules("title") == ["deny * *", "ask bash *", "deny bash rm *"]
    assert place.rules("mine") == ["ask bash *", "deny bash rm *", "allow edit *"]


def test_global_rules_do_not_lift_what_plan_denies(place: AgentPlace) -> None:
    """CAT-220: a rule for the agent does; a global rule that is stricter counts."""
    place.user_config({"permissions": [rule("allow * *"), rule("ask edit *"), rule("deny edit .opencode/plans/no.md")]})
    plan = place.agents().authority("plan")
    assert plan is not None
    verdicts = {
        ("edit", "src/a.py"): "deny",
        ("sandbox_escape", "make"): "deny",
        ("edit", ".opencode/plans/x.md"): "ask",
        ("edit", ".opencode/plans/no.md"): "deny",
        ("bash", "make"): "allow",
    }
    assert {key: evaluate(plan.rules, *key, plan.fences) for key in verdicts} == verdicts
    place.user_config({"permissions": [rule("allow * *")], "agents": {"plan": {"permissions": [rule("allow edit *")]}}})
    plan = place.agents().authority("plan")
    assert plan is not None
    assert evaluate(plan.rules, "edit", "src/a.py", plan.fences) == "allow"


def test_a_later_document_changes_only_the_fields_it_names(place: AgentPlace) -> None:
    """CAT-055, CAT-063: what a later document does not say stays; headers and body merge by key."""
    place.user_config(
        {
            "agents": {
                "a": {
                    "model": "p/one/two",
                    "variant": "high",
                    "request": {"headers": {"a": "1", "b": "1"}, "body": {"x": {"y": 1}, "z": 1}},
                    "system": "s",
                    "description": "d",
                    "mode": "subagent",
                    "color": "#aabbcc",
                    "steps": 3,
                }
            }
        }
    )
    place.write(
        "opencode.json",
        {
            "agents": {
                "a": {
                    "model": "q/m",
                    "request": {"headers": {"b": "2"}, "body": {"x": {"w": 2}}},
                    "hidden": True,
                    "color": "accent",
                    "permissions": [rule("deny bash *")],
                },
                "b": {"variant": "alone"},
            }
        },
    )
    assert one(place) == Agent(
        id="a",
        model=ModelRef(id="m", provider_id="q", variant="high"),
        request=ProviderRequest(headers={"a": "1", "b": "2"}, body={"x": {"w": 2}, "z": 1}),
        system="s",
        description="d",
        mode="subagent",
        hidden=True,
        color="accent",
        steps=3,
        permissions=(Rule(action="bash", resource="*", effect="deny"),),
    )
    assert one(place, "b").model is None


@pytest.mark.parametrize("field", [{"color": "#12345"}, {"color": "mauve"}, {"steps": 0}, {"mode": "both"}])
def test_an_agent_with_invalid_fields_is_not_made(place: AgentPlace, field: dict[str, Any]) -> None:
    """CAT-027, CAT-055: such an agent is not made."""
    place.write("opencode.json", {"agents": {"a": field}})
    assert place.agents().get("a") is None


def test_a_disabled_agent_comes_back_from_scratch(place: AgentPlace) -> None:
    """CAT-063."""
    place.user_config(
        {"permissions": [rule("ask bash *")], "agents": {"build": {"disabled": True}, "plan": {"disabled": True}}}
    )
    place.write("opencode.json", {"agents": {"build": {"system": "new"}}})
    build = one(place, "build")
    assert (build.system, build.mode, place.rules("build")) == ("new", "all", ["ask bash *"])
    assert place.agents().get("plan") is None


def test_a_markdown_file_is_an_agent_named_by_its_path(place: AgentPlace) -> None:
    """CAT-064: named by their path; the body is the system text; old ones are migrated; modes are primary."""
    place.write(
        ".opencode/agent/review.md", "---\ndescription: Reads: closely\nmode: subagent\nsteps: 4\n---\n\n Look.\n\n"
    )
    place.write(
        ".opencode/agents/team/helper.md", "---\ntemperature: 0.2\ntools:\n  write: false\nmodel: p/m\n---\nHelp."
    )
    place.write(".opencode/mode/fast.md", "---\nmode: subagent\n---\nGo.")
    place.write(".opencode/modes/deep/no.md", "not read")
    place.write(".opencode/agent/notes.txt", "not read")
    agents = place.agents()
    review, helper, fast = (agents.get(id) for id in ("review", "team/helper", "fast"))
    assert review is not None
    assert helper is not None
    assert fast is not None
    assert (review.description, review.system, review.mode, review.steps) == ("Reads: closely", "Look.", "subagent", 4)
    assert (helper.system, helper.request.body, helper.model) == (
        "Help.",
        {"temperature": 0.2},
        ModelRef(id="m", provider_id="p"),
    )
    assert spelled(agents, "team/helper") == ["deny edit *"]
    assert (fast.system, fast.mode) == ("Go.", "primary")
    assert [agent.id for agent in agents.list() if "no" in agent.id] == []


def test_files_count_after_the_documents_of_their_folder(place: AgentPlace) -> None:
    """CAT-064: and before everything that comes after that folder; `mode` after `agent`, each sorted by path."""
    place.user_config({"agents": {"a": {"system": "user document"}}})
    place.write("~/.config/opencode/agent/a.md", "user file")
    assert one(place).system == "user file"
    place.write("opencode.json", {"agents": {"a": {"system": "project document"}}})
    assert one(place).system == "project document"
    place.write(".opencode/agents/a.md", "project agents")
    place.write(".opencode/agent/a.md", "project agent")
    assert one(place).system == "project agents"
    place.write(".opencode/mode/a.md", "project mode")
    assert one(place).system == "project mode"


def test_a_file_without_a_body_only_adjusts(place: AgentPlace) -> None:
    """CAT-064: it does not silence an agent that has words."""
    place.write(".opencode/agent/explore.md", "---\nmodel: p/m\n---\n")
    explore = one(place, "explore")
    assert (explore.model, bool(explore.system)) == (ModelRef(id="m", provider_id="p"), True)


def test_names_of_both_generations_in_one_file(place: AgentPlace) -> None:
    """CAT-038, CAT-040, CAT-064: an older name beside it turns no denial into a body field."""
    rules = "permissions:\n  - {action: bash, resource: '*', effect: deny}\n"
    place.write(".opencode/agent/a.md", f"---\ntemperature: 0.2\n{rules}---\nWords.")
    agent = one(place)
    assert agent.permissions[-1] == Rule(action="bash", resource="*", effect="deny")
    assert (agent.request.body, agent.system) == ({"temperature": 0.2}, "Words.")


def test_links_in_a_folder_cannot_stop_the_start(place: AgentPlace) -> None:
    """CAT-026, CAT-064: one that leads to itself is no file, one that leads back up is entered once."""
    good = place.write(".opencode/agent/good.md", "Words.")
    (good.parent / "self.md").symlink_to("self.md")
    (good.parent / "up").symlink_to("..")
    (good.parent / ".md").write_text("no name")
    found = configured_agents(place.load(), place.environment())
    assert [patch.id for patch in found.patches] == ["good"]


def test_a_name_that_is_no_text_is_skipped_and_reported(place: AgentPlace) -> None:
    """CAT-027: it could be neither listed nor stored."""
    good = place.write(".opencode/agent/good.md", "Words.")
    with open(os.fsencode(good.parent) + b"/\xff.md", "w") as file:
        file.write("Words.")
    found = configured_agents(place.load(), place.environment())
    assert [patch.id for patch in found.patches] == ["good"]
    (problem,) = found.diagnostics
    assert "UTF-8" in problem.message
    assert encode(problem)


@pytest.mark.parametrize("folders", [False, True], ids=["files", "folders"])
def test_a_folder_as_large_as_a_disk_is_bounded(
    place: AgentPlace, monkeypatch: pytest.MonkeyPatch, folders: bool
) -> None:
    """CAT-027, CAT-064: a link may lead anywhere; what is left out is told."""
    monkeypatch.setattr(markdown, "MOST_FILES", 3)
    for number in range(5):
        place.write(f".opencode/agent/{number}/a.md" if folders else f".opencode/agent/{number}.md", "Words.")
    found = configured_agents(place.load(), place.environment())
    assert len(found.patches) == 3
    assert ["more than 3" in problem.message for problem in found.diagnostics] == [True]


def test_a_bad_file_is_skipped_and_reported(place: AgentPlace) -> None:
    """CAT-065: the others are read."""
    place.write(".opencode/agent/bad.md", "---\na: [\n---\nx")
    place.write(".opencode/agent/wrong.md", "---\nsteps: many\n---\nx")
    place.write(".opencode/agent/good.md", "x")
    (place.root / ".opencode/agent/bytes.md").write_bytes(b"\xff")
    (place.root / ".opencode/agent/loop").symlink_to(place.root / ".opencode/agent")
    agents = place.agents()
    assert {agent.id for agent in agents.list()} & {"bad", "wrong", "bytes", "good", "loop/good"} == {"good"}
    assert len(agents.diagnostics()) == 3


@pytest.mark.parametrize(
    ("action", "resource", "expanded"),
    [
        ("read", "~", "{home}"),
        ("read", "~/x/**", "{home}/x/**"),
        ("edit", "$HOME", "{home}"),
        ("external_directory", "$HOME/x", "{home}/x"),
        ("bash", "cat ~/x", "cat ~/x"),
        ("bash", "$HOME/x", "$HOME/x"),
        ("read", "/some/~/path", "/some/~/path"),
        ("read", "$HOMELESS/**", "$HOMELESS/**"),
    ],
)
def test_home_is_spelled_out_in_path_rules_only(place: AgentPlace, action: str, resource: str, expanded: str) -> None:
    """CAT-066, TOL-073: global rules, an agent's own, and those of the environment."""
    written = {"action": action, "resource": resource, "effect": "ask"}
    place.write("opencode.json", {"permissions": [written], "agents": {"a": {"permissions": [written]}}})
    text = f'[{{"action": "{action}", "resource": "{resource}", "effect": "ask"}}]'
    wanted = f"ask {action} {expanded.format(home=place.user)}"
    assert place.rules("a", OPENCODE_PERMISSION=text) == [wanted] * 3


def test_rules_of_the_environment_come_last(place: AgentPlace) -> None:
    """CAT-069: in either form, for every agent."""
    place.write("opencode.json", {"agents": {"a": {"permissions": [rule("allow bash *")]}}})
    for text in ('{"bash": "deny"}', '[{"action": "bash", "resource": "*", "effect": "deny"}]'):
        agents = place.agents(OPENCODE_PERMISSION=text)
        assert {agent.permissions[-1].effect for agent in agents.list()} == {"deny"}
    assert place.rules("a", OPENCODE_PERMISSION='"ask"')[-1] == "ask * *"


@pytest.mark.parametrize("text", ["{", "7", '{"bash": "maybe"}', '[{"action": "bash"}]'])
def test_unreadable_rules_of_the_environment_stop_the_start(place: AgentPlace, text: str) -> None:
    """CAT-069."""
    with pytest.raises(InvalidEnvironmentRules, match="OPENCODE_PERMISSION"):
        place.agents(OPENCODE_PERMISSION=text)


def test_the_last_rule_decides_over_documents_of_projects(place: AgentPlace) -> None:
    """CAT-067, TOL-085: a deny before a broad allow is void, across files too."""
    place.write("opencode.json", {"permission": {"bash": {"rm *": "deny"}}})
    place.write(
        ".opencode/opencode.json",
        {"permission": {"bash": "allow"}, "agent": {"a": {"permission": {"bash": "ask"}}}},
    )
    agents = place.agents()
    assert (verdict(agents, "build", "bash", "rm -rf x"), verdict(agents, "a", "bash", "rm -rf x")) == ("allow", "ask")


@pytest.mark.parametrize("trust", [TRUST_EVERYTHING, TRUST_NOTHING])
def test_a_project_cannot_lift_the_rules_of_the_user(place: AgentPlace, trust: Trust) -> None:
    """CAT-181, TOL-400: neither a trusted project nor its agents; the user's own agents may."""
    place.user_config(
        {
            "permission": {"bash": {"*": "ask", "rm *": "deny", "git *": "allow"}},
            "agent": {"free": {"permission": {"bash": "allow"}}},
        }
    )
    place.write(
        "opencode.json",
        {"permission": "allow", "agent": {"own": {"permission": {"*": "allow"}}, "build": {"permission": "allow"}}},
    )
    agents = place.agents(trust=trust)
    for agent in ("build", "own"):
        found = [verdict(agents, agent, "bash", command) for command in ("ls", "rm x", "git log")]
        assert found == ["ask", "deny", "allow"], agent
    assert verdict(agents, "free", "bash", "rm x") == "allow"


def test_an_untrusted_project_only_narrows(place: AgentPlace) -> None:
    """CAT-181, TOL-400: its denials hold, what it allows counts as far as `build` may do it."""
    place.write(
        "opencode.json",
        {
            "permission": {"external_directory": "allow", "webfetch": "deny", "edit": {"*": "ask", "docs/*": "allow"}},
            "agent": {"reviewer": {"permission": {"*": "deny", "read": "allow", "external_directory": "allow"}}},
        },
    )
    agents = place.agents(trust=TRUST_NOTHING)
    wishes = [
        ("build", "external_directory", "/etc/*", "ask"),
        ("build", "webfetch", "http://x/", "deny"),
        ("build", "edit", "a.py", "ask"),
        ("build", "edit", "docs/a.md", "allow"),
        ("build", "bash", "ls", "allow"),
        ("reviewer", "read", "a.py", "allow"),
        ("reviewer", "read", ".env", "ask"),
        ("reviewer", "bash", "ls", "deny"),
        ("reviewer", "external_directory", "/etc/*", "ask"),
    ]
    assert [(*wish[:3], verdict(agents, *wish[:3])) for wish in wishes] == wishes


def test_an_agent_of_an_untrusted_project_asks_for_what_it_has_no_rule_for(place: AgentPlace) -> None:
    """CAT-181: as it would with trust."""
    place.write("opencode.json", {"agent": {"own": {"prompt": "x"}}})
    assert verdict(place.agents(trust=TRUST_NOTHING), "own", "bash", "ls") == "ask"
    assert verdict(place.agents(trust=TRUST_EVERYTHING), "own", "bash", "ls") == "ask"


def verdict(agents: Agents, id: str, action: str, resource: str) -> str:
    authority = agents.authority(id)
    assert authority is not None
    return evaluate(authority.rules, action, resource, authority.fences)
