"""Choosing the model of a turn: what is asked for is used or refused, never replaced."""

from __future__ import annotations

import pytest

from holdfast.core.catalog.catalog import FIRST_BYTE_SECONDS, Catalog, parse_model
from holdfast.core.config.config import Config, ModelConfig, ProviderConfig, ProviderOptions
from holdfast.core.session.errors import ModelNotSelected, ModelUnavailable, SessionError
from holdfast.llm.route.auth import KeyAuth
from holdfast.schema.model import ModelRef

MINE = ProviderConfig(
    npm="@ai-sdk/openai-compatible",
    options=ProviderOptions(base_url="http://host/v1", api_key="sk-mine", headers={"x-a": "1"}),
    models={"m": ModelConfig(id="real-m"), "n": ModelConfig()},
)


def catalog(
    environment: dict[str, str] | None = None, model: str | None = None, **providers: ProviderConfig
) -> Catalog:
    return Catalog(Config(model=model, providers=providers), environment or {})


def ref(text: str, variant: str | None = None) -> ModelRef:
    provider, _, id = text.partition("/")
    return ModelRef(id=id, provider_id=provider, variant=variant)


def test_a_configured_model_becomes_a_route() -> None:
    """SES-095: with the provider's address, key and headers, and the model's own id for the wire."""
    found = catalog(mine=MINE).resolve("ses_1", ref("mine/m"))
    route = found.model.route
    assert (found.ref, found.model.id) == (ref("mine/m"), "real-m")
    assert route.url("real-m", None) == "http://host/v1/chat/completions"
    assert (route.auth, route.headers) == (KeyAuth("sk-mine"), (("x-a", "1"),))
    assert catalog(mine=MINE).resolve("ses_1", ref("mine/n", "default")).model.id == "n"


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ("mine/other", "mine/other"),
        ("unknown/m", "unknown/m"),
        ("openai/gpt-5-mini", "OPENAI_API_KEY"),
        ("demo/nothing", "echo"),
        ("homeless/m", "baseURL"),
    ],
)
def test_what_is_asked_for_and_not_there_is_refused(chosen: str, why: str) -> None:
    """SES-095: with provider and model in the error and a reason to act on; a default is no substitute."""
    models = {"m": ModelConfig()}
    found = catalog(
        model="mine/m",
        mine=MINE,
        homeless=ProviderConfig(models=models),
    )
    with pytest.raises(ModelUnavailable) as refused:
        found.resolve("ses_1", ref(chosen))
    assert (refused.value.provider_id, refused.value.model_id) == tuple(chosen.split("/"))
    assert refused.value.tag == "SessionRunnerModel.ModelUnavailableError"
    assert why in str(refused.value)


def test_a_provider_whose_protocol_we_do_not_speak_is_refused() -> None:
    """SES-095: before anything is sent, naming the package."""
    foreign = ProviderConfig(npm="@ai-sdk/nobody-speaks-this", options=MINE.options, models=MINE.models)
    with pytest.raises(SessionError, match="@ai-sdk/nobody-speaks-this"):
        catalog(foreign=foreign).resolve("ses_1", ref("foreign/m"))


def test_a_variant_that_the_model_lacks_is_refused() -> None:
    """SES-095: `default` and none are the same; any other must exist."""
    assert catalog(mine=MINE).resolve("ses_1", ref("mine/m", "default"))
    with pytest.raises(SessionError, match="high"):
        catalog(mine=MINE).resolve("ses_1", ref("mine/m", "high"))


