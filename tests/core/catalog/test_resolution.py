"""Choosing the model of a turn: what is asked for is used or refused, never replaced."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.core.catalog.conftest import PACKAGE, MakeCatalog, agent, body, credential, provider, ref

from holdfast.core.catalog import catalog as catalog_module
from holdfast.core.catalog.boot import PluginBoot
from holdfast.core.catalog.catalog import Catalog
from holdfast.core.catalog.demo import DEMO_ENTRY
from holdfast.core.catalog.errors import ModelNotSelected, ModelUnavailable, UnsupportedApi
from holdfast.core.catalog.routes import FIRST_BYTE_SECONDS
from holdfast.core.config.config import Config
from holdfast.llm.route.auth import KeyAuth, NoAuth

MINE: dict[str, Any] = {
    "npm": PACKAGE,
    "options": {"baseURL": "http://host/v1", "apiKey": "sk-mine", "headers": {"x-a": "1"}},
    "models": {"m": {"id": "real-m"}, "n": {}},
}


# -- what is asked for ---------------------------------------------------------------------------------------------


def test_a_configured_model_becomes_a_route(make_catalog: MakeCatalog) -> None:
    """SES-095, CAT-120: with the provider's address, key and headers, and the model's own id for the wire."""
    found = make_catalog({"provider": {"mine": MINE}}).resolve("ses_1", ref("mine/m"))
    route = found.model.route
    assert (found.ref, found.model.id, found.model.provider) == (ref("mine/m"), "real-m", "mine")
    assert route.url("real-m", None) == "http://host/v1/chat/completions"
    assert (credential(route), found.overlay("ses_1").headers) == (KeyAuth("sk-mine"), {"x-a": "1"})


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ("mine/other", "the provider has m, n"),
        ("unknown/m", "no such provider"),
        ("mine/off", "disabled"),
        ("locked/m", "LOCKED_KEY is not set"),
        ("demo/nothing", "echo"),
        ("mine/", "the provider has"),
    ],
)
def test_a_missing_model_or_variant_is_refused_with_a_reason(make_catalog: MakeCatalog, chosen: str, why: str) -> None:
    """SES-095, CAT-119, CAT-092, trap 13: with a reason to act on; a default is no substitute."""
    mine = {**MINE, "models": {**MINE["models"], "off": {"status": "deprecated"}}}
    locked = {"npm": PACKAGE, "env": ["LOCKED_KEY"], "options": {"baseURL": "http://h"}, "models": {"m": {}}}
    catalog = make_catalog({"model": "mine/m", "provider": {"mine": mine, "locked": locked}})
    with pytest.raises(ModelUnavailable) as refused:
        catalog.resolve("ses_1", ref(chosen))
    assert f"{refused.value.provider_id}/{refused.value.model_id}" == chosen
    assert refused.value.code == "SessionRunnerModel.ModelUnavailableError"
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("package", "url", "named", "why"),
    [
        ("@ai-sdk/nobody", "http://h", "aisdk:@ai-sdk/nobody", "no adapter"),
        ("@ai-sdk/google-vertex", "http://h", "aisdk:@ai-sdk/google-vertex", "no adapter"),
        (PACKAGE, None, f"aisdk:{PACKAGE}", "baseURL"),
        ("@ai-sdk/azure", None, "aisdk:@ai-sdk/azure", "AZURE_RESOURCE_NAME"),
        (None, None, "native", "no adapter"),
    ],
)
def test_a_protocol_that_nobody_here_speaks(
    make_catalog: MakeCatalog, package: str | None, url: str | None, named: str, why: str
) -> None:
    """SES-095, CAT-120: refused before anything is sent, naming what it would take."""
    api = {"type": "aisdk", "package": package, "url": url} if package else {"type": "native"}
    catalog = make_catalog({"providers": {"p": {"api": api, "models": {"m": {}}}}})
    with pytest.raises(UnsupportedApi) as refused:
        catalog.resolve("ses_1", ref("p/m"))
    assert (refused.value.api, refused.value.code) == (named, "SessionRunnerModel.UnsupportedApiError")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("package", "path", "auth"),
    [
        (PACKAGE, "/chat/completions", KeyAuth("k")),
        ("@ai-sdk/openai", "/responses", KeyAuth("k")),
        ("@ai-sdk/anthropic", "/messages", KeyAuth("k", "x-api-key", "")),
        ("@ai-sdk/google", "/models/m:streamGenerateContent?alt=sse", KeyAuth("k", "x-goog-api-key", "")),
        ("@ai-sdk/amazon-bedrock", "/model/m/converse-stream", KeyAuth("k")),
        ("@ai-sdk/azure", "/responses?api-version=v1", KeyAuth("k", "api-key", "")),
        ("@ai-sdk/groq", "/chat/completions", KeyAuth("k")),
        ("@openrouter/ai-sdk-provider", "/chat/completions", KeyAuth("k")),
        ("@ai-sdk/github-copilot", "/chat/completions", KeyAuth("k")),
    ],
)
def test_every_protocol_can_be_configured(make_catalog: MakeCatalog, package: str, path: str, auth: KeyAuth) -> None:
    """LLM-387, SES-095, CAT-106, CAT-120, CAT-121: an endpoint of any of them, without code, its key in its place."""
    model = make_catalog({"provider": {"mine": provider(package)}}).resolve("ses_1", ref("mine/m")).model
    assert model.route.url(model.id, None) == f"http://host/v1{path}"
    assert credential(model.route) == auth


def test_an_address_alone_is_enough(make_catalog: MakeCatalog) -> None:
    """CAT-121: of an endpoint that says its protocol itself."""
    providers = {
        "r": {
            "api": {"type": "native", "url": "http://h/v1/messages", "settings": {"authToken": "t"}},
            "models": {"m": {}},
        }
    }
    model = make_catalog({"providers": providers}).resolve("ses_1", ref("r/m")).model
    assert (model.route.url("m", None), credential(model.route)) == ("http://h/v1/messages", KeyAuth("t"))


@pytest.mark.parametrize(
    ("options", "first", "idle"),
    [
        ({}, FIRST_BYTE_SECONDS, None),
        ({"timeout": True}, FIRST_BYTE_SECONDS, None),
        ({"timeout": False}, None, None),
        ({"timeout": 1500, "chunkTimeout": 250}, 1.5, 0.25),
    ],
)
def test_the_time_to_the_first_byte(
    make_catalog: MakeCatalog, options: dict[str, Any], first: float | None, idle: float | None
) -> None:
    """SES-141: per provider, in milliseconds; `false` is no limit."""
    catalog = make_catalog({"provider": {"p": provider(PACKAGE, **options)}})
    timeouts = catalog.resolve("ses_1", ref("p/m")).model.route.timeouts
    assert (timeouts.first_byte, timeouts.idle) == (first, idle)


# -- real files ----------------------------------------------------------------------------------------------------

OLLAMA = {
    "$schema": "https://opencode.ai/config.json",
    "provider": {
        "ollama": {
            "npm": PACKAGE,
            "name": "Ollama (local)",
            "options": {"baseURL": "http://localhost:11434/v1"},
            "models": {"qwen3-coder:30b": {"name": "Qwen3 Coder", "limit": {"context": 65536, "output": 8192}}},
        }
    },
}
VLLM = {
    "providers": {
        "vllm": {
            "api": {"type": "aisdk", "package": PACKAGE, "url": "http://gpu:8000/v1"},
            "models": {"llama": {"api": {"id": "meta-llama/Llama-3.3-70B"}}},
        }
    }
}
LM_STUDIO = {
    "provider": {"lmstudio": {"options": {"baseURL": "http://127.0.0.1:1234/v1"}, "models": {"gpt-oss-20b": {}}}}
}
GATEWAY = {
    "provider": {
        "corp": {
            "npm": PACKAGE,
            "api": "https://llm.corp.example/v1",
            "options": {"apiKey": "corp-key", "headers": {"X-Team": "blue"}},
        }
    }
}
KEYS = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "LMSTUDIO_API_KEY": ""}


@pytest.mark.parametrize(
    ("document", "chosen", "wire", "url", "auth"),
    [
        (OLLAMA, "ollama/qwen3-coder:30b", "qwen3-coder:30b", "http://localhost:11434/v1", NoAuth()),
        (VLLM, "vllm/llama", "meta-llama/Llama-3.3-70B", "http://gpu:8000/v1", NoAuth()),
        (LM_STUDIO, "lmstudio/gpt-oss-20b", "gpt-oss-20b", "http://127.0.0.1:1234/v1", NoAuth()),
        (GATEWAY, "corp/any/model:x", "any/model:x", "https://llm.corp.example/v1", KeyAuth("corp-key")),
    ],
    ids=["ollama", "vllm", "lm studio", "gateway without a list"],
)
@pytest.mark.parametrize("by", ["session", "configuration", "agent"])
def test_a_local_or_private_endpoint_is_used_as_it_was_configured(
    make_catalog: MakeCatalog, document: dict[str, Any], chosen: str, wire: str, url: str, auth: object, by: str
) -> None:
    """CAT-091, CAT-127, CAT-119, CAT-120, traps 9 and 13: no key, no header, and no other model, whoever named it."""
    more = {"model": chosen} if by == "configuration" else {}
    lmstudio = {"env": ["LMSTUDIO_API_KEY"], "npm": PACKAGE, "api": "http://127.0.0.1:9/v1", "models": {"other": {}}}
    data = {
        "openai": {
            "env": ["OPENAI_API_KEY"],
            "npm": "@ai-sdk/openai",
            "models": {"gpt-9": {"release_date": "2030-01-01", "tool_call": True}},
        },
        "lmstudio": lmstudio,
    }
    catalog = make_catalog(document, more, environment=KEYS, data=data)
    found = catalog.resolve(
        "ses_1", ref(chosen) if by == "session" else None, agent(ref(chosen)) if by == "agent" else None
    )
    route = found.model.route
    assert (found.ref, found.model.id, route.base_url, credential(route)) == (ref(chosen), wire, url, auth)
    assert body(found)["model"] == wire


# -- what is taken when nobody asks --------------------------------------------------------------------------------


def test_without_any_model_the_error_names_the_session(make_catalog: MakeCatalog) -> None:
    """SES-095, CAT-118: names the Session and what to do."""
    with pytest.raises(ModelNotSelected) as refused:
        make_catalog(data={"x": {"npm": "@ai-sdk/nobody", "models": {"m": {}}}}).resolve("ses_1", None)
    assert (refused.value.session_id, refused.value.code) == ("ses_1", "SessionRunnerModel.ModelNotSelectedError")


def test_a_bad_default_is_an_error_not_another_model(make_catalog: MakeCatalog) -> None:
    """SES-095, trap 13: a configured model is somebody's choice too."""
    for name in ("gone/m", "mine/gone", "nonsense"):
        catalog = make_catalog({"model": name, "provider": {"mine": MINE}})
        with pytest.raises(ModelUnavailable):
            catalog.resolve("ses_1", None)


