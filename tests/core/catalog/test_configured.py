"""What configuration documents say about providers and models."""

from __future__ import annotations

import msgspec
from tests.core.catalog.conftest import Configured, MakeCatalog

from holdfast.core.catalog.configured import configure, configure_integrations
from holdfast.core.catalog.draft import CatalogDraft
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    CacheCost,
    CostTier,
    EnvMethod,
    KeyMethod,
    ModelCapabilities,
    ModelCost,
    ModelLimit,
    ModelRequest,
    ModelVariant,
    NativeModelApi,
)
from holdfast.schema.model import ModelRef


def test_a_provider_is_patched_document_by_document(configured: Configured) -> None:
    """CAT-126, CAT-127: api replaced whole, headers and body merged, the name only if given."""
    draft = CatalogDraft({})
    low = {
        "name": "Mine",
        "api": {"type": "aisdk", "package": "p", "url": "http://low", "settings": {"a": 1}},
        "request": {"headers": {"A": "1", "B": "1"}, "body": {"x": {"y": 1}, "z": 1}},
    }
    high = {
        "api": {"type": "aisdk", "package": "q"},
        "request": {"headers": {"B": "2"}, "body": {"x": {"w": 2}, "z": 2}},
    }
    configure(draft, configured({"providers": {"mine": low}}, {"providers": {"mine": high}}).documents())
    found = draft.providers.get("mine")
    assert found is not None
    assert (found.name, found.api) == ("Mine", AisdkApi(package="q"))
    assert found.request.headers == {"A": "1", "B": "2"}
    assert found.request.body == {"x": {"y": 1, "w": 2}, "z": 2}


def test_whether_a_model_has_a_json_mode_is_patched_alone(configured: Configured) -> None:
    """LLM-428: the other capabilities stay."""
    draft = CatalogDraft({})
    patches = ({"tools": True, "input": ["text"]}, {"structured": True}, {"structured": False})
    configure(
        draft,
        configured(
            *({"providers": {"p": {"models": {"m": {"capabilities": patch}}}}} for patch in patches)
        ).documents(),
    )
    found = draft.models.get("p", "m")
    assert found is not None
    assert found.capabilities == ModelCapabilities(tools=True, input=("text",), output=(), structured=False)


def test_a_model_is_patched_field_by_field(configured: Configured) -> None:
    """CAT-126, CAT-116: each field by its own rule."""
    first = {
        "family": "fam",
        "name": "M",
        "api": {"id": "wire", "type": "aisdk", "package": "p", "settings": {"a": 1}},
        "capabilities": {"tools": True, "input": ["text", "image"], "output": ["text"], "structured": True},
        "request": {"headers": {"A": "1"}, "body": {"x": 1}, "variant": "low"},
        "variants": [{"id": "low", "body": {"e": 1}}, {"id": "high", "headers": {"H": "1"}}],
        "cost": {"input": 1, "output": 2},
        "limit": {"context": 100, "output": 10},
    }
    second = {
        "api": {"id": "wire2", "url": "http://m"},
        "capabilities": {"input": ["text"]},
        "request": {"body": {"y": 2}},
        "variants": [{"id": "max", "body": {"e": 9}}, {"id": "low", "body": {"f": 2}}],
        "cost": [
            {"input": 3, "output": 4, "cache": {"read": 0.5}},
            {"input": 5, "output": 6, "tier": {"type": "context", "size": 7}},
        ],
        "disabled": True,
        "limit": {"input": 90},
    }
    draft = CatalogDraft({})
    documents = configured(
        {"providers": {"mine": {"models": {"m": first}}}}, {"providers": {"mine": {"models": {"m": second}}}}
    ).documents()
    configure(draft, documents)
    found = draft.models.get("mine", "m")
    assert found is not None
    assert (found.family, found.name, found.enabled) == ("fam", "M", False)
    assert found.api == AisdkModelApi(id="wire2", package="p", url="http://m", settings={"a": 1})
    assert found.capabilities == ModelCapabilities(tools=False, input=("text",), output=(), structured=True)
    assert found.request == ModelRequest(headers={"A": "1"}, body={"x": 1, "y": 2}, variant="low")
    assert found.variants == (
        ModelVariant(id="low", headers={}, body={"e": 1, "f": 2}),
        ModelVariant(id="high", headers={"H": "1"}, body={}),
        ModelVariant(id="max", headers={}, body={"e": 9}),
    )
    assert found.cost == (
        ModelCost(input=3, output=4, cache=CacheCost(read=0.5, write=0)),
        ModelCost(tier=CostTier(type="context", size=7), input=5, output=6, cache=CacheCost(read=0, write=0)),
    )
    assert found.limit == ModelLimit(context=100, input=90, output=10)


def test_only_an_id_for_the_wire(configured: Configured) -> None:
    """CAT-126: everything else is inherited."""
    draft = CatalogDraft({})
    configure(draft, configured({"providers": {"mine": {"models": {"m": {"api": {"id": "wire"}}}}}}).documents())
    found = draft.models.get("mine", "m")
    assert found is not None
    assert found.api == NativeModelApi(id="wire", settings={})


def test_the_last_document_names_the_default(configured: Configured) -> None:
    """CAT-128, CAT-087, trap 3: cut at the first slash only."""
    draft = CatalogDraft({})
    configure(draft, configured({"model": "a/b"}, {"model": "openrouter/openai/gpt-5"}, {"username": "x"}).documents())
    assert draft.default == ModelRef(id="openai/gpt-5", provider_id="openrouter")


def test_variables_make_an_integration_and_a_name_renames_one(configured: Configured) -> None:
    """CAT-127: without `env`, only one that already exists is renamed."""
    draft = IntegrationDraft()
    draft.add("known", KeyMethod(), "Known")
    providers = {"mine": {"name": "Mine", "env": ["MY_KEY"]}, "known": {"name": "New"}, "other": {"name": "Other"}}
    configure_integrations(draft, configured({"providers": providers}).documents())
    assert {found.id: (found.name, found.methods) for found in draft.list()} == {
        "known": ("New", (KeyMethod(),)),
        "mine": ("Mine", (KeyMethod(), EnvMethod(names=("MY_KEY",)))),
    }


def test_configuration_speaks_over_models_dev(make_catalog: MakeCatalog) -> None:
    """CAT-127, CAT-124: and over what a provider is given by default."""
    model = {"name": "Data", "limit": {"context": 5, "output": 2}}
    data = {"anthropic": {"npm": "@ai-sdk/anthropic", "models": {"m": model}}}
    mine = {"request": {"headers": {"anthropic-beta": "mine"}}, "models": {"m": {"limit": {"output": 9}}}}
    catalog = make_catalog({"providers": {"anthropic": mine}}, data=data)
    found = catalog.model("anthropic", "m")
    assert found is not None
    assert (found.name, found.limit) == ("Data", ModelLimit(context=5, output=9))
    assert found.request.headers == {"anthropic-beta": "mine"}
    assert msgspec.json.encode(found)
