"""What a list of rules says, alone and together with saved approvals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core.permission.desk import rule

from holdfast.core.permission.rules import DENY_EVERYTHING, effective, evaluate, expand_home, wholly_denied
from holdfast.schema.permission import Effect, Rule, SavedApproval

READ = [
    rule("allow", "read"),
    rule("ask", "read", "*.env"),
    rule("ask", "read", "*.env.*"),
    rule("allow", "read", "*.env.example"),
]


@pytest.mark.parametrize(
    ("rules", "action", "resource", "expected"),
    [
        ([], "edit", "a", "ask"),
        ([rule("allow", "read")], "edit", "a", "ask"),
        ([rule("allow"), rule("deny", "edit")], "edit", "a", "deny"),
        ([rule("deny", "edit"), rule("allow")], "edit", "a", "allow"),
        ([rule("deny", "edit", "secret/*"), rule("allow", "edit")], "edit", "secret/x", "allow"),
        ([rule("allow", "edit"), rule("deny", "edit", "secret/*")], "edit", "secret/x", "deny"),
        ([rule("allow", "edit"), rule("deny", "edit", "secret/*")], "edit", "public/x", "allow"),
        ([rule("allow"), rule("ask", "mcp_*")], "mcp_files", "a", "ask"),
        (READ, "read", "app/.env", "ask"),
        (READ, "read", "app/.env.local", "ask"),
        (READ, "read", "app/.env.example", "allow"),
        (READ, "read", "app/main.py", "allow"),
        (DENY_EVERYTHING.rules, "anything", "at all", "deny"),
    ],
)
def test_the_last_matching_rule_decides(rules: Sequence[Rule], action: str, resource: str, expected: Effect) -> None:
    """TOL-068, TOL-069, TOL-331, CAT-045, CAT-067: order is policy, not how specific a rule is; with none, ask."""
    assert evaluate(rules, action, resource) == expected


@pytest.mark.parametrize(
    ("rules", "resources", "expected"),
    [
        ([rule("allow"), rule("deny", "edit", "b")], ["a", "b"], "deny"),
        ([rule("allow"), rule("ask", "edit", "b")], ["a", "b"], "ask"),
        ([rule("ask", "edit", "a"), rule("deny", "edit", "b")], ["a", "b"], "deny"),
        ([rule("allow")], ["a", "b"], "allow"),
        ([rule("allow", "edit", "a")], ["a", "b"], "ask"),
    ],
)
def test_several_resources_get_the_strictest_effect(
    rules: Sequence[Rule], resources: list[str], expected: Effect
) -> None:
    """TOL-075, CAT-067: any deny denies, else any ask asks."""
    assert effective(rules, (), "edit", resources) == expected


@pytest.mark.parametrize(
    ("rules", "saved", "resources", "expected"),
    [
        ([], ["a"], ["a"], "allow"),
        ([], ["a"], ["a", "b"], "ask"),
        ([], ["a", "b"], ["a", "b"], "allow"),
        ([rule("ask", "edit")], ["*"], ["a"], "allow"),
        ([rule("ask", "*", "*")], ["src/*"], ["src/x"], "allow"),
        ([rule("deny", "edit")], ["*"], ["a"], "deny"),
        ([rule("deny", "edit", "a")], ["a"], ["a"], "deny"),
        ([rule("ask", "edit"), rule("deny", "edit", "b")], ["*"], ["a", "b"], "deny"),
    ],
)
def test_a_saved_approval_turns_ask_into_allow_and_nothing_else(
    rules: Sequence[Rule], saved: list[str], resources: list[str], expected: Effect
) -> None:
    """TOL-075, TOL-076, CAT-067: a configured deny stays, whenever it was written."""
    assert effective(rules, _saved(*saved), "edit", resources) == expected


def test_a_saved_approval_is_for_its_action() -> None:
    """TOL-075: approving edits approves no reads."""
    assert effective([], _saved("*"), "read", ["a"]) == "ask"


@pytest.mark.parametrize(
    ("saved", "resource", "strict", "lenient"),
    [
        ("*", "x/.env", "ask", "allow"),
        ("x/*", "x/.env", "allow", "allow"),
        ("*.env", "x/.env", "allow", "allow"),
        ("x/.env", "x/.env", "allow", "allow"),
        ("*env", "x/.env", "ask", "allow"),
        ("y/*", "x/.env", "ask", "ask"),
    ],
)
def test_a_saved_approval_gives_way_to_a_narrower_ask(
    saved: str, resource: str, strict: Effect, lenient: Effect
) -> None:
    """TOL-077: `*` was not approved for `*.env`, that very file was; and it can be switched off."""
    approvals = _saved(saved, action="read")
    assert effective(READ, approvals, "read", [resource]) == strict
    assert effective(READ, approvals, "read", [resource], saved_beats_narrower_ask=True) == lenient


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([rule("deny")], True),
        ([rule("deny", "question")], True),
        ([rule("deny", "question"), rule("allow", "question", "private")], False),
        ([rule("allow", "question", "private"), rule("deny", "question")], True),
        ([rule("deny", "question", "private")], False),
        ([rule("deny"), rule("allow", "edit")], True),
        ([rule("deny"), rule("ask", "quest*")], False),
        ([rule("deny", "question", "**")], False),
    ],
)
def test_an_action_is_wholly_denied_when_its_last_rule_denies_everything(rules: list[Rule], expected: bool) -> None:
    """TOL-012: exactly `*`, and the same rules in another order say something else."""
    assert wholly_denied(rules, "question") is expected


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("~", "/home/me"),
        ("~/notes/*", "/home/me/notes/*"),
        ("$HOME", "/home/me"),
        ("$HOME/.ssh/*", "/home/me/.ssh/*"),
        ("$HOME\\x", "/home/me\\x"),
        ("~other/x", "~other/x"),
        ("$HOMELESS/**", "$HOMELESS/**"),
        ("/some/~/path", "/some/~/path"),
        ("a/$HOME", "a/$HOME"),
        ("*", "*"),
    ],
)
@pytest.mark.parametrize("action", ["external_directory", "read", "edit"])
def test_home_is_spelled_out_at_the_front_of_path_rules(action: str, resource: str, expected: str) -> None:
    """TOL-073, CAT-066: only as a whole first part."""
    assert expand_home(rule("allow", action, resource), "/home/me") == rule("allow", action, expected)


@pytest.mark.parametrize("action", ["bash", "*", "read*", "webfetch"])
def test_home_is_just_text_in_other_rules(action: str) -> None:
    """TOL-073, CAT-066: a shell command is raw text."""
    assert expand_home(rule("deny", action, "~/x"), "/home/me") == rule("deny", action, "~/x")


def _saved(*patterns: str, action: str = "edit") -> list[SavedApproval]:
    return [SavedApproval(id="psv_1", project_id="p", action=action, resource=pattern) for pattern in patterns]
