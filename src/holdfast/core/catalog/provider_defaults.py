"""Default headers and settings of some providers. Configuration can override all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.draft import CatalogDraft
    from holdfast.schema.catalog import ProviderInfo

PRODUCT = "holdfast"
HEADERS: dict[str, dict[str, str]] = {
    "anthropic": {"anthropic-beta": "interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14"},
    "openrouter": {"HTTP-Referer": "https://opencode.ai/", "X-Title": PRODUCT},
    "cerebras": {"X-Cerebras-3rd-Party-Integration": PRODUCT},
}
# Aliases of a model without tools, which is easily confused with the one that has tools.
ALIASES = {"openrouter": ("gpt-5-chat-latest", "openai/gpt-5-chat")}
# Settings, and the variables that may hold each.
SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "azure": {"resourceName": ("AZURE_RESOURCE_NAME",)},
    "azure-cognitive-services": {"resourceName": ("AZURE_COGNITIVE_SERVICES_RESOURCE_NAME",)},
    "google-vertex": {
        "project": ("GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT"),
        "location": ("GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"),
    },
}
SETTINGS["google-vertex-anthropic"] = SETTINGS["google-vertex"]


def apply_provider_defaults(draft: CatalogDraft, environment: Mapping[str, str]) -> None:
    for id, headers in HEADERS.items():
        if draft.providers.get(id) is not None:
            draft.providers.update(id, lambda provider, headers=headers: _with_headers(provider, headers))  # type: ignore[misc]
    for provider_id, aliases in ALIASES.items():
        for id in aliases:
            if draft.models.get(provider_id, id) is not None:
                draft.models.update(provider_id, id, lambda model: msgspec.structs.replace(model, enabled=False))
    for id, settings in SETTINGS.items():
        found = {
            setting: value
            for setting, names in settings.items()
            if (value := next((environment[name] for name in names if environment.get(name)), None))
        }
        if found and draft.providers.get(id) is not None:
            draft.providers.update(id, lambda provider, found=found: _with_settings(provider, found))  # type: ignore[misc]


def _with_headers(provider: ProviderInfo, headers: Mapping[str, str]) -> ProviderInfo:
    request = msgspec.structs.replace(provider.request, headers={**provider.request.headers, **headers})
    return msgspec.structs.replace(provider, request=request)


def _with_settings(provider: ProviderInfo, settings: Mapping[str, Any]) -> ProviderInfo:
    api = msgspec.structs.replace(provider.api, settings={**settings, **(provider.api.settings or {})})
    return msgspec.structs.replace(provider, api=api)