def test_the_newest_that_can_be_used(make_catalog: MakeCatalog) -> None:
    """SES-095, CAT-118, CAT-071: supported, available, and fit for the work; then whatever is left."""
    able = {"tool_call": True, "modalities": {"output": ["text"]}}
    data: dict[str, Any] = {
        "a": {
            "npm": PACKAGE,
            "api": "http://a",
            "models": {
                "old": {**able, "release_date": "2024-01-01"},
                "good": {**able, "release_date": "2025-01-01"},
                "beta": {**able, "release_date": "2025-02-01", "status": "beta"},
                "mute": {"tool_call": True, "modalities": {"output": ["image"]}, "release_date": "2025-03-01"},
                "gone": {**able, "release_date": "2025-04-01", "status": "deprecated"},
            },
        },
        "b": {"npm": "@ai-sdk/nobody", "models": {"m": {**able, "release_date": "2026-01-01"}}},
        "c": {
            "npm": PACKAGE,
            "api": "http://c",
            "env": ["C_KEY"],
            "models": {"m": {**able, "release_date": "2026-01-01"}},
        },
    }
    catalog = make_catalog(data=data)
    assert catalog.default() == ref("a/good")
    assert catalog.resolve("ses_1", None).ref == ref("a/good")
    assert catalog.resolve("ses_1", None, agent(ref("a/old"))).ref == ref("a/old")
    assert catalog.resolve("ses_1", ref("a/beta"), agent(ref("a/old"))).ref == ref("a/beta")
    assert make_catalog(data=data, environment={"C_KEY": "k"}).default() == ref("c/m")
    left = {"a": {**data["a"], "models": {name: data["a"]["models"][name] for name in ("mute", "gone")}}}
    assert make_catalog(data=left).default() == ref("a/mute")


