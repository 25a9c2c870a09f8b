"""What a request carries: the layers of options over each other, and variants."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.catalog.conftest import PACKAGE, MakeCatalog, agent, body, provider, ref

from holdfast.core.catalog.errors import VariantUnavailable


def test_layers_from_provider_to_session(make_catalog: MakeCatalog) -> None:
    """CAT-110, CAT-105, CAT-115, CAT-071, trap 12: each over the one before; null takes away, merging is deep."""
    models = {
        "m": {
            "id": "gpt-5.1",
            "options": {"reasoningSummary": "detailed", "temperature": 0.2, "user": "model"},
            "variants": {"deep": {"reasoning": {"effort": "high"}, "extra": {"b": 2}}},
        }
    }
    options = {"store": True, "maxTokens": 100, "extra": {"a": 1}, "user": "provider"}
    catalog = make_catalog({"provider": {"p": provider("@ai-sdk/openai", models, **options)}})
    plain = catalog.resolve("ses_1", ref("p/m")).overlay("ses_1")
    assert plain.options == {
        "openai": {
            "store": True,
            "reasoningEffort": "medium",
            "reasoningSummary": "detailed",
            "include": ["reasoning.encrypted_content"],
            "textVerbosity": "low",
            "promptCacheKey": "ses_1",
        }
    }
    assert plain.body == {"extra": {"a": 1}, "user": "model"}
    assert plain.generation is not None
    assert (plain.generation.max_tokens, plain.generation.temperature) == (100, 0.2)
    by = agent(None, {"X-Agent": "1"}, temperature=0.9, reasoningSummary=None, textVerbosity=None, extra={"a": None})
    found = catalog.resolve("ses_1", ref("p/m", "deep"), by)
    deep = found.overlay("ses_1")
    assert deep.options == {
        "openai": {
            "store": True,
            "reasoningEffort": "high",
            "include": ["reasoning.encrypted_content"],
            "promptCacheKey": "ses_1",
        }
    }
    assert (deep.body, deep.headers) == ({"extra": {"b": 2}, "user": "model"}, {"X-Agent": "1"})
    assert deep.generation is not None
    assert (deep.generation.max_tokens, deep.generation.temperature, found.variant) == (100, 0.9, "deep")
    sent = body(found)
    assert (sent["reasoning"], sent["extra"], sent["max_output_tokens"]) == ({"effort": "high"}, {"b": 2}, 100)
    assert "text" not in sent


def test_headers_are_one_whatever_their_case(make_catalog: MakeCatalog) -> None:
    """CAT-110."""
    mine = {
        **provider(PACKAGE, {"m": {"headers": {"x-trace": "model"}}}),
        "options": {"baseURL": "http://h", "headers": {"X-Trace": "p"}},
    }
    catalog = make_catalog({"provider": {"p": mine}})
    assert catalog.resolve("ses_1", ref("p/m")).overlay("s").headers == {"x-trace": "model"}
    assert catalog.resolve("ses_1", ref("p/m"), agent(None, {"X-TRACE": "a"})).overlay("s").headers == {"X-TRACE": "a"}


OFF = {"type": "disabled"}
NO = {"thinkingConfig": {"thinkingBudget": 0}}


@pytest.mark.parametrize(
    ("package", "options", "expected"),
    [
        ("@ai-sdk/openai", {"reasoningEffort": "low"}, {"reasoning": {"effort": "low"}}),
        ("@ai-sdk/openai", {"textVerbosity": "high"}, {"text": {"verbosity": "high"}}),
        (
            "@ai-sdk/anthropic",
            {"effort": "low", "thinking": OFF},
            {"output_config": {"effort": "low"}, "thinking": OFF},
        ),
        (PACKAGE, {"reasoningEffort": "low", "min_p": 0.1}, {"reasoning_effort": "low", "min_p": 0.1}),
        (PACKAGE, {"thinking": OFF}, {"thinking": OFF}),
        ("@ai-sdk/google", {"generationConfig": {"topK": 5}, **NO}, {"generationConfig": {"topK": 5, **NO}}),
        (PACKAGE, {"messages": [], "stream": False, "model": "x"}, {"stream": True, "model": "m"}),
    ],
)
def test_only_the_adapter_writes_wire_fields(
    make_catalog: MakeCatalog, package: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """CAT-109, CAT-111, LLM-030, LLM-032: options in the shapes of an SDK arrive as the provider spells them."""
    catalog = make_catalog({"provider": {"p": provider(package, {"m": {"options": options}})}})
    sent = body(catalog.resolve("ses_1", ref("p/m")))
    assert {key: sent[key] for key in expected} == expected


def test_a_body_field_wins_over_an_encoded_one(make_catalog: MakeCatalog) -> None:
    """CAT-111: it is the way out for whoever knows better."""
    models = {"m": {"options": {"reasoningEffort": "low", "reasoning": {"effort": "high", "mode": "x"}}}}
    catalog = make_catalog({"provider": {"p": provider("@ai-sdk/openai", models)}})
    assert body(catalog.resolve("ses_1", ref("p/m")))["reasoning"] == {"effort": "high", "mode": "x"}


def test_another_providers_options_stay_behind(make_catalog: MakeCatalog) -> None:
    """CAT-109, trap 11: a model with a package of its own is not sent its provider's options."""
    models = {"m": {"provider": {"npm": "@ai-sdk/anthropic"}}}
    catalog = make_catalog({"provider": {"p": provider("@ai-sdk/openai", models, reasoningEffort="low")}})
    sent = body(catalog.resolve("ses_1", ref("p/m")))
    assert not {"reasoning", "reasoning_effort", "reasoningEffort"} & sent.keys()


