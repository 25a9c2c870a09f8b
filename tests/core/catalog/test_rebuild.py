"""The catalog is its sources put one over the other: what leaves is gone, what changes is announced once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.catalog.conftest import PACKAGE, Configured, MakeCatalog, provider, ref

from holdfast.core.catalog.catalog import Catalog
from holdfast.core.catalog.draft import CatalogDraft
from holdfast.core.catalog.errors import ModelUnavailable
from holdfast.core.catalog.models_dev import ModelsDev
from holdfast.core.config.config import Config
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.core.scope import Scope
from holdfast.core.state import Phase
from holdfast.schema.catalog import EnvMethod, KeyMethod, ModelInfo
from holdfast.schema.live_event import CatalogUpdated, IntegrationUpdated
from holdfast.schema.record import Record


def named(name: str) -> Any:
    return lambda model: msgspec.structs.replace(model, name=name)


def test_nothing_is_read_before_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-142: making a catalog, and refreshing an unused one, costs nothing."""
    read: list[Path] = []
    plain = Path.read_bytes

    def watched(path: Path) -> bytes:
        read.append(path)
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", watched)
    catalog = Catalog(Config(), {})
    catalog.reload()
    assert read == []
    assert catalog.models() == ()
    assert catalog.provider("anthropic")
    assert catalog.resolve("s", ref("demo/echo")).ref == ref("demo/echo")
    assert [path.name for path in read] == ["models.json"]


def test_a_plugin_comes_and_goes(make_catalog: MakeCatalog) -> None:
    """CAT-090, CAT-140, CAT-142, trap 16: configuration still has the last word; removal leaves nothing behind."""
    told: list[tuple[Record, str | None]] = []
    data = {"d": {"npm": PACKAGE, "api": "http://d", "models": {"m": {"name": "data"}}}}
    entry = provider(PACKAGE, {"m": {"name": "configured"}, "n": {}})

    def announce(event: Record) -> None:
        found = catalog.model("plugged", "m")
        told.append((event, found.name if found else None))

    catalog = make_catalog({"provider": {"mine": entry}}, data=data, announce=announce)
    before = msgspec.json.encode(catalog.models())
    told.clear()
    scope = Scope()

    def apply(draft: CatalogDraft) -> None:
        draft.models.update("plugged", "m", named("plugged"))
        draft.models.update("mine", "m", named("never"))
        draft.models.update("d", "m", _spoil)
        draft.models.remove("d", "nothing")

    catalog.transform(apply, scope, phase=Phase.PLUGIN, owner="plugin")
    assert told == [(CatalogUpdated(), "plugged")]
    names = {(model.provider_id, model.id): model.name for model in catalog.models()}
    assert names == {("plugged", "m"): "plugged", ("mine", "m"): "configured", ("mine", "n"): "n", ("d", "m"): "data"}
    scope.close()
    assert msgspec.json.encode(catalog.models()) == before
    assert told[1:] == [(CatalogUpdated(), None)]


def _spoil(model: ModelInfo) -> ModelInfo:
    model.request.body["spoilt"] = True
    return model


def test_a_denied_provider_is_in_no_view(make_catalog: MakeCatalog) -> None:
    """CAT-049, trap 2: whatever a plugin says later; asking for it says why."""
    document = {
        "provider": {"mine": provider(PACKAGE), "other": provider(PACKAGE)},
        "experimental": {"policies": [{"effect": "deny", "action": "provider.use", "resource": "mine"}]},
    }
    catalog = make_catalog(document)
    catalog.transform(lambda draft: draft.models.update("mine", "m", named("x")), Scope(), phase=Phase.VARIANTS)
    assert [found.id for found in catalog.providers()] == ["other"]
    assert {model.provider_id for model in catalog.models()} == {"other"}
    assert (catalog.provider("mine"), catalog.model("mine", "m")) == (None, None)
    with pytest.raises(ModelUnavailable, match="policy"):
        catalog.resolve("s", ref("mine/m"))


def test_a_new_configuration_changes_policy_integrations_and_catalog_together(
    make_catalog: MakeCatalog, configured: Configured
) -> None:
    """CAT-152, CAT-025: policy, integrations and catalog follow together."""
    catalog = make_catalog({"provider": {"old": {**provider(PACKAGE), "env": ["OLD"]}}})
    assert [found.id for found in catalog.integrations.list()] == ["old"]
    assert catalog.default() == ref("old/m")
    document = {"model": "new/m", "provider": {"new": {**provider(PACKAGE), "env": ["NEW"]}}}
    catalog.reconfigure(configured(document))
    assert [found.id for found in catalog.providers()] == ["new"]
    assert [found.id for found in catalog.integrations.list()] == ["new"]
    assert catalog.default() == ref("new/m")


