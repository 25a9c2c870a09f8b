"""The editable catalog. All sources, including plugins, change the catalog through it.

Invariants
- A callback gets its own copy and cannot change ids: shared records are never changed.
- A copy of a draft is independent of the original.
- A models.dev model is decoded on first use, and once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from holdfast.schema.agent import ProviderRequest
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    ModelCapabilities,
    ModelInfo,
    ModelLimit,
    ModelRequest,
    ModelTime,
    NativeApi,
    NativeModelApi,
    ProviderInfo,
)
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holdfast.core.catalog.dev_record import DevReasoning
    from holdfast.schema.catalog import ModelApi
    from holdfast.schema.model import ModelRef

T = TypeVar("T", ProviderInfo, ModelInfo)


class ModelFacts(Frozen):
    """Facts from models.dev that the public record does not have."""

    sampling: bool | None = None
    replays_reasoning: bool = False
    reasoning: tuple[DevReasoning, ...] = ()


NO_FACTS = ModelFacts()


class LazyModel(Protocol):
    """A models.dev model that is decoded on first use."""

    def load(self) -> ModelInfo | None:
        """The model, or None if its record is invalid."""

    def facts(self) -> ModelFacts: ...


class ProviderEntry:
    """A provider and its models. `models` holds created and changed models, and None for removed ones."""

    __slots__ = ("_lazy", "models", "provider")

    def __init__(
        self,
        provider: ProviderInfo,
        lazy: Mapping[str, LazyModel] | None = None,
        models: dict[str, ModelInfo | None] | None = None,
    ) -> None:
        self.provider = provider
        self.models = models or {}
        self._lazy = lazy or {}

    def copy(self) -> ProviderEntry:
        return ProviderEntry(self.provider, self._lazy, dict(self.models))

    def model(self, id: str) -> ModelInfo | None:
        if id in self.models:
            return self.models[id]
        lazy = self._lazy.get(id)
        return lazy.load() if lazy else None

    def facts(self, id: str) -> ModelFacts:
        lazy = self._lazy.get(id)
        return lazy.facts() if lazy else NO_FACTS

    def ids(self) -> tuple[str, ...]:
        own = (id for id in self.models if id not in self._lazy)
        return tuple(id for id in (*self._lazy, *own) if self.models.get(id, True) is not None)

    def all(self) -> Iterator[ModelInfo]:
        for id in self.ids():
            if (model := self.model(id)) is not None:
                yield model


class CatalogDraft:
    def __init__(self, base: Mapping[str, ProviderEntry], default: ModelRef | None = None) -> None:
        self._entries = dict(base)
        self._own: set[str] = set()
        self.providers = Providers(self)
        self.models = Models(self)
        self.default = default

    def copy(self) -> CatalogDraft:
        self._own.clear()  # both drafts must copy entries before changing them
        return CatalogDraft(self._entries, self.default)

    def entries(self) -> Mapping[str, ProviderEntry]:
        return self._entries

    def find(self, provider_id: str) -> ProviderEntry | None:
        return self._entries.get(provider_id)

    def own(self, provider_id: str) -> ProviderEntry:
        """The entry for changing: created if missing, copied if shared."""
        entry = self._entries.get(provider_id)
        if entry is None:
            entry = self._entries[provider_id] = ProviderEntry(new_provider(provider_id))
        elif provider_id not in self._own:
            entry = self._entries[provider_id] = entry.copy()
        self._own.add(provider_id)
        return entry

    def drop(self, provider_id: str) -> None:
        self._entries.pop(provider_id, None)


class Providers:
    def __init__(self, draft: CatalogDraft) -> None:
        self._draft = draft

    def list(self) -> tuple[ProviderInfo, ...]:
        return tuple(entry.provider for entry in self._draft.entries().values())

    def get(self, id: str) -> ProviderInfo | None:
        entry = self._draft.find(id)
        return entry.provider if entry else None

    def update(self, id: str, change: Callable[[ProviderInfo], ProviderInfo]) -> None:
        entry = self._draft.own(id)
        changed = change(copy.deepcopy(entry.provider))
        entry.provider = _with_address(msgspec.structs.replace(changed, id=id))

    def remove(self, id: str) -> None:
        self._draft.drop(id)


class Models:
    def __init__(self, draft: CatalogDraft) -> None:
        self._draft = draft

    def ids(self, provider_id: str) -> tuple[str, ...]:
        entry = self._draft.find(provider_id)
        return entry.ids() if entry else ()

    def get(self, provider_id: str, id: str) -> ModelInfo | None:
        entry = self._draft.find(provider_id)
        return entry.model(id) if entry else None

    def update(self, provider_id: str, id: str, change: Callable[[ModelInfo], ModelInfo]) -> None:
        entry = self._draft.own(provider_id)
        changed = change(copy.deepcopy(entry.model(id) or new_model(provider_id, id)))
        entry.models[id] = _with_address(msgspec.structs.replace(changed, id=id, provider_id=provider_id))

    def remove(self, provider_id: str, id: str) -> None:
        if self._draft.find(provider_id) is not None:
            self._draft.own(provider_id).models[id] = None


def new_provider(id: str) -> ProviderInfo:
    return ProviderInfo(id=id, name=id, api=NativeApi(settings={}), request=ProviderRequest(headers={}, body={}))


def new_model(provider_id: str, id: str) -> ModelInfo:
    return ModelInfo(
        id=id,
        provider_id=provider_id,
        name=id,
        api=NativeModelApi(id=id, settings={}),
        capabilities=ModelCapabilities(tools=False, input=(), output=()),
        request=ModelRequest(headers={}, body={}),
        variants=(),
        time=ModelTime(released=0),
        cost=(),
        status="active",
        enabled=True,
        limit=ModelLimit(context=0, output=0),
    )


def inherited_request(provider: ProviderInfo, request: ModelRequest) -> ModelRequest:
    above = provider.request
    if not (above.headers or above.body):
        return request
    return ModelRequest(
        headers={**above.headers, **request.headers}, body={**above.body, **request.body}, variant=request.variant
    )


def inherited_api(provider: ProviderInfo, api: ModelApi) -> ModelApi:
    above = provider.api
    if isinstance(api, NativeModelApi):
        if api.url or api.settings:
            return api
        if isinstance(above, AisdkApi):
            return AisdkModelApi(id=api.id, package=above.package, url=above.url, settings=above.settings)
        return NativeModelApi(id=api.id, url=above.url, settings=above.settings)
    if isinstance(above, NativeApi):
        return api
    settings = {**(above.settings or {}), **(api.settings or {})} or None
    return msgspec.structs.replace(api, url=api.url or above.url, settings=settings)


def _with_address(record: T) -> T:
    """Moves `baseURL` from the SDK options to the API's `url`."""
    url = record.request.body.get("baseURL")
    if not isinstance(url, str):
        return record
    body = {key: value for key, value in record.request.body.items() if key != "baseURL"}
    return msgspec.structs.replace(
        record,
        api=msgspec.structs.replace(record.api, url=url),
        request=msgspec.structs.replace(record.request, body=body),
    )
