"""The draft that every source changes the catalog through, and what a model inherits."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.catalog.draft import CatalogDraft, ProviderEntry, new_model, new_provider
from holdfast.core.catalog.listing import with_inherited
from holdfast.schema.agent import ProviderRequest
from holdfast.schema.catalog import (
    AisdkApi,
    AisdkModelApi,
    ModelApi,
    ModelCapabilities,
    ModelInfo,
    ModelLimit,
    ModelRequest,
    ModelTime,
    NativeApi,
    NativeModelApi,
    ProviderApi,
    ProviderInfo,
)

replace = msgspec.structs.replace
SDK = AisdkApi(package="p", url="http://p", settings={"a": 1, "b": 1})


def test_a_new_provider_and_a_new_model() -> None:
    """CAT-085, CAT-086: named by their ids, native, empty, active, without tools and limits."""
    assert new_provider("x") == ProviderInfo(
        id="x", name="x", api=NativeApi(settings={}), request=ProviderRequest(headers={}, body={})
    )
    assert new_model("x", "m") == ModelInfo(
        id="m",
        provider_id="x",
        name="m",
        api=NativeModelApi(id="m", settings={}),
        capabilities=ModelCapabilities(tools=False, input=(), output=()),
        request=ModelRequest(headers={}, body={}),
        variants=(),
        time=ModelTime(released=0),
        cost=(),
        status="active",
        enabled=True,
        limit=ModelLimit(context=0, output=0),
    )


def test_update_makes_what_is_missing_and_nothing_can_be_renamed() -> None:
    """CAT-088, CAT-086: the same model id may exist under two providers."""
    draft = CatalogDraft({})
    draft.models.update("x", "m", lambda model: replace(model, id="other", provider_id="other", name="M"))
    draft.providers.update("x", lambda provider: replace(provider, id="other", name="X"))
    draft.models.update("y", "m", lambda model: replace(model, name="Y's"))
    assert [(provider.id, provider.name) for provider in draft.providers.list()] == [("x", "X"), ("y", "y")]
    found = draft.models.get("x", "m")
    assert found is not None
    assert (found.id, found.provider_id, found.name) == ("m", "x", "M")
    other = draft.models.get("y", "m")
    assert other is not None
    assert other.name == "Y's"


def test_removing_or_looking_up_an_unknown_entry_raises_nothing() -> None:
    """CAT-088, CAT-092: nothing is raised for what is not there."""
    draft = CatalogDraft({})
    draft.models.update("x", "m", lambda model: model)
    draft.models.remove("x", "m")
    draft.models.remove("nobody", "m")
    assert (draft.models.get("x", "m"), draft.models.ids("x"), draft.models.get("nobody", "m")) == (None, (), None)
    draft.providers.remove("x")
    draft.providers.remove("nobody")
    assert (draft.providers.get("x"), draft.providers.list(), draft.models.ids("x")) == (None, (), ())


def test_an_address_among_the_options_moves_to_its_place() -> None:
    """CAT-088: only if it is a string; after every update."""
    draft = CatalogDraft({})
    body = {"baseURL": "http://h", "keep": 1}
    draft.providers.update("x", lambda provider: replace(provider, request=ProviderRequest(headers={}, body=body)))
    draft.models.update("x", "m", lambda model: replace(model, request=ModelRequest(headers={}, body={"baseURL": 3})))
    provider, model = draft.providers.get("x"), draft.models.get("x", "m")
    assert provider is not None
    assert model is not None
    assert (provider.api.url, provider.request.body) == ("http://h", {"keep": 1})
    assert (model.api.url, model.request.body) == (None, {"baseURL": 3})


def test_a_callback_changes_its_own_copy() -> None:
    """CAT-088, trap 16: what a removed plugin did to a shared record would otherwise survive it."""
    shared = ProviderEntry(new_provider("x"), models={"m": new_model("x", "m")})
    base = {"x": shared}
    draft = CatalogDraft(base)

    def spoil(model: ModelInfo) -> ModelInfo:
        model.request.body["spoilt"] = True
        return model

    def spoil_provider(provider: ProviderInfo) -> ProviderInfo:
        provider.request.headers["spoilt"] = "yes"
        return provider

    draft.models.update("x", "m", spoil)
    draft.providers.update("x", spoil_provider)
    again = CatalogDraft(base).models.get("x", "m")
    assert again is not None
    assert (again.request.body, shared.provider.request.headers) == ({}, {})
    copy = draft.copy()
    draft.models.update("x", "m", lambda model: replace(model, name="later"))
    copy.models.update("x", "n", lambda model: model)
    kept = copy.models.get("x", "m")
    assert kept is not None
    assert (kept.name, draft.models.ids("x")) == ("m", ("m",))


@pytest.mark.parametrize(
    ("above", "own", "expected"),
    [
        (
            SDK,
            NativeModelApi(id="w", settings={}),
            AisdkModelApi(id="w", package="p", url="http://p", settings={"a": 1, "b": 1}),
        ),
        (SDK, NativeModelApi(id="w", url="http://m", settings={}), NativeModelApi(id="w", url="http://m", settings={})),
        (SDK, NativeModelApi(id="w", settings={"s": 1}), NativeModelApi(id="w", settings={"s": 1})),
        (
            SDK,
            AisdkModelApi(id="w", package="q", settings={"b": 2}),
            AisdkModelApi(id="w", package="q", url="http://p", settings={"a": 1, "b": 2}),
        ),
        (
            SDK,
            AisdkModelApi(id="w", package="q", url="http://m"),
            AisdkModelApi(id="w", package="q", url="http://m", settings={"a": 1, "b": 1}),
        ),
        (
            NativeApi(url="http://n", settings={}),
            NativeModelApi(id="w", settings={}),
            NativeModelApi(id="w", url="http://n", settings={}),
        ),
        (
            NativeApi(url="http://n", settings={}),
            AisdkModelApi(id="w", package="q"),
            AisdkModelApi(id="w", package="q"),
        ),
    ],
)
def test_a_model_inherits_from_its_provider_when_it_is_read(
    above: ProviderApi, own: ModelApi, expected: ModelApi
) -> None:
    """CAT-089: on reading; what is stored stays as it is."""
    provider = replace(
        new_provider("x"), api=above, request=ProviderRequest(headers={"A": "1", "B": "1"}, body={"x": 1, "y": 1})
    )
    stored = replace(
        new_model("x", "m"), api=own, request=ModelRequest(headers={"B": "2"}, body={"y": {"z": 2}}, variant="v")
    )
    before = msgspec.json.encode((provider, stored))
    found = with_inherited(ProviderEntry(provider), stored)
    assert found.api == expected
    assert found.request == ModelRequest(headers={"A": "1", "B": "2"}, body={"x": 1, "y": {"z": 2}}, variant="v")
    assert msgspec.json.encode((provider, stored)) == before
