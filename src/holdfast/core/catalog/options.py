"""Splits options in AI SDK format into the catalog's three domains, for all sources.

Invariants
- Generation Controls, Model Request Options and compatibility body fields stay separate afterwards.
- A body field is passed on unchanged, unless a protocol owns its key: then it is moved or dropped.
- None of the three contains a credential."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.core.catalog.packages import OPENAI, snake_case
from holdfast.llm.model import OWNED_FIELDS, deep_merge
from holdfast.llm.request import Generation
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.catalog.packages import Dialect


class Overlay(Frozen):
    """What one layer (provider, model, variant, agent) adds to a request. The value None removes a lower layer's
    value."""

    headers: Mapping[str, str | None] = {}
    generation: Mapping[str, Any] = {}
    options: Mapping[str, Mapping[str, Any]] = {}
    """By namespace."""
    body: Mapping[str, Any] = {}


class Partition(NamedTuple):
    overlay: Overlay
    settings: dict[str, Any]
    """Options of the SDK's constructor, including credentials; never sent as they are."""
    problems: tuple[str, ...]


def partition(
    body: Mapping[str, Any],
    dialect: Dialect,
    headers: Mapping[str, str | None] | None = None,
    *,
    provider: bool = False,
) -> Partition:
    """With `provider`, the body holds the options of a provider, including those of the SDK's constructor."""
    intake = _Partitioner(dialect, provider=provider)
    intake.take(body)
    own = {**intake.headers, **(headers or {})}
    options = {dialect.namespace: intake.options} if intake.options else {}
    overlay = Overlay(own, intake.generation, options, intake.body)
    return Partition(overlay, intake.settings, tuple(intake.problems))


def merge(*layers: Overlay) -> Overlay:
    """Merge layers, lowest priority first. Values set to None are removed."""
    return Overlay(
        headers=_present(merge_headers(*(layer.headers for layer in layers))),
        generation=_present(deep_merge(*(layer.generation for layer in layers))),
        options=_present(deep_merge(*(layer.options for layer in layers))),
        body=_present(deep_merge(*(layer.body for layer in layers))),
    )


def merge_headers(*layers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Merge headers case-insensitively; the last spelling is kept."""
    merged: dict[str, tuple[str, str | None]] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = (name, value)
    return dict(merged.values())


class _Partitioner:
    def __init__(self, dialect: Dialect, *, provider: bool) -> None:
        self._dialect = dialect
        self._provider = provider
        self.headers: dict[str, str | None] = {}
        self.generation: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.body: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.problems: list[str] = []

    def take(self, fields: Mapping[str, Any]) -> None:
        for key, value in fields.items():
            if key in CREDENTIALS or (self._provider and key in SETTINGS):
                self.settings[key] = value
            elif self._provider and key in ORGANIZATION:
                self._organization(key, value)
            elif self._provider and key in ("headers", "body") and isinstance(value, dict):
                self.headers.update(value) if key == "headers" else self.take(value)
            elif (control := _CONTROLS.get(key)) is not None:
                self._control(key, control, value)
            elif (option := self._dialect.names.get(key)) is not None:
                self.options[option] = value
            elif (known := self._dialect.nested.get(key)) is not None and _within(value, known):
                self.options.update({known[name]: item for name, item in value.items()})
            elif key in WRAPPERS and isinstance(value, dict):
                self.take(value)
            elif key in OWNED_FIELDS:
                self.problems.append(f"{key} is set by the protocol itself; ignored")
            else:
                self.body[key] = value

    def _organization(self, key: str, value: Any) -> None:
        """OpenAI expects a header; other providers use it to locate their service."""
        if self._dialect is OPENAI and isinstance(value, str):
            self.headers[ORGANIZATION[key]] = value
        else:
            self.settings[key] = value

    def _control(self, key: str, control: str, value: Any) -> None:
        if control == "stop" and isinstance(value, str):
            value = (value,)
        try:
            self.generation[control] = msgspec.convert(value, _types()[control])
        except msgspec.ValidationError as error:
            self.problems.append(f"{key}: {error}; ignored")


@cache
def _types() -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(Generation)}


def _within(value: Any, known: Mapping[str, str]) -> bool:
    return isinstance(value, dict) and bool(value) and value.keys() <= known.keys()


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _present(value) if isinstance(value, dict) else value for key, value in fields.items() if value is not None
    }


CREDENTIALS = frozenset({"apiKey", "authToken", "accessKeyId", "secretAccessKey", "sessionToken"})
SETTINGS = frozenset(
    """
    apiVersion baseURL chunkTimeout compatibility credentialProvider endpoint enterpriseUrl fetch googleAuthOptions
    includeUsage litellmProxy location name profile queryParams region resourceName setCacheKey
    supportsStructuredOutputs timeout useCompletionUrls useDeploymentBasedUrls
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
ORGANIZATION = {"organization": "OpenAI-Organization", "project": "OpenAI-Project"}
# Objects in which protocols keep controls; their fields count as top-level ones.
WRAPPERS = frozenset({"generationConfig", "inferenceConfig"})

_CAMEL = "maxTokens temperature topP topK frequencyPenalty presencePenalty seed stop"
_CONTROLS: dict[str, str] = {
    **{spelling: snake_case(name) for name in _CAMEL.split() for spelling in (name, snake_case(name))},
    **dict.fromkeys(
        ("maxOutputTokens", "max_output_tokens", "max_completion_tokens", "maxCompletionTokens"), "max_tokens"
    ),
    **dict.fromkeys(("stopSequences", "stop_sequences"), "stop"),
}