# -- what else a turn needs ----------------------------------------------------------------------------------------


def test_limits_prices_and_capabilities_come_along(make_catalog: MakeCatalog) -> None:
    """CAT-120, LLM-041, SES-109: what the catalog knows is better than what a name suggests."""
    model = {
        "temperature": False,
        "interleaved": {"field": "reasoning_content"},
        "modalities": {"input": ["text"], "output": ["text"]},
        "limit": {"context": 100, "input": 80, "output": 20},
        "cost": {"input": 1, "output": 2},
    }
    data = {"p": {"npm": PACKAGE, "api": "http://h", "models": {"m": model}}}
    found = make_catalog(data=data).resolve("s", ref("p/m"))
    capabilities = found.model.capabilities
    assert (capabilities.images, capabilities.sampling, capabilities.reasoning_replay) == (False, False, True)
    assert (found.limit.context, found.limit.input, found.limit.output, found.model.output_limit) == (100, 80, 20, 20)
    assert found.prices[0].output == 2


def test_the_cache_key_of_a_session(make_catalog: MakeCatalog) -> None:
    """SES-097: its id, without the prefix where that would make it too long."""
    found = make_catalog({"provider": {"p": provider("@ai-sdk/openai")}}).resolve("s", ref("p/m"))
    for id, key in (("ses_1", "ses_1"), ("ses_" + "a" * 64, "a" * 64)):
        options = found.overlay(id).options
        assert options is not None
        assert options["openai"]["promptCacheKey"] == key


