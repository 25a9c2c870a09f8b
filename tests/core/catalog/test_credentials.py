"""Which credential a model is called with, and whether there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.core.catalog.conftest import PACKAGE, MakeCatalog, body, credential, provider, ref

from holdfast.core.clock import Ids
from holdfast.core.credential.store import CredentialStore, KeyValue, OAuthValue
from holdfast.llm.route.auth import KeyAuth, NoAuth


@pytest.fixture
def store(tmp_path: Path, ids: Ids, clock: ManualClock) -> CredentialStore:
    return CredentialStore(tmp_path / "credentials.json", ids, clock)


@pytest.mark.anyio
async def test_a_stored_key_before_a_configured_one_before_the_environments(
    make_catalog: MakeCatalog, store: CredentialStore
) -> None:
    """CAT-112, CAT-091, CAT-131, trap 8: looked up each time; its metadata is sent along, the key never is."""
    data = {"groq": {"npm": "@ai-sdk/groq", "env": ["GROQ_REGION", "GROQ_API_KEY"], "models": {"m": {}}}}
    environment = {"GROQ_REGION": "eu"}
    catalog = make_catalog(data=data, environment=environment, credentials=store)
    environment["GROQ_API_KEY"] = "from env"
    found = catalog.resolve("s", ref("groq/m"))
    assert (found.model.route.base_url, credential(found.model.route)) == (
        "https://api.groq.com/openai/v1",
        KeyAuth("from env"),
    )
    configured = make_catalog(
        {"provider": {"groq": {"options": {"apiKey": "mine"}}}}, data=data, environment=environment, credentials=store
    )
    assert credential(configured.resolve("s", ref("groq/m")).model.route) == KeyAuth("mine")
    await store.create("groq", KeyValue(key="stored", metadata={"tier": "gold", "temperature": 0.5}))
    found = configured.resolve("s", ref("groq/m"))
    assert credential(found.model.route) == KeyAuth("stored")
    sent = body(found)
    assert (sent["tier"], sent["temperature"]) == ("gold", 0.5)
    assert not {"apiKey", "mine", "stored"} & {*sent, *map(str, sent.values())}
    assert "stored" not in repr(found)


@pytest.mark.anyio
async def test_an_oauth_credential_is_a_bearer_token(make_catalog: MakeCatalog, store: CredentialStore) -> None:
    """CAT-112, trap 10: also where a key has its own header; its metadata is never sent."""
    far = 10**15
    data = {"anthropic": {"npm": "@ai-sdk/anthropic", "env": ["A_KEY"], "models": {"m": {}}}}
    catalog = make_catalog(data=data, credentials=store)
    assert catalog.providers() == ()
    value = OAuthValue(method_id="x", access="at", refresh="rt", expires=far, metadata={"account": "secret-account"})
    await store.create("anthropic", value)
    found = catalog.resolve("s", ref("anthropic/m"))
    assert found.model.route.auth.headers(found.model.route.base_url, {}, ()) == {"authorization": "Bearer at"}
    assert "account" not in body(found)
    assert "at" in found.model.route.auth.secrets()
    await catalog.close()


def test_aws_finds_its_credentials_itself(make_catalog: MakeCatalog) -> None:
    """CAT-119: whoever asks for a Bedrock model gets it; half a signature is not taken for a key."""
    data = {"amazon-bedrock": {"npm": "@ai-sdk/amazon-bedrock", "env": ["AWS_ACCESS_KEY_ID"], "models": {"m": {}}}}
    catalog = make_catalog(data=data)
    assert catalog.default() is None
    assert not isinstance(credential(catalog.resolve("s", ref("amazon-bedrock/m")).model.route), KeyAuth | NoAuth)
    keyed = make_catalog(data=data, environment={"AWS_ACCESS_KEY_ID": "AKIA", "AWS_REGION": "eu-west-1"})
    route = keyed.resolve("s", ref("amazon-bedrock/m")).model.route
    assert "eu-west-1" in route.base_url
    assert not isinstance(credential(route), KeyAuth)


def test_an_address_that_is_none_hides_only_its_own_provider(make_catalog: MakeCatalog) -> None:
    """CAT-091, CAT-092: whoever lists models is not told of a mistake in one file by a failure of all."""
    odd = {"npm": PACKAGE, "env": ["NOT_SET_KEY"], "options": {"baseURL": "http://[oops"}, "models": {"m": {}}}
    catalog = make_catalog({"provider": {"odd": odd, "p": provider(PACKAGE)}})
    assert [(model.provider_id, model.id) for model in catalog.models()] == [("p", "m")]
    assert [found.id for found in catalog.providers()] == ["p"]


@pytest.mark.parametrize(
    ("extra", "available"),
    [
        ({}, True),
        ({"env": ["K"]}, False),
        ({"env": ["K"], "request": {"body": {"apiKey": "k"}}}, True),
        ({"env": ["SET"]}, True),
        ({"env": ["EMPTY"]}, False),
    ],
)
def test_a_provider_is_available_with_a_key_a_connection_or_no_integration(
    make_catalog: MakeCatalog, extra: dict[str, Any], available: bool
) -> None:
    """CAT-091, CAT-092, CAT-127, trap 9: a key, a connection, or no integration at all."""
    entry = {"api": {"type": "native", "url": "http://far"}, "models": {"m": {}, "off": {"disabled": True}}, **extra}
    catalog = make_catalog({"providers": {"p": entry}}, environment={"SET": "x", "EMPTY": ""})
    assert [model.id for model in catalog.models()] == (["m"] if available else [])
    assert [found.id for found in catalog.providers()] == (["p"] if available else [])
    assert (catalog.model("p", "gone"), catalog.provider("gone")) == (None, None)
