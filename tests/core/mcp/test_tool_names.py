"""Names of MCP tools: what is offered, permitted and called."""

from __future__ import annotations

import logging

import msgspec
import pytest
from tests.core.mcp.fake_servers import manifest, tool

from holdfast.core.agent.draft import AgentDraft
from holdfast.core.mcp.default_rules import ask_for_servers
from holdfast.core.mcp.tool_names import RESERVED, named_tools, server_prefix
from holdfast.core.permission.rules import evaluate
from holdfast.core.permission.wildcard import matches
from holdfast.core.tool.registration import NAME
from holdfast.schema.permission import Rule


def names(**servers: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    manifests = {server: manifest(*map(tool, tools)) for server, tools in servers.items()}
    return {named.name: (named.server, named.tool.name) for named in named_tools(manifests)}


def test_a_tool_is_named_after_its_server_sorted_by_both() -> None:
    """TOL-281."""
    assert list(names(web=("fetch",), git=("log", "diff"))) == ["git_diff", "git_log", "web_fetch"]


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("my server", "a.b/c"),
        ("1password", "get item"),
        ("日本", "検索"),
        ("x" * 100, "y" * 300),
        ("-", "_"),
        ("s", "x" * 64),
        ("_", "\u202eevil"),
    ],
)
def test_every_name_is_valid_and_below_the_prefix_of_its_server(server: str, name: str) -> None:
    """TOL-281: whatever the parts are."""
    (found,) = names(**{server: (name,)})
    assert NAME.fullmatch(found)
    assert matches(f"{server_prefix(server)}*", found)
    assert list(names(**{server: (name,)})) == [found]


def test_two_tools_that_reduce_to_one_name_both_get_a_hash() -> None:
    """TOL-281: so that none takes over the name, and the permissions, of the other when it comes later."""
    both = names(s=("a.b", "a/b", "other"))
    assert len(both) == 3
    assert "s_a_b" not in both
    assert all(name.startswith("s_a_b_") for name in both if name != "s_other")
    assert names(s=("a.b",)) == {"s_a_b": ("s", "a.b")}
    assert names(s=("a/b", "a.b")) == names(s=("a.b", "a/b"))


def test_a_name_of_ours_is_not_given_to_an_mcp_tool() -> None:
    """TOL-281: a rule for `doom_loop` or the tool `apply_patch` does not become one for a server's tool."""
    found = names(apply=("patch",), doom=("loop",), mcp=("search", "call"))
    assert not RESERVED & set(found)
    assert len(found) == 4


def test_a_name_that_another_servers_rules_would_cover_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """MCP-203: `git` cannot name a tool so that a rule for `git_lab_*` allows it."""
    with caplog.at_level(logging.WARNING):
        found = names(git=("lab_delete", "log"), git_lab=("open",))
    assert set(found) == {"git_log", "git_lab_open"}
    assert "lab_delete" in caplog.text
    assert "git_lab_delete" in names(git=("lab_delete",))
    tools = named_tools({"git": manifest(tool("lab_delete"))}, servers=["git_lab"])
    assert not tools, "the other server need not be known yet"


def test_a_tool_cannot_take_the_hashed_name_of_another() -> None:
    """TOL-281: of names that are still the same, one is given, and always the same one."""
    hashed = [name for name in names(s=("a.b", "a/b"))]
    stolen = hashed[0].removeprefix("s_")
    found = names(s=("a.b", "a/b", stolen))
    assert len(found) == 2
    assert found == names(s=(stolen, "a/b", "a.b"))


# -- the default rule ------------------------------------------------------------------------------------------------


def ruled(*rules: Rule, servers: tuple[str, ...] = ("git",)) -> tuple[Rule, ...]:
    draft = AgentDraft()
    draft.update("build", lambda agent: msgspec.structs.replace(agent, permissions=rules))
    ask_for_servers(lambda: servers)(draft)
    agent = draft.get("build")
    assert agent is not None
    return agent.permissions


def test_every_tool_of_a_server_asks_by_default() -> None:
    """TOL-279."""
    allow = Rule(action="*", resource="*", effect="allow")
    rules = ruled(allow, servers=("git", "日本", "x" * 100))
    for server in ("git", "日本", "x" * 100):
        (name,) = names(**{server: ("anything",)})
        assert evaluate(rules, name, "*") == "ask"
    assert evaluate(rules, "read", "a") == "allow"
    assert evaluate((*rules, Rule(action="git_log", resource="*", effect="allow")), "git_log", "*") == "allow"


def test_the_default_rule_loosens_nothing() -> None:
    """TOL-279: an agent that may not keeps being denied, also single tools."""
    allow = Rule(action="*", resource="*", effect="allow")
    deny = Rule(action="*", resource="*", effect="deny")
    assert ruled(deny) == (deny,)
    one = Rule(action="git_push", resource="*", effect="deny")
    rules = ruled(allow, one)
    assert evaluate(rules, "git_push", "*") == "deny"
    assert evaluate(rules, "git_log", "*") == "ask"
