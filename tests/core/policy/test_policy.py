"""Which providers may be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.config.document import Document
from holdfast.core.policy.policy import Policy


def document(*statements: str, managed: bool = False) -> Document:
    written = [dict(zip(("effect", "action", "resource"), line.split(" "), strict=True)) for line in statements]
    return Document(Path("/x"), Path("/"), "user", {"experimental": {"policies": written}}, managed=managed)


ALLOW, DENY = "allow provider.use {}", "deny provider.use {}"


@pytest.mark.parametrize(
    ("documents", "provider", "allowed"),
    [
        ([], "x", True),
        ([document(DENY.format("x"))], "x", False),
        ([document(DENY.format("x"))], "xy", True),
        ([document(DENY.format("*"), ALLOW.format("x"))], "x", True),
        ([document(ALLOW.format("x"), DENY.format("*"))], "x", False),
        ([document(DENY.format("open?i"))], "openai", False),
        ([document(DENY.format("*")), document(ALLOW.format("x"))], "x", False),
        ([document(ALLOW.format("x")), document(DENY.format("x"))], "x", True),
        ([document(ALLOW.format("x")), document(DENY.format("x"), managed=True)], "x", False),
        ([document(DENY.format("x")), document(ALLOW.format("*"), managed=True)], "x", True),
    ],
)
def test_the_last_statement_decides_and_the_user_speaks_after_the_project(
    documents: list[Document], provider: str, allowed: bool
) -> None:
    """CAT-045, CAT-046, CAT-047: low to high documents are read backwards; the host's come last of all."""
    assert Policy(documents).allows_provider(provider) is allowed


def test_without_a_statement_the_caller_decides() -> None:
    """CAT-045."""
    assert Policy().evaluate("provider.use", "x", "deny") == "deny"
    assert Policy([document(ALLOW.format("x"))]).evaluate("other", "x", "deny") == "deny"


def test_patterns_are_those_of_permissions() -> None:
    """CAT-048: a star crosses slashes, brackets are literal, a trailing ` *` may match nothing."""
    policy = Policy([document(DENY.format("a*/x"), DENY.format("[ab]"))])
    assert [policy.allows_provider(id) for id in ("a/b/c/x", "[ab]", "a", "b")] == [False, False, True, True]
