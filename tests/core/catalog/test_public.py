"""What clients see of providers and models: the contract's shape, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract import either_contract, problems, schemas
from tests.core.catalog.conftest import PACKAGE, MakeCatalog, ref

from holdfast.core.catalog.catalog import Catalog
from holdfast.core.catalog.models_dev import BUNDLED, ModelsDev, validated
from holdfast.core.config.config import Config, load_config
from holdfast.llm.errors import REDACTED
from holdfast.schema.catalog import IntegrationInfo, ModelInfo, ProviderInfo

SECRETS = ("sk-1", "tok-2", "hdr-3", "usr-4", "qry-5", "var-6", "deep-7", "aws-8")


def test_published_records_hold_no_key_and_no_secret_header(make_catalog: MakeCatalog) -> None:
    """API-143, CAT-112: neither a key nor a header that may hold one; what is harmless stays."""
    entry = {
        "npm": PACKAGE,
        "api": "https://usr-4:x@host/v1?api_key=qry-5&v=1",
        "options": {
            "apiKey": "sk-1",
            "authToken": "tok-2",
            "secretAccessKey": "aws-8",
            "timeout": 5,
            "maxTokens": 9,
            "headers": {"Authorization": "hdr-3", "X-Corp": "hdr-3", "X-Title": "mine"},
            "body": {"nested": {"password": "deep-7", "keep": 1}},
        },
        "models": {"m": {"options": {"apiKey": "sk-1"}, "variants": {"v": {"token": "var-6", "effort": "low"}}}},
    }
    catalog = make_catalog({"provider": {"p": entry}})
    found = catalog.provider("p")
    lists = (catalog.providers(), catalog.models(), catalog.integrations.list())
    views = (*lists, found, catalog.model("p", "m"))
    shown = json.dumps(msgspec.to_builtins(views))
    assert [secret for secret in SECRETS if secret in shown] == []
    assert found is not None
    assert found.request.headers == {"Authorization": REDACTED, "X-Corp": REDACTED, "X-Title": "mine"}
    assert found.request.body["maxTokens"] == 9
    assert found.request.body["nested"] == {"keep": 1}
    assert found.api.url is not None
    assert found.api.url.startswith("https://host/v1?")


def test_the_value_of_a_substituted_variable_is_never_published(tmp_path: Path) -> None:
    """CAT-033, API-143: wherever it was put in, also where nothing looks like a secret."""
    entry = {
        "npm": PACKAGE,
        "options": {"baseURL": "https://host/{env:PATH_KEY}/v1", "apiKey": "k", "plain": "x-{env:PATH_KEY}", "n": 1},
        "models": {
            "m": {"options": {"deep": ["{env:PATH_KEY}"]}, "variants": {"v": {"also": "{env:PATH_KEY}"}}},
            "other": {},
        },
    }
    (tmp_path / "opencode.json").write_text(json.dumps({"provider": {"p": entry}}))
    environment = {"HOME": str(tmp_path), "OPENCODE_CONFIG_DIR": str(tmp_path), "PATH_KEY": "s3cret-value"}
    catalog = Catalog(load_config(tmp_path, tmp_path, environment), environment)
    found = catalog.provider("p")
    assert found is not None
    assert (found.api.url, found.request.body) == ("https://host/***/v1", {"plain": "x-***", "n": 1})
    views = (catalog.providers(), catalog.models(), found, catalog.model("p", "m"), catalog.model("p", "other"))
    assert "s3cret" not in json.dumps(msgspec.to_builtins(views))
    assert catalog.resolve("s", ref("p/other")).model.route.base_url == "https://host/s3cret-value/v1"


def test_a_list_and_a_single_model_show_the_same(make_catalog: MakeCatalog) -> None:
    """CAT-089, API-143: also a model whose own settings are all hidden inherits nothing in their place."""
    api = {"type": "native", "settings": {"apiKey": "k"}}
    models = {"plain": {}, "own": {"api": api}, "varied": {"variants": [{"id": "v", "body": {"token": "t"}}]}}
    provider = {"api": {"type": "aisdk", "package": PACKAGE, "url": "http://u:p@h"}, "models": models}
    catalog = make_catalog({"providers": {"p": provider}})
    assert {model.id: model for model in catalog.models()} == {id: catalog.model("p", id) for id in models}
    assert [type(model.api).__name__ for model in catalog.models()] == [
        "NativeModelApi",
        "AisdkModelApi",
        "AisdkModelApi",
    ]


@either_contract
def test_records_have_the_contracts_shape(contract: str) -> None:
    """API-140, CAT-085, CAT-086: exactly its fields, required ones always."""
    known = schemas(contract)
    catalog = Catalog(Config(), {"ANTHROPIC_API_KEY": "k"})
    samples: list[tuple[str, Any, type]] = [
        ("ProviderV2Info", catalog.providers()[0], ProviderInfo),
        ("ModelV2Info", catalog.models()[0], ModelInfo),
        ("ModelV2Info", catalog.models()[-1], ModelInfo),
        ("IntegrationInfo", catalog.integrations.list()[0], IntegrationInfo),
    ]
    for name, record, kind in samples:
        value = json.loads(msgspec.json.encode(record))
        assert list(problems(known, value, {"$ref": name})) == []
        assert msgspec.convert(value, kind) == record


def test_the_snapshot_that_comes_along_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    """CAT-098, CAT-097: nothing in it is invalid, and every model of it has what a choice needs."""
    data = BUNDLED.read_bytes()
    assert json.loads(validated(data)) == json.loads(data)
    assert caplog.text == ""
    environment = {name: "k" for provider in ModelsDev(None, {}).providers().values() for name in provider.env}
    models = Catalog(Config(), environment).models()
    assert {"anthropic", "openai", "google", "amazon-bedrock", "azure", "openrouter", "xai", "groq", "mistral"} <= {
        model.provider_id for model in models
    }
    for model in models:
        assert model.time.released > 0, model.id
        assert model.limit.context >= model.limit.output > 0, model.id
        assert "text" in model.capabilities.output, model.id


def test_the_snapshot_is_where_the_package_is() -> None:
    """CAT-097."""
    import holdfast.core.catalog

    assert Path(holdfast.core.catalog.__path__[0]) / "models.json" == BUNDLED
