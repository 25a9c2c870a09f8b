"""One adapter splits options in AI SDK shapes into three domains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.catalog import packages
from holdfast.core.catalog.options import Overlay, merge, partition
from holdfast.core.catalog.packages import ANTHROPIC, BEDROCK, COMPATIBLE, GEMINI, OPENAI, OPENROUTER, PACKAGES, Dialect
from holdfast.llm.model import OWNED_FIELDS
from holdfast.schema.catalog import AisdkApi, NativeApi

THINKING = {"type": "enabled", "budgetTokens": 4000}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"maxTokens": 9}, {"max_tokens": 9}),
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"maxOutputTokens": 9}, {"max_tokens": 9}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"topP": 0.5, "top_k": 3}, {"top_p": 0.5, "top_k": 3}),
        ({"frequency_penalty": 1, "presencePenalty": 2}, {"frequency_penalty": 1.0, "presence_penalty": 2.0}),
        ({"seed": 7, "stop": ["a"]}, {"seed": 7, "stop": ("a",)}),
        ({"stopSequences": ["a", "b"]}, {"stop": ("a", "b")}),
        ({"stop_sequences": "a"}, {"stop": ("a",)}),
        ({"generationConfig": {"topK": 4}}, {"top_k": 4}),
        ({"inferenceConfig": {"maxTokens": 4}}, {"max_tokens": 4}),
    ],
)
@pytest.mark.parametrize("dialect", [OPENAI, COMPATIBLE, ANTHROPIC, GEMINI, BEDROCK])
def test_generation_controls_are_taken_in_every_spelling(
    dialect: Dialect, written: dict[str, Any], meant: dict[str, Any]
) -> None:
    """CAT-107, CAT-105: every spelling, for every protocol alike; Bedrock's wrapper is not put around them."""
    found = partition(written, dialect)
    assert (found.overlay, found.problems) == (Overlay(generation=meant), ())


@pytest.mark.parametrize("written", [{"temperature": "hot"}, {"maxTokens": True}, {"stop": 3}, {"top_p": [1]}])
def test_a_control_of_the_wrong_type_is_dropped_and_named(written: dict[str, Any]) -> None:
    """CAT-107: in the body the protocol would refuse it, at every turn."""
    found = partition(written, COMPATIBLE)
    assert found.overlay == Overlay()
    assert len(found.problems) == 1
    assert next(iter(written)) in found.problems[0]


@pytest.mark.parametrize(
    ("dialect", "written", "options"),
    [
        (OPENAI, {"reasoning_effort": "low", "store": True}, {"openai": {"reasoningEffort": "low", "store": True}}),
        (
            OPENAI,
            {"prompt_cache_key": "k", "serviceTier": "flex"},
            {"openai": {"promptCacheKey": "k", "serviceTier": "flex"}},
        ),
        (
            OPENAI,
            {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"verbosity": "low"}},
            {"openai": {"reasoningEffort": "high", "reasoningSummary": "auto", "textVerbosity": "low"}},
        ),
        (COMPATIBLE, {"reasoningEffort": "low"}, {"openai": {"reasoningEffort": "low"}}),
        (COMPATIBLE, {"thinking": {"type": "disabled"}}, {"openai": {"thinking": {"type": "disabled"}}}),
        (ANTHROPIC, {"thinking": THINKING, "task_budget": 5}, {"anthropic": {"thinking": THINKING, "taskBudget": 5}}),
        (
            ANTHROPIC,
            {"effort": "low", "metadata": {"userId": "u"}},
            {"anthropic": {"effort": "low", "metadata": {"userId": "u"}}},
        ),
        (GEMINI, {"thinking_config": {"thinkingBudget": 0}}, {"gemini": {"thinkingConfig": {"thinkingBudget": 0}}}),
        (GEMINI, {"generationConfig": {"thinkingConfig": {}}}, {"gemini": {"thinkingConfig": {}}}),
        (BEDROCK, {"thinking": THINKING}, {"bedrock": {"thinking": THINKING}}),
        (
            OPENROUTER,
            {"reasoning": {"effort": "low"}, "provider": {}},
            {"openrouter": {"reasoning": {"effort": "low"}, "provider": {}}},
        ),
    ],
)
def test_model_request_options_are_kept_by_namespace_in_one_spelling(
    dialect: Dialect, written: dict[str, Any], options: dict[str, Any]
) -> None:
    """CAT-108, LLM-032: by namespace and with one spelling; what a protocol would refuse in the body is here."""
    assert partition(written, dialect).overlay == Overlay(options=options)


@pytest.mark.parametrize(
    ("package", "namespace"),
    [
        ("@ai-sdk/openai", "openai"),
        ("@ai-sdk/azure", "openai"),
        ("@ai-sdk/anthropic", "anthropic"),
        ("@ai-sdk/google-vertex/anthropic", "anthropic"),
        ("@ai-sdk/google", "gemini"),
        ("@ai-sdk/google-vertex", "gemini"),
    ],
)
def test_the_namespace_of_a_package(package: str, namespace: str) -> None:
    """CAT-108."""
    assert packages.dialect(AisdkApi(package=package)).namespace == namespace


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        (COMPATIBLE, {"textVerbosity": "low", "store": True, "repetition_penalty": 1.1}),
        (ANTHROPIC, {"reasoningEffort": "low", "service_tier": "auto"}),
        (OPENAI, {"thinkingConfig": {}, "reasoning": {"effort": "low", "mode": "new"}}),
        (GEMINI, {"cachedContent": "x", "labels": {"a": None}}),
    ],
)
def test_everything_else_is_a_body_field_as_it_was_written(dialect: Dialect, written: dict[str, Any]) -> None:
    """CAT-108: an option of another protocol too; what is not wholly understood stays whole."""
    assert partition(written, dialect) == (Overlay(body=written), {}, ())