def test_a_body_field_without_effect_is_reported_once(
    make_catalog: MakeCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-107, CAT-111: once, and without the value."""
    models = {"m": {"options": {"temperature": "hot-secret", "messages": []}}}
    catalog = make_catalog({"provider": {"p": provider(PACKAGE, models)}})
    for _ in range(2):
        catalog.resolve("ses_1", ref("p/m"))
    found = catalog.diagnostics()
    assert [(item.path, item.message.split()[0].rstrip(":")) for item in found] == [
        ("p/m", "temperature"),
        ("p/m", "messages"),
    ]
    assert "hot-secret" not in caplog.text


def test_a_variant_other_than_default_and_none_must_exist(make_catalog: MakeCatalog) -> None:
    """CAT-115, SES-095: default and none are the model's own; another must exist."""
    models = {
        "v2": {"request": {"variant": "low"}, "variants": [{"id": "low", "headers": {"H": "low"}}, {"id": "high"}]},
        "odd": {"request": {"variant": "gone"}},
    }
    api = {"type": "native", "url": "http://h"}
    catalog = make_catalog({"providers": {"p": {"api": api, "models": models}}})
    chosen = [catalog.resolve("s", ref("p/v2", variant)) for variant in (None, "default", "high")]
    assert [found.variant for found in chosen] == ["low", "low", "high"]
    assert [found.overlay("s").headers for found in chosen] == [{"H": "low"}, {"H": "low"}, {}]
    assert catalog.resolve("s", ref("p/odd")).variant is None
    with pytest.raises(VariantUnavailable) as refused:
        catalog.resolve("s", ref("p/v2", "max"))
    assert refused.value.code == "SessionRunnerModel.VariantUnavailableError"
    assert str(refused.value) == "Variant max is not available for p/v2: it has low, high"


def test_the_agents_variant_belongs_to_its_own_model(make_catalog: MakeCatalog) -> None:
    """CAT-071: and only while the Session names none."""
    models: dict[str, Any] = {"m": {"variants": {"low": {}, "high": {}}}, "n": {"variants": {"high": {}}}}
    catalog = make_catalog({"provider": {"p": provider(PACKAGE, models)}})
    by = agent(ref("p/m", "high"))
    assert catalog.resolve("s", None, by).variant == "high"
    assert catalog.resolve("s", ref("p/m"), by).variant == "high"
    assert catalog.resolve("s", ref("p/m", "low"), by).variant == "low"
    assert catalog.resolve("s", ref("p/m", "default"), by).variant is None
    assert catalog.resolve("s", ref("p/n"), by).variant is None
