"""Records as clients may see them: without keys, and without what is likely to be one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.llm.errors import REDACTED, redact_url
from holdfast.schema.catalog import ModelInfo, ProviderInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.schema.agent import ProviderRequest

T = TypeVar("T", ProviderInfo, ModelInfo)

# A header can hold anything, so only these are shown.
SHOWN_HEADERS = frozenset(
    """
    accept anthropic-beta anthropic-version content-type http-referer user-agent x-cerebras-3rd-party-integration
    x-title
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_SECRET = re.compile(
    r"auth(?!ors?$)|(?:api|access|private)[-_]?key|secret|password|cookie|credential|token(?!s)", re.IGNORECASE
)
_USER = re.compile(r"(?<=//)[^/@]*@")


def public(record: T) -> T:
    api, request = record.api, record.request
    changes: dict[str, Any] = {}
    if api.url or api.settings:
        settings = None if api.settings is None else _shown(api.settings)
        changes["api"] = msgspec.structs.replace(api, url=_address(api.url), settings=settings)
    if request.headers or request.body:
        headers, body = _headers(request.headers), _shown(request.body)
        changes["request"] = msgspec.structs.replace(request, headers=headers, body=body)
    if isinstance(record, ModelInfo):
        changes["variants"] = tuple(
            msgspec.structs.replace(variant, headers=_headers(variant.headers), body=_shown(variant.body))
            for variant in record.variants
        )
    return msgspec.structs.replace(record, **changes) if changes else record


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value if name.lower() in SHOWN_HEADERS else REDACTED for name, value in headers.items()}


def public_request(request: ProviderRequest) -> ProviderRequest:
    return msgspec.structs.replace(request, headers=_headers(request.headers), body=_shown(request.body))


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(key, value) for key, value in fields.items() if not _SECRET.search(key)}


def _value(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        named = key.lower() == "headers" and all(isinstance(item, str) for item in value.values())
        return _headers(value) if named else _shown(value)
    return [_value(key, item) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=1024)
def _address(url: str | None) -> str | None:
    return None if url is None else redact_url(_USER.sub("", url))
