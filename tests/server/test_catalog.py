"""What a Location offers, and connecting to what is behind it. Keys go in and never come out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Wire

from holdfast.core.credential.integration import Authorization, IntegrationDraft, OAuth
from holdfast.core.credential.store import KeyValue, OAuthValue
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.state import Phase
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.catalog import OAuthMethod

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-9f2b7c"
INVALID = (400, "InvalidRequestError")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with everything, and a secret in every place where configuration may hold one."""
    folder = tmp_path / "project"
    (folder / ".opencode" / "skill" / "cut").mkdir(parents=True)
    (folder / ".opencode" / "skill" / "cut" / "SKILL.md").write_text(
        "---\nname: cut\ndescription: How to cut\n---\nWith care.\n", encoding="utf-8"
    )
    (folder / "docs").mkdir()
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {
            "baseURL": f"https://user:{CANARY}@mock.invalid/v1?key={CANARY}",
            "apiKey": CANARY,
            "headers": {"Authorization": f"Bearer {CANARY}", "X-Custom": CANARY},
            "nested": {"accessToken": CANARY},
        },
        "models": {"mock-1": {"options": {"apiKey": CANARY}, "headers": {"X-Key": CANARY}}},
    }
    config = {
        "model": "mock/mock-1",
        "provider": {"mock": provider},
        "agent": {
            "reviewer": {
                "description": "Looks",
                "mode": "subagent",
                "prompt": "Look.",
                "options": {
                    "apiKey": CANARY,
                    "deep": {"token": CANARY},
                    "headers": {"Authorization": f"Bearer {CANARY}", "X-Custom": CANARY},
                    "list": [{"authorization": CANARY}],
                },
            }
        },
        "command": {"greet": {"template": "Say hello to $1", "description": "Greets"}},
        "references": {"docs": {"path": "./docs", "description": "Documents"}},
    }
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture
async def runtime(tmp_path: Path, project: Path, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    environment = {"HOME": str(tmp_path), "OPENAI_API_KEY": CANARY, "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    paths = Paths(tmp_path / "data")
    async with Runtime(
        paths=paths,
        directory=project,
        environment=environment,
        transport=model,
        options=HostOptions(titles=False, trust=True),
    ) as runtime:
        yield runtime


async def listed(wire: Wire, noun: str) -> list[Any]:
    answer = (await wire.get(f"/api/{noun}")).json
    assert set(answer) == {"location", "data"}
    assert set(answer["location"]) == {"directory", "project"}
    return list(answer["data"])


def named(items: list[Any], name: str, key: str = "id") -> Any:
    return next(item for item in items if item[key] == name)


async def test_agents_models_providers_commands_skills_and_references_are_listed(memory: Wire, project: Path) -> None:
    """API-003, API-140: six lists, each in the location envelope, with the configured entry in the contract's shape."""
    agent = named(await listed(memory, "agent"), "reviewer")
    assert {"id", "request", "mode", "hidden", "permissions"} <= set(agent)
    assert (agent["mode"], agent["description"]) == ("subagent", "Looks")
    assert named(await listed(memory, "command"), "greet", "name") == {
        "name": "greet",
        "template": "Say hello to $1",
        "description": "Greets",
    }
    skill = named(await listed(memory, "skill"), "cut", "name")
    assert (skill["description"], skill["content"].strip()) == ("How to cut", "With care.")
    assert skill["location"].endswith("SKILL.md")
    reference = named(await listed(memory, "reference"), "docs", "name")
    assert (reference["description"], reference["source"]["type"]) == ("Documents", "local")
    found = named(await listed(memory, "model"), "mock-1")
    assert found["providerID"] == "mock"
    assert {"name", "api", "capabilities", "request", "variants", "time", "cost", "status", "enabled", "limit"} <= set(
        found
    )
    provider = named(await listed(memory, "provider"), "mock")
    assert {"id", "name", "api", "request"} <= set(provider)
    assert (await memory.get("/api/provider/mock")).data == provider


async def test_lists_belong_to_the_asked_location(memory: Wire, tmp_path: Path) -> None:
    """API-030, API-140: another directory has other commands."""
    (other := tmp_path / "other").mkdir()
    answer = await memory.get(f"/api/command?location[directory]={other}")

    assert answer.json["location"]["directory"] == str(other)
    assert "greet" not in [command["name"] for command in answer.data]
    assert (await memory.get("/api/command?location[directory]=/not/there")).failure == INVALID


async def test_an_unknown_provider_is_not_found_and_an_unknown_integration_is_null(memory: Wire) -> None:
    """API-020, API-140: the one is 404, the other `data: null`."""
    answer = await memory.get("/api/provider/nope")

    assert answer.failure == (404, "ProviderNotFoundError")
    assert answer.json["providerID"] == "nope"
    unknown = await memory.get("/api/integration/nope")
    assert (unknown.status, unknown.data) == (200, None)
    assert "data" in unknown.json


async def test_no_route_or_live_event_shows_a_secret(memory: Wire, runtime: Runtime) -> None:
    """API-143: not one that is configured, in the environment or stored; in no route and no live event."""
    async with memory.stream("/api/event") as stream:
        await stream.event()
        connect = await memory.post("/api/integration/anthropic/connect/key", {"key": CANARY, "label": "work"})
        assert connect.status == 204
        session = (await memory.create(model={"id": "mock-1", "providerID": "mock"}))["id"]
        await memory.prompt(session, resume=False)
        events = await stream.until("session.next.prompt.admitted")
    routes = ["agent", "model", "provider", "provider/mock", "provider/anthropic", "integration", "metrics"]
    routes += ["integration/anthropic", "integration/openai", f"session/{session}", f"session/{session}/history"]
    seen = [(await memory.get(f"/api/{route}")).body for route in routes]
    seen += [(await memory.get("/openapi.json")).body, json.dumps(events).encode()]

    assert runtime.credentials.all("anthropic")[0].value == KeyValue(key=CANARY)
    for route, body in zip([*routes, "openapi", "events"], seen, strict=True):
        assert CANARY.encode() not in body, route


async def test_a_key_connects_an_integration(wire: Wire) -> None:
    """API-141, API-142: it shows as a connection with its label, which can be changed, and removed twice."""
    path = "/api/integration/anthropic"
    assert (await wire.get(path)).data["connections"] == []
    assert (await wire.post(f"{path}/connect/key", {"key": CANARY, "label": "work"})).status == 204
    (connection,) = (await wire.get(path)).data["connections"]

    assert connection == {"type": "credential", "id": connection["id"], "label": "work"}
    credential = f"/api/credential/{connection['id']}"
    assert (await wire("PATCH", credential, {"label": "home"})).status == 204
    assert (await wire.get(path)).data["connections"][0]["label"] == "home"
    assert (await wire("DELETE", credential)).status == 204
    assert (await wire("DELETE", credential)).status == 204
    assert (await wire("PATCH", credential, {"label": "gone"})).status == 204
    assert (await wire.get(path)).data["connections"] == []
    listed_names = [integration["id"] for integration in (await wire.get("/api/integration")).data]
    assert "anthropic" in listed_names


@pytest.mark.parametrize(
    ("target", "payload", "kind"),
    [
        ("/api/integration/nope/connect/key", {"key": "x"}, "integration_not_found"),
        ("/api/integration/anthropic/connect/key", {"key": "  "}, "integration_authorization"),
        ("/api/integration/anthropic/connect/oauth", {"methodID": "nope", "inputs": {}}, "integration_not_found"),
        ("/api/integration/attempt/con_nope/complete", {}, "integration_attempt_not_found"),
        ("/api/integration/anthropic/connect/key", {}, "Payload"),
        ("/api/integration/anthropic/connect/oauth", {"methodID": "x"}, "Payload"),
        ("/api/integration/anthropic/connect/oauth", {"methodID": "x", "inputs": {"a": 1}}, "Payload"),
    ],
)
async def test_a_connection_that_cannot_be_is_refused(memory: Wire, target: str, payload: object, kind: str) -> None:
    """API-026, API-141: 400 with the kind of the failure, never 500."""
    answer = await memory.post(target, payload)

    assert answer.failure == INVALID
    assert answer.json["kind"] == kind


@pytest.fixture
async def sign_in(runtime: Runtime) -> AsyncIterator[None]:
    """An integration with two OAuth methods: one that needs a code, one that refuses."""

    async def finish(code: str | None) -> OAuthValue:
        if code != "1234":
            raise RuntimeError(CANARY)
        return OAuthValue(method_id="code", access=CANARY, refresh=CANARY, expires=2**52)

    async def authorize(inputs: Mapping[str, str]) -> Authorization:
        if inputs.get("fail"):
            raise RuntimeError(CANARY)
        return Authorization(f"https://sign.invalid/{inputs.get('tenant')}", "Paste the code", "code", finish)

    def add(draft: IntegrationDraft) -> None:
        draft.add("acme", OAuth(OAuthMethod(id="code", label="Acme"), authorize), "Acme")

    with Scope() as scope:
        async with runtime.locations.use(runtime.location) as services:
            services.catalog.integrations.transform(add, scope, phase=Phase.PLUGIN)
            yield


async def test_a_sign_in_goes_from_pending_to_complete(wire: Wire, sign_in: None) -> None:
    """API-141: begun, asked for its state, finished with a code; then the integration is connected."""
    begin = {"methodID": "code", "inputs": {"tenant": "t1"}, "label": "work"}
    answer = await wire.post("/api/integration/acme/connect/oauth", begin)
    attempt = answer.data

    assert set(answer.json) == {"location", "data"}
    assert attempt == {
        "attemptID": attempt["attemptID"],
        "url": "https://sign.invalid/t1",
        "instructions": "Paste the code",
        "mode": "code",
        "time": attempt["time"],
    }
    assert attempt["attemptID"].startswith("con_")
    path = f"/api/integration/attempt/{attempt['attemptID']}"
    assert (await wire.get(path)).data == {"status": "pending", "time": attempt["time"]}
    required = await wire.post(f"{path}/complete", {})
    assert (required.failure, required.json["kind"]) == (INVALID, "integration_code_required")
    assert (await wire.post(f"{path}/complete", {"code": "1234"})).status == 204
    assert (await wire.get(path)).data["status"] == "complete"
    (connection,) = (await wire.get("/api/integration/acme")).data["connections"]
    assert (connection["type"], connection["label"]) == ("credential", "work")


async def test_a_sign_in_that_fails_says_so_without_the_providers_words(memory: Wire, sign_in: None) -> None:
    """API-141, API-143: kind `integration_authorization`; cancelled ones are forgotten, again is fine."""
    refused = await memory.post("/api/integration/acme/connect/oauth", {"methodID": "code", "inputs": {"fail": "yes"}})
    assert (refused.failure, refused.json["kind"]) == (INVALID, "integration_authorization")
    begin = {"methodID": "code", "inputs": {}}
    path = (
        "/api/integration/attempt/"
        + (await memory.post("/api/integration/acme/connect/oauth", begin)).data["attemptID"]
    )
    wrong = await memory.post(f"{path}/complete", {"code": "0000"})
    assert (wrong.failure, wrong.json["kind"]) == (INVALID, "integration_authorization")
    assert (await memory.get(path)).data["status"] == "failed"
    assert CANARY.encode() not in refused.body + wrong.body + (await memory.get(path)).body

    assert [(await memory("DELETE", path)).status for _ in range(2)] == [204, 204]
    gone = await memory.get(path)
    assert (gone.failure, gone.json["kind"]) == (INVALID, "integration_attempt_not_found")


async def test_a_damaged_credential_file_is_unavailable_and_kept(memory: Wire, runtime: Runtime) -> None:
    """API-026: 503, and nothing is written over it."""
    runtime.paths.data.mkdir(exist_ok=True)
    runtime.paths.credentials.write_text("{broken", encoding="utf-8")
    answer = await memory.post("/api/integration/anthropic/connect/key", {"key": "x"})

    assert answer.failure == (503, "ServiceUnavailableError")
    assert answer.json["service"] == "credentials"
    assert runtime.paths.credentials.read_text(encoding="utf-8") == "{broken"
