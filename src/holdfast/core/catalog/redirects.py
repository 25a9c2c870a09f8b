"""Providers that a project would send to another host.

A provider that the catalog or the user's own files define is reached where these say. A project, even a trusted one,
may change everything else about it, and may define providers of its own; an address for a known one does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.catalog.packages import package_endpoint
from holdfast.core.config import schema
from holdfast.llm.route.auth import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.schema.catalog import ProviderInfo

BASE_URL = "baseURL"
"""In settings and in the body of requests."""
NEVER_COUNTS = (
    "would send {id} to {origin}: this never counts, because only the catalog and your own files say where a provider "
    "that you know is reached. Use another provider id there, or name the address in your own configuration"
)


def foreign_origin(provider: ProviderInfo, patch: schema.Provider) -> str | None:
    """Where a patch would send a provider, if that is another host than now."""
    endpoint = package_endpoint(provider.api)
    known = endpoint.url if endpoint is not None else provider.api.url
    for url in _addresses(patch):
        origin = origin_of(url)
        if known is None or origin != origin_of(known):
            return origin
    return None


def without_addresses(patch: schema.Provider) -> schema.Provider:
    """The patch with everything but where the provider is reached. An API is meant for its address."""
    request = patch.request
    if request is not None and request.body is not None:
        body = {name: value for name, value in request.body.items() if name != BASE_URL}
        request = msgspec.structs.replace(request, body=body)
    models = None
    if patch.models is not None:
        models = {
            id: msgspec.structs.replace(model, api=None) if model.api is not None and _own(model.api) else model
            for id, model in patch.models.items()
        }
    return msgspec.structs.replace(patch, api=None, request=request, models=models)


def provider_patch(value: Any) -> schema.Provider | None:
    """A provider as it stands in a validated document."""
    try:
        return msgspec.convert(value, schema.Provider)
    except (msgspec.ValidationError, TypeError):
        return None


def _addresses(patch: schema.Provider) -> Iterator[str]:
    if patch.api is not None:
        yield from _own(patch.api)
    if patch.request is not None:
        yield from _texts(patch.request.body)
    for model in (patch.models or {}).values():
        if model.api is not None:
            yield from _own(model.api)


def _own(api: schema.AiSdkApi | schema.NativeApi | schema.ModelApi) -> list[str]:
    return [*([api.url] if api.url else []), *_texts(api.settings)]


def _texts(values: Mapping[str, Any] | None) -> list[str]:
    url = (values or {}).get(BASE_URL)
    return [url] if isinstance(url, str) and url else []
