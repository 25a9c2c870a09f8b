"""The catalog while it is being put together: every source, plugins included, changes it through this.

Invariants
- A callback gets its own copy and cannot rename what it was given: shared records are never changed.
- A copy of a draft and the draft itself no longer see each other's changes.
- A model of models.dev is decoded when somebody looks at it, and once."""

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


class Facts(Frozen):
    """What models.dev knows of a model beyond its public record."""

    sampling: bool | None = None
    replays_reasoning: bool = False
    reasoning: tuple[DevReasoning, ...] = ()


NO_FACTS = Facts()


class Listed(Protocol):
    """A model of models.dev."""

    def load(self) -> ModelInfo | None:
        """None when it turns out to be invalid."""

    def facts(self) -> Facts: ...


class Shelf:
    """A provider and its models. `models` holds what somebody made or changed, and None for one that was removed."""

    __slots__ = ("_listed", "models", "provider")

    def __init__(
        self,
        provider: ProviderInfo,
        listed: Mapping[str, Listed] | None = None,
        models: dict[str, ModelInfo | None] | None = None,
    ) -> None:
        self.provider = provider
        self.models = models or {}
        self._listed = listed or {}

    def copy(self) -> Shelf:
        return Shelf(self.provider, self._listed, dict(self.models))

    def model(self, id: str) -> ModelInfo | None:
        if id in self.models:
            return self.models[id]
        listed = self._listed.get(id)
        return listed.load() if listed else None

    def facts(self, id: str) -> Facts:
        listed = self._listed.get(id)
        return listed.facts() if listed else NO_FACTS

    def ids(self) -> tuple[str, ...]:
        own = (id for id in self.models if id not in self._listed)
        return tuple(id for id in (*self._listed, *own) if self.models.get(id, True) is not None)

    def all(self) -> Iterator[ModelInfo]:
        for id in self.ids():
            if (model := self.model(id)) is not None:
                yield model


class Draft:
    def __init__(self, base: Mapping[str, Shelf], default: ModelRef | None = None) -> None:
        self._shelves = dict(base)
        self._own: set[str] = set()
        self.providers = Providers(self)
        self.models = Models(self)
        self.default = default

    def copy(self) -> Draft:
        self._own.clear()  # from now on both have to copy what they change
        return Draft(self._shelves, self.default)

    def shelves(self) -> Mapping[str, Shelf]:
        return self._shelves

    def find(self, provider_id: str) -> Shelf | None:
        return self._shelves.get(provider_id)

    def own(self, provider_id: str) -> Shelf:
        """The shelf, for changing: made if there is none, a copy if it is shared."""
        shelf = self._shelves.get(provider_id)
        if shelf is None:
            shelf = self._shelves[provider_id] = Shelf(new_provider(provider_id))
        elif provider_id not in self._own:
            shelf = self._shelves[provider_id] = shelf.copy()
        self._own.add(provider_id)
        return shelf

    def drop(self, provider_id: str) -> None:
        self._shelves.pop(provider_id, None)


class Providers:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def list(self) -> tuple[ProviderInfo, ...]:
        return tuple(shelf.provider for shelf in self._draft.shelves().values())

    def get(self, id: str) -> ProviderInfo | None:
        shelf = self._draft.find(id)
        return shelf.provider if shelf else None

    def update(self, id: str, change: Callable[[ProviderInfo], ProviderInfo]) -> None:
        shelf = self._draft.own(id)
        changed = change(copy.deepcopy(shelf.provider))
        shelf.provider = _with_address(msgspec.structs.replace(changed, id=id))

    def remove(self, id: str) -> None:
        self._draft.drop(id)


class Models:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def ids(self, provider_id: str) -> tuple[str, ...]:
        shelf = self._draft.find(provider_id)
        return shelf.ids() if shelf else ()

    def get(self, provider_id: str, id: str) -> ModelInfo | None:
        shelf = self._draft.find(provider_id)
        return shelf.model(id) if shelf else None

    def update(self, provider_id: str, id: str, change: Callable[[ModelInfo], ModelInfo]) -> None:
        shelf = self._draft.own(provider_id)
        changed = change(copy.deepcopy(shelf.model(id) or new_model(provider_id, id)))
        shelf.models[id] = _with_address(msgspec.structs.replace(changed, id=id, provider_id=provider_id))

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
    """SDK options hold the address among the rest; here it has its own place."""
    url = record.request.body.get("baseURL")
    if not isinstance(url, str):
        return record
    body = {key: value for key, value in record.request.body.items() if key != "baseURL"}
    return msgspec.structs.replace(
        record,
        api=msgspec.structs.replace(record.api, url=url),
        request=msgspec.structs.replace(record.request, body=body),
    )
