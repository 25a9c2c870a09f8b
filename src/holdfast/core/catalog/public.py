"""Removes secrets from catalog records before clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.core.secret import hide, is_secret, public_address
from holdfast.llm.errors import REDACTED
from holdfast.schema.agent import ProviderRequest
from holdfast.schema.catalog import ModelInfo, ModelRequest, ModelVariant, ProviderInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T", ProviderInfo, ModelInfo)
R = TypeVar("R", ProviderRequest, ModelRequest, ModelVariant)

# Only these headers are shown; others may hold secrets.
SHOWN_HEADERS = frozenset(
    """
    accept anthropic-beta anthropic-version content-type http-referer user-agent x-cerebras-3rd-party-integration
    x-title
    """.split()  # noqa: SIM905 - a list of words reads best as words
)


def public(record: T, secrets: frozenset[str] = frozenset()) -> T:
    """The record without secrets; the same object if there are none. `secrets` are substituted variables, which are
    hidden everywhere."""
    api, request = record.api, record.request
    changes: dict[str, Any] = {}
    if api.url or api.settings:
        url = None if api.url is None else hide(public_address(api.url), secrets)
        settings = None if api.settings is None else _shown(api.settings, secrets)
        changes["api"] = msgspec.structs.replace(api, url=url, settings=settings)
    if request.headers or request.body:
        changes["request"] = public_request(request, secrets)
    if variants := getattr(record, "variants", ()):
        changes["variants"] = tuple(public_request(variant, secrets) for variant in variants)
    return msgspec.structs.replace(record, **changes) if changes else record


def public_request(request: R, secrets: frozenset[str] = frozenset()) -> R:
    headers = {name: hide(value, secrets) for name, value in _headers(request.headers).items()}
    return msgspec.structs.replace(request, headers=headers, body=_shown(request.body, secrets))


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value if name.lower() in SHOWN_HEADERS else REDACTED for name, value in headers.items()}


def _shown(fields: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    return {key: _value(key, value, secrets) for key, value in fields.items() if not is_secret(key)}


def _value(key: str, value: Any, secrets: frozenset[str]) -> Any:
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, dict):
        named = key.lower() == "headers" and all(isinstance(item, str) for item in value.values())
        return _headers(value) if named else _shown(value, secrets)
    return [_value(key, item, secrets) for item in value] if isinstance(value, list) else value
