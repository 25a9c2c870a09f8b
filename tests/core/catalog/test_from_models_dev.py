"""models.dev's records become the catalog's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.catalog.conftest import MakeCatalog

from holdfast.core.catalog.dev_record import DevProvider
from holdfast.core.catalog.from_models_dev import provider_entries
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    CacheCost,
    CostTier,
    ModelCapabilities,
    ModelCost,
    ModelInfo,
    ModelLimit,
    ModelRequest,
    ModelTime,
    NativeApi,
    NativeModelApi,
)

FULL: dict[str, Any] = {
    "id": "m",
    "name": "Model",
    "family": "fam",
    "release_date": "2025-01-02",
    "tool_call": True,
    "structured_output": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 1000, "input": 900, "output": 100},
    "status": "beta",
    "cost": {
        "input": 1,
        "output": 2,
        "tiers": [{"input": 3, "output": 4, "cache_read": 5, "tier": {"type": "context", "size": 100}}],
        "context_over_200k": {"input": 6, "output": 7},
    },
    "something": "else",
}


def load(model: dict[str, Any], id: str = "m", **provider: Any) -> ModelInfo | None:
    entry = msgspec.convert({"models": {"m": msgspec.Raw(msgspec.json.encode(model))}, **provider}, DevProvider)
    return provider_entries({"p": entry})["p"].model(id)


def price(input: float, output: float, read: float = 0, size: int | None = None) -> ModelCost:
    tier = None if size is None else CostTier(type="context", size=size)
    return ModelCost(tier=tier, input=input, output=output, cache=CacheCost(read=read, write=0))


def test_a_provider_with_a_package_is_of_its_sdk_and_native_otherwise() -> None:
    """CAT-099: a package is an SDK's, anything else is native; the id stands for a missing name."""
    found = provider_entries(
        {"a": DevProvider(name="A", npm="pkg", api="http://a"), "b": DevProvider(api="http://b"), "c": DevProvider()}
    )
    assert [(entry.provider.name, entry.provider.api) for entry in found.values()] == [
        ("A", AisdkApi(package="pkg", url="http://a")),
        ("b", NativeApi(url="http://b", settings={})),
        ("c", NativeApi(settings={})),
    ]


def test_a_full_models_dev_record_has_prices_in_order() -> None:
    """CAT-100: base price first, then the tiers in order, then the long context."""
    assert load(FULL) == ModelInfo(
        id="m",
        provider_id="p",
        family="fam",
        name="Model",
        api=NativeModelApi(id="m", settings={}),
        capabilities=ModelCapabilities(tools=True, input=("text", "image"), output=("text",), structured=True),
        request=ModelRequest(headers={}, body={}),
        variants=(),
        time=ModelTime(released=1735776000000),
        cost=(price(1, 2), price(3, 4, 5, 100), price(6, 7, 0, 200_000)),
        status="beta",
        enabled=True,
        limit=ModelLimit(context=1000, input=900, output=100),
    )


def test_a_bare_models_dev_record_is_active_without_prices() -> None:
    """CAT-100: active, enabled, no prices, no date."""
    found = load({})
    assert found is not None
    assert (found.name, found.status, found.enabled, found.cost, found.time.released) == ("m", "active", True, (), 0)


@pytest.mark.parametrize(
    ("written", "released"),
    [("2025-01", 1735689600000), ("2025", 1735689600000), ("soon", 0), ("2025-13-40", 0), ("", 0)],
)
def test_a_release_date_that_cannot_be_read_is_zero(written: str, released: int) -> None:
    """CAT-100: what cannot be read is 0."""
    found = load({"release_date": written})
    assert found is not None
    assert found.time.released == released


def test_a_model_with_a_package_of_its_own() -> None:
    """CAT-100, CAT-105: the override, and options in the shapes that configuration uses too."""
    found = load({"provider": {"npm": "other"}, "options": {"reasoningEffort": "low"}, "headers": {"A": "1"}})
    assert found is not None
    assert found.api == AisdkModelApi(id="m", package="other")
    assert found.request == ModelRequest(headers={"A": "1"}, body={"reasoningEffort": "low"})


def test_a_mode_is_a_model_of_its_own() -> None:
    """CAT-101: same wire id, its own headers, body and prices; not a variant."""
    mode = {
        "cost": {"input": 10, "output": 20, "context_over_200k": {"input": 60, "output": 70}},
        "provider": {"headers": {"H": "1"}, "body": {"speed": "fast"}},
    }
    model = {**FULL, "experimental": {"modes": {"fast": mode, "plain": {}}}}
    found, base = load(model, "m-fast"), load(model)
    assert found is not None
    assert base is not None
    assert (found.id, found.name, found.api.id, found.variants) == ("m-fast", "Model Fast", "m", ())
    assert found.request == ModelRequest(headers={"H": "1"}, body={"speed": "fast"})
    assert found.cost == (price(10, 20), price(3, 4, 5, 100), price(60, 70, 0, 200_000))
    assert base.request == ModelRequest(headers={}, body={})
    plain = load(model, "m-plain")
    assert plain is not None
    assert plain.cost == base.cost


def test_an_invalid_model_is_not_there(make_catalog: MakeCatalog) -> None:
    """CAT-098: it is dropped with a log line; the others stay."""
    data = {"p": {"models": {"good": FULL, "bad": {"limit": "much"}, "odd": []}}}
    catalog = make_catalog(data=data)
    assert [model.id for model in catalog.models()] == ["good"]
    assert catalog.model("p", "bad") is None
