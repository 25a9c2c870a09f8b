"""Catalogs from real configuration files, with the environment under the test's control."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.catalog.catalog import Catalog, ResolvedModel
from holdfast.core.catalog.models_dev import ModelsDev
from holdfast.core.config.config import Config, load_config
from holdfast.core.config.trust import TRUST_EVERYTHING
from holdfast.llm.request import HttpOverlay, make_request
from holdfast.llm.route.auth import Auth, BoundAuth, origin_of
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.schema.agent import Agent, ProviderRequest, new_agent
from holdfast.schema.model import ModelRef

Configured = Callable[..., Config]
MakeCatalog = Callable[..., Catalog]


PACKAGE = "@ai-sdk/openai-compatible"


def ref(text: str, variant: str | None = None) -> ModelRef:
    provider, _, id = text.partition("/")
    return ModelRef(id=id, provider_id=provider, variant=variant)


def provider(package: str, models: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {
        "npm": package,
        "options": {"baseURL": "http://host/v1", "apiKey": "k", **options},
        "models": models or {"m": {}},
    }


def agent(model: ModelRef | None = None, headers: dict[str, str] | None = None, **body: Any) -> Agent:
    return msgspec.structs.replace(
        new_agent("build"), model=model, request=ProviderRequest(headers=headers or {}, body=body)
    )


def credential(route: Route) -> Auth:
    """What a route sends, which is bound to the route's own address."""
    if isinstance(route.auth, BoundAuth):
        assert route.auth.origin == origin_of(route.base_url)
        return route.auth.inner
    return route.auth


def body(found: ResolvedModel) -> dict[str, Any]:
    """What goes over the wire."""
    overlay = found.overlay("ses_1")
    http = HttpOverlay(body=overlay.body, headers=overlay.headers)
    request = make_request(prompt="hi", generation=overlay.generation, provider_options=overlay.options, http=http)
    sent: dict[str, Any] = msgspec.json.decode(prepare(found.model, request).body)
    return sent


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """The configuration of a user with these documents, low to high."""

    count = itertools.count()

    def make(*documents: dict[str, Any]) -> Config:
        root = folder = tmp_path / f"project{next(count)}"
        for index, document in enumerate(documents):
            folder = folder / f"level{index}"
            folder.mkdir(parents=True)
            (folder / "opencode.json").write_text(json.dumps(document), encoding="utf-8")
        found = load_config(folder, root, {"HOME": str(tmp_path / "home")}, trust=TRUST_EVERYTHING)
        return Config((entry.replace(origin="user") for entry in found.entries()), found.diagnostics())

    return make


@pytest.fixture
def make_catalog(configured: Configured, tmp_path: Path) -> MakeCatalog:
    """A catalog over documents; `data` stands for what models.dev says, and is nothing unless given."""

    count = itertools.count()

    def make(
        *documents: dict[str, Any],
        environment: dict[str, str] | None = None,
        data: dict[str, Any] | None = None,
        **more: Any,
    ) -> Catalog:
        path = tmp_path / f"models{next(count)}.json"
        path.write_text(json.dumps(data or {}), encoding="utf-8")
        environment = environment or {}
        models = ModelsDev(None, {**environment, "OPENCODE_MODELS_PATH": str(path)})
        return Catalog(configured(*documents), environment, models=models, **more)

    return make