@pytest.mark.parametrize("dialect", [OPENAI, COMPATIBLE, ANTHROPIC, GEMINI, BEDROCK, OPENROUTER, packages.UNKNOWN])
@given(key=st.sampled_from(sorted(OWNED_FIELDS)), value=st.one_of(st.none(), st.integers(), st.text(max_size=3)))
@settings(max_examples=60, deadline=None)
def test_a_field_that_a_protocol_owns_never_reaches_the_body(dialect: Dialect, key: str, value: Any) -> None:
    """CAT-111, LLM-032: it is moved to its domain, or dropped with a word; so it cannot make every turn fail."""
    overlay, _, problems = partition({key: value}, dialect)
    assert not overlay.body
    moved = bool(overlay.generation or overlay.options)
    assert moved != bool(problems)
    assert all(key in problem for problem in problems)


def test_a_providers_options_are_lowered() -> None:
    """CAT-106, CAT-112: credentials and constructor settings apart, headers and body where they belong."""
    options = {
        "apiKey": "sk-1",
        "organization": "org",
        "project": "prj",
        "timeout": 1000,
        "headers": {"X-A": "1"},
        "body": {"temperature": 0.5, "extra": 1},
        "reasoningEffort": "low",
    }
    found = partition(options, OPENAI, {"X-B": "2"}, provider=True)
    assert found.overlay == Overlay(
        headers={"OpenAI-Organization": "org", "OpenAI-Project": "prj", "X-A": "1", "X-B": "2"},
        generation={"temperature": 0.5},
        options={"openai": {"reasoningEffort": "low"}},
        body={"extra": 1},
    )
    assert found.settings == {"apiKey": "sk-1", "timeout": 1000}
    elsewhere = partition({"project": "prj", "location": "eu"}, GEMINI, provider=True)
    assert (elsewhere.settings, elsewhere.overlay) == ({"project": "prj", "location": "eu"}, Overlay())


@pytest.mark.parametrize("provider", [True, False])
@pytest.mark.parametrize("dialect", [OPENAI, packages.UNKNOWN])
def test_a_key_is_never_a_body_field(dialect: Dialect, provider: bool) -> None:
    """CAT-112: on whichever level it was written, and for unknown packages too."""
    found = partition({"apiKey": "sk-1", "authToken": "t"}, dialect, provider=provider)
    assert found.overlay == Overlay()
    assert found.settings == {"apiKey": "sk-1", "authToken": "t"}


@pytest.mark.parametrize("package", ["toString", "__class__", "@ai-sdk/nobody", ""])
def test_an_unknown_package_is_unknown(package: str) -> None:
    """CAT-106: whatever it is called; its options are body fields."""
    assert package not in PACKAGES
    assert packages.package_endpoint(AisdkApi(package=package, url="http://h")) is None
    dialect = packages.dialect(AisdkApi(package=package))
    assert partition({"reasoningEffort": "low"}, dialect, provider=True).overlay == Overlay(
        body={"reasoningEffort": "low"}
    )


@pytest.mark.parametrize(
    ("url", "way", "base"),
    [
        ("http://h/v1/responses", "responses", "http://h/v1"),
        ("http://h/v1/chat/completions", "chat", "http://h/v1"),
        ("http://h/v1/messages", "messages", "http://h/v1"),
        ("http://h/v1", "chat", "http://h/v1"),
    ],
)
def test_a_native_address_says_its_protocol(url: str, way: str, base: str) -> None:
    """CAT-121: by how it ends; a bare one is taken for an OpenAI-compatible base."""
    found = packages.package_endpoint(NativeApi(url=url, settings={}))
    assert found is not None
    assert (found.package.protocol, found.url) == (way, base)


def test_layers_merge_and_null_removes() -> None:
    """CAT-110: controls by key, options and body recursively, lists replaced, headers in any case."""
    low = Overlay(
        headers={"X-Trace": "low", "Keep": "1"},
        generation={"temperature": 0.1, "stop": ("a", "b"), "seed": 1},
        options={"openai": {"reasoningEffort": "low", "reasoningSummary": "auto", "include": ["a", "b"]}},
        body={"nested": {"a": 1, "b": 2}, "list": [1, 2], "gone": 1},
    )
    high = Overlay(
        headers={"x-trace": "high"},
        generation={"stop": ("c",), "seed": None},
        options={"openai": {"reasoningEffort": "high", "include": ["c"]}},
        body={"nested": {"b": None, "c": 3}, "list": [3], "gone": None},
    )
    assert merge(low, high) == Overlay(
        headers={"x-trace": "high", "Keep": "1"},
        generation={"temperature": 0.1, "stop": ("c",)},
        options={"openai": {"reasoningEffort": "high", "reasoningSummary": "auto", "include": ["c"]}},
        body={"nested": {"a": 1, "c": 3}, "list": [3]},
    )
    assert merge(low, high, Overlay(body={"gone": 2})).body["gone"] == 2