@pytest.mark.anyio
async def test_a_refresh_of_models_dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-097, CAT-099, CAT-152, trap 15: listeners find the new state; a key method, then an env method."""
    bundled = tmp_path / "bundled.json"
    bundled.write_text(json.dumps({"old": {"models": {"m": {}}}}))
    models = ModelsDev(tmp_path / "cache", {}, bundled=bundled)
    seen: list[tuple[Record, list[str]]] = []
    catalog = Catalog(
        Config(),
        {"NEW_KEY": "k"},
        models=models,
        announce=lambda event: seen.append((event, [model.provider_id for model in catalog.models()])),
    )
    assert [model.provider_id for model in catalog.models()] == ["old"]
    assert catalog.integrations.list() == ()
    seen.clear()

    async def fetch(self: ModelsDev) -> bytes:
        return json.dumps(
            {"new": {"name": "New", "env": ["NEW_KEY"], "models": {"m": {}}}, "free": {"env": []}}
        ).encode()

    monkeypatch.setattr(ModelsDev, "_fetch", fetch)
    assert await models.refresh() is True
    assert sorted(seen, key=str) == sorted([(CatalogUpdated(), ["new"]), (IntegrationUpdated(), ["new"])], key=str)
    (found,) = catalog.integrations.list()
    assert (found.id, found.name, found.methods) == ("new", "New", (KeyMethod(), EnvMethod(names=("NEW_KEY",))))
    await catalog.close()
    (tmp_path / "cache" / "models.json").unlink()
    assert await models.refresh() is True
    assert len(seen) == 2


def test_some_providers_get_headers_aliases_and_places_by_default(make_catalog: MakeCatalog) -> None:
    """CAT-124: headers, two aliases off, places from the environment; and configuration over all of it."""
    chat: dict[str, Any] = {"gpt-5-chat-latest": {}, "openai/gpt-5-chat": {}, "openai/gpt-5": {}}
    data = {
        "anthropic": {"npm": "@ai-sdk/anthropic", "models": {"m": {}}},
        "openrouter": {"npm": "@openrouter/ai-sdk-provider", "models": chat},
        "cerebras": {"npm": "@ai-sdk/cerebras", "models": {"m": {}}},
        "azure": {"npm": "@ai-sdk/azure", "env": ["AZURE_API_KEY"], "models": {"m": {}}},
        "google-vertex": {"npm": "@ai-sdk/google-vertex", "models": {"m": {}}},
    }
    environment = {"AZURE_RESOURCE_NAME": "res", "AZURE_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "prj"}
    catalog = make_catalog(data=data, environment=environment)

    def headers(text: str) -> dict[str, str]:
        return catalog.resolve("s", ref(text)).overlay("s").headers

    assert "anthropic-beta" in headers("anthropic/m")
    assert headers("openrouter/openai/gpt-5").keys() == {"HTTP-Referer", "X-Title"}
    assert headers("cerebras/m").keys() == {"X-Cerebras-3rd-Party-Integration"}
    assert [model.id for model in catalog.models() if model.provider_id == "openrouter"] == ["openai/gpt-5"]
    route = catalog.resolve("s", ref("azure/m")).model.route
    assert route.base_url == "https://res.openai.azure.com/openai/v1"
    vertex = catalog.provider("google-vertex")
    assert vertex is not None
    assert vertex.api.settings == {"project": "prj"}
    own = {
        "provider": {
            "azure": {"options": {"resourceName": "mine"}},
            "openrouter": {"models": {"openai/gpt-5-chat": {"name": "x"}}},
        },
        "providers": {"openrouter": {"models": {"openai/gpt-5-chat": {"disabled": False}}}},
    }
    catalog = make_catalog(own, data=data, environment=environment)
    assert "mine" in catalog.resolve("s", ref("azure/m")).model.route.base_url
    assert catalog.resolve("s", ref("openrouter/openai/gpt-5-chat")).ref == ref("openrouter/openai/gpt-5-chat")


def test_an_integration_of_a_plugin(make_catalog: MakeCatalog) -> None:
    """CAT-130, CAT-140: closing an overriding scope reveals what was registered before."""
    catalog = make_catalog(data={"p": {"name": "P", "env": ["A"], "models": {}}})
    scope = Scope()

    def apply(draft: IntegrationDraft) -> None:
        draft.add("p", EnvMethod(names=("B",)), "Plugged")

    catalog.integrations.transform(apply, scope, phase=Phase.PLUGIN)
    plugged = catalog.integrations.get("p")
    assert plugged is not None
    assert (plugged.name, plugged.methods) == ("Plugged", (KeyMethod(), EnvMethod(names=("B",))))
    scope.close()
    former = catalog.integrations.get("p")
    assert former is not None
    assert (former.name, former.methods) == ("P", (KeyMethod(), EnvMethod(names=("A",))))
