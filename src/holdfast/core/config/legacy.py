"""Providers in the shape of the first catalog, until it folds documents itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.config.document import Document


class ModelConfig(msgspec.Struct, frozen=True):
    id: str | None = None
    name: str | None = None
    limit: dict[str, int] = {}


class ProviderOptions(msgspec.Struct, frozen=True):
    base_url: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = {}
    timeout: int | bool | None = None


class ProviderConfig(msgspec.Struct, frozen=True):
    npm: str | None = None
    name: str | None = None
    api: str | None = None
    options: ProviderOptions = ProviderOptions()
    models: dict[str, ModelConfig] = {}


def providers(documents: Iterable[Document]) -> dict[str, ProviderConfig]:
    folded: dict[str, dict[str, Any]] = {}
    for document in documents:
        for id, patch in document.data.get("providers", {}).items():
            low = folded.setdefault(id, {"request": {}, "models": {}})
            request = patch.get("request", {})
            low["request"] = {
                key: {**low["request"].get(key, {}), **request.get(key, {})} for key in ("headers", "body")
            }
            low["models"] |= patch.get("models", {})
            low |= {key: patch[key] for key in ("name", "api") if key in patch}
    return {id: _provider(found) for id, found in folded.items()}


def _provider(found: dict[str, Any]) -> ProviderConfig:
    api, body = found.get("api", {}), found["request"]["body"]
    return ProviderConfig(
        npm=api.get("package"),
        name=found.get("name"),
        options=ProviderOptions(
            base_url=api.get("url") or body.get("baseURL"),
            api_key=body.get("apiKey"),
            headers=found["request"]["headers"],
            timeout=body.get("timeout"),
        ),
        models={
            id: ModelConfig(model.get("api", {}).get("id"), model.get("name"), model.get("limit", {}))
            for id, model in found["models"].items()
        },
    )
