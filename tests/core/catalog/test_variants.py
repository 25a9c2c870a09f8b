"""Variants that follow from what a model can do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.catalog.conftest import PACKAGE, MakeCatalog, body, ref

EFFORT = {"type": "effort", "values": ["low", None, "high"]}
BUDGET = {"type": "budget_tokens", "min": 1, "max": 32000}
TOGGLE = {"type": "toggle"}
OPENAI, ANTHROPIC, GOOGLE = "@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google"
BEDROCK, OPENROUTER = "@ai-sdk/amazon-bedrock", "@openrouter/ai-sdk-provider"


def thinking(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budgetTokens": tokens}}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": tokens}}


def level(value: str) -> dict[str, Any]:
    return {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": value}}


@pytest.mark.parametrize(
    ("package", "options", "expected"),
    [
        (OPENAI, [EFFORT], {"low": {"reasoningEffort": "low"}, "high": {"reasoningEffort": "high"}}),
        (PACKAGE, [EFFORT], {"low": {"reasoningEffort": "low"}, "high": {"reasoningEffort": "high"}}),
        (ANTHROPIC, [EFFORT], {"low": {"effort": "low"}, "high": {"effort": "high"}}),
        (OPENROUTER, [EFFORT], {"low": {"reasoning": {"effort": "low"}}, "high": {"reasoning": {"effort": "high"}}}),
        (GOOGLE, [EFFORT], {"low": level("low"), "high": level("high")}),
        (ANTHROPIC, [BUDGET], {"high": thinking(16000), "max": thinking(32000)}),
        (BEDROCK, [BUDGET], {"high": thinking(16000), "max": thinking(32000)}),
        (GOOGLE, [{"type": "budget_tokens", "max": 8000}], {"high": budget(8000), "max": budget(8000)}),
        (OPENAI, [BUDGET], {}),
        (OPENAI, [TOGGLE], {"none": {"reasoningEffort": "none"}, "high": {"reasoningEffort": "high"}}),
        (ANTHROPIC, [TOGGLE], {"none": {"thinking": {"type": "disabled"}}, "high": thinking(16000)}),
        (OPENAI, [{"type": "new"}], {}),
        (OPENAI, [], {}),
        ("@ai-sdk/nobody", [EFFORT, TOGGLE], {}),
    ],
)
def test_from_what_models_dev_says(
    make_catalog: MakeCatalog, package: str, options: list[Any], expected: dict[str, Any]
) -> None:
    """CAT-117: in the words of the protocol; nothing where nothing is said."""
    data = {"p": {"npm": package, "api": "http://h", "models": {"m": {"reasoning_options": options}}}}
    found = make_catalog(data=data).model("p", "m")
    assert found is not None
    assert {variant.id: variant.body for variant in found.variants} == expected
    assert list(expected) == [variant.id for variant in found.variants]


@pytest.mark.parametrize("package", [OPENAI, ANTHROPIC, GOOGLE, PACKAGE, OPENROUTER, BEDROCK])
def test_a_generated_variant_reaches_the_wire(make_catalog: MakeCatalog, package: str) -> None:
    """CAT-117, LLM-032: through the same adapter as a configured one; no body field makes the turn fail."""
    models = {"claude-m": {"reasoning_options": [EFFORT, BUDGET], "limit": {"context": 9, "output": 64000}}}
    catalog = make_catalog(data={"p": {"npm": package, "api": "http://h", "models": models}})
    plain = body(catalog.resolve("s", ref("p/claude-m")))
    assert body(catalog.resolve("s", ref("p/claude-m", "high"))) != plain


@pytest.mark.parametrize(
    ("id", "wire", "package", "expected"),
    [
        ("glm-5.2", None, PACKAGE, ["high", "max"]),
        ("zai/GLM-5-2-fast", None, PACKAGE, ["high", "max"]),
        ("mine", "accounts/x/glm-5p2", PACKAGE, ["high", "max"]),
        ("glm-5.1", None, PACKAGE, []),
        ("glm-5.2", None, ANTHROPIC, []),
    ],
)
def test_a_known_model_family_has_its_variants(
    make_catalog: MakeCatalog, id: str, wire: str | None, package: str, expected: list[str]
) -> None:
    """CAT-116."""
    model = {"id": wire} if wire else {}
    catalog = make_catalog({"provider": {"p": {"npm": package, "api": "http://h", "models": {id: model}}}})
    found = catalog.model("p", id)
    assert found is not None
    assert [variant.id for variant in found.variants] == expected
    if expected:
        assert body(catalog.resolve("s", ref(f"p/{id}", "max")))["reasoning_effort"] == "max"


def test_an_explicit_one_wins_and_takes_the_generated_place(make_catalog: MakeCatalog) -> None:
    """CAT-116: it is not mixed with the generated one; others follow."""
    variants = {"mine": {"a": 1}, "max": {"b": 2}, "other": {}}
    entry = {"npm": PACKAGE, "api": "http://h", "models": {"glm-5.2": {"variants": variants}}}
    found = make_catalog({"provider": {"p": entry}}).model("p", "glm-5.2")
    assert found is not None
    assert [(variant.id, variant.body) for variant in found.variants] == [
        ("high", {"reasoning_effort": "high"}),
        ("max", {"b": 2}),
        ("mine", {"a": 1}),
        ("other", {}),
    ]