@pytest.mark.parametrize("id", DEMO_ENTRY.ids())
def test_the_offline_models_need_nothing(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-142: no data is read for them."""
    catalog = Catalog(Config(), {})
    monkeypatch.setattr(Catalog, "_state", property(lambda self: pytest.fail("nothing to look up")))
    found = catalog.resolve("s", ref(f"demo/{id}"), agent(temperature=0.5))
    assert (found.model.route.url(id, None), found.model.route.auth) == ("offline://demo/v1/chat/completions", NoAuth())
    assert found.model.route.timeouts.first_byte is None
    assert body(found)["temperature"] == 0.5


@pytest.mark.parametrize(
    ("id", "word"), [("claude-x", "one turn"), ("gpt-5", "Keep going"), ("gemini-2", "Never assume"), ("qwen", "exact")]
)
def test_each_model_family_gets_its_system_text(make_catalog: MakeCatalog, id: str, word: str) -> None:
    """CAT-072: chosen by the model's name."""
    found = make_catalog({"provider": {"p": provider(PACKAGE, {id: {}})}}).resolve("s", ref(f"p/{id}"))
    assert word in found.family_text


@pytest.mark.anyio
async def test_an_early_prompt_waits_for_the_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-122, trap 14: but not forever."""
    booted = asyncio.Event()
    catalog = Catalog(Config(), {}, boot=_boot(booted))
    waiting = asyncio.create_task(catalog.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    booted.set()
    await waiting
    monkeypatch.setattr(catalog_module, "BOOT_SECONDS", 0.01)
    endless = _boot(forever := asyncio.Event())
    await Catalog(Config(), {}, boot=endless).ready()
    forever.set()
    await endless.wait()
    await Catalog(Config(), {}).ready()


def _boot(loaded: asyncio.Event) -> PluginBoot:
    async def load() -> None:
        await loaded.wait()

    boot = PluginBoot()
    boot.begin(asyncio.create_task(load()))
    return boot