def test_nothing_chosen_and_nothing_there() -> None:
    """SES-095: names the Session and what to do."""
    with pytest.raises(ModelNotSelected) as refused:
        catalog().resolve("ses_1", None)
    assert refused.value.session_id == "ses_1"
    assert refused.value.tag == "SessionRunnerModel.ModelNotSelectedError"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (catalog({"OPENAI_API_KEY": "k"}, model="mine/n", mine=MINE), "mine/n"),
        (catalog({"OPENAI_API_KEY": "k"}, mine=MINE), "mine/m"),
        (catalog({"OPENAI_API_KEY": "k"}), "openai/gpt-5-mini"),
        (catalog({"GROQ_API_KEY": "k", "OPENAI_API_KEY": ""}), "groq/llama-3.3-70b-versatile"),
    ],
    ids=["configured", "first provider", "key", "empty key"],
)
def test_the_default(found: Catalog, expected: str) -> None:
    """SES-095: the configured model, else the first that is available; the same choice is then resolved."""
    assert found.default() == ref(expected)
    assert found.resolve("ses_1", None).ref == ref(expected)


def test_a_bad_default_is_an_error_not_another_model() -> None:
    """SES-095."""
    for model in ("gone/m", "mine/gone", "nonsense"):
        with pytest.raises(ModelUnavailable):
            catalog(model=model, mine=MINE).resolve("ses_1", None)


def test_a_configured_provider_falls_back_on_what_is_known_of_it() -> None:
    """SES-095: only the key or only the address may be overridden."""
    known = catalog({"GROQ_API_KEY": "from env"}, groq=ProviderConfig(models={"x": ModelConfig()}))
    route = known.resolve("ses_1", ref("groq/x")).model.route
    assert (route.base_url, route.auth) == ("https://api.groq.com/openai/v1", KeyAuth("from env"))
    own = ProviderConfig(options=ProviderOptions(base_url="http://proxy", api_key="mine"))
    route = catalog({"GROQ_API_KEY": "from env"}, groq=own).resolve("ses_1", ref("groq/anything")).model.route
    assert (route.base_url, route.auth) == ("http://proxy", KeyAuth("mine"))


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(None, FIRST_BYTE_SECONDS), (True, FIRST_BYTE_SECONDS), (False, None), (1500, 1.5)]
)
def test_the_time_to_the_first_byte(timeout: int | bool | None, seconds: float | None) -> None:
    """SES-141: per provider, in milliseconds; `false` is no limit."""
    provider = ProviderConfig(
        options=ProviderOptions(base_url="http://h", timeout=timeout), models={"m": ModelConfig()}
    )
    assert catalog(p=provider).resolve("ses_1", ref("p/m")).model.route.timeouts.first_byte == seconds


def test_the_name_of_a_model_may_contain_slashes() -> None:
    """SES-095."""
    assert parse_model("openrouter/openai/gpt-4.1") == ModelRef(id="openai/gpt-4.1", provider_id="openrouter")


@pytest.mark.parametrize(
    ("package", "path"),
    [
        ("@ai-sdk/openai-compatible", "/chat/completions"),
        ("@ai-sdk/openai", "/responses"),
        ("@ai-sdk/anthropic", "/messages"),
        ("@ai-sdk/google", "/models/m:streamGenerateContent?alt=sse"),
        ("@ai-sdk/amazon-bedrock", "/model/m/converse-stream"),
    ],
)
def test_every_protocol_can_be_configured(package: str, path: str) -> None:
    """LLM-387, SES-095: an endpoint of any of them, in configuration and without code."""
    provider = ProviderConfig(npm=package, options=ProviderOptions(base_url="http://host/v1", api_key="k"))
    model = catalog(mine=provider).resolve("ses_1", ref("mine/m")).model
    assert model.route.url(model.id, None) == f"http://host/v1{path}"


@pytest.mark.parametrize(
    ("variable", "chosen"),
    [("ANTHROPIC_API_KEY", "anthropic"), ("GOOGLE_GENERATIVE_AI_API_KEY", "google"), ("XAI_API_KEY", None)],
)
def test_a_key_alone_chooses_a_provider(variable: str, chosen: str | None) -> None:
    """SES-095: unless nobody can say which of its models to take."""
    found = catalog({variable: "k"}).default()
    assert (found.provider_id if found else None) == chosen
