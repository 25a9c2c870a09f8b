"""Requests recorded against the released OpenCode server, sent to ours: status, tag and shape of the answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SHARED
from tests.server.conftest import Answer, Wire, in_memory

from holdfast.core.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.server.app import App
from holdfast.server.auth import Credentials

pytestmark = [pytest.mark.anyio, pytest.mark.shared]

SAMPLES = SHARED / "contract" / "samples"

# Samples, or all whose name begins so, of operations that do not exist here yet or are looked at elsewhere.
MISSING = {
    "openapi-doc": "no OpenAPI document is served",
    "switch-": "no switching of agent or model",
    "context-after-switch": "no switching of agent or model",
    "compact-": "no compaction",
    "revert-": "no reverting",
    "perm": "no permissions",
    "w-perm": "no permissions",
    "prompt-tool-ask": "no permissions",
    "context-tool-waiting": "no permissions",
    "question-": "no questions",
    "context-question": "no questions",
    "model-": "no catalog over HTTP",
    "provider-": "no catalog over HTTP",
    "skill-": "no skills",
    "integration-": "no integrations",
    "fs-": "no files over HTTP",
    "project-copy-": "no project copies",
    "pty-": "no terminals",
    "v-pty": "no terminals",
    "auth-pty": "no terminals",
    "w-warm": "no terminals",
    "event-subscribe-": "test_live_stream.py",
    "w-event-shutdown": "test_live_stream.py",
    "session-events-after-beyond": "test_session_stream.py",
    "v-session-events-headers-at": "test_session_stream.py",
}

# Where we answer otherwise on purpose: the rule, and what is expected instead.
DIFFERENT: dict[str, tuple[str, int, str | None]] = {
    "session-create-no-body": ("API-011", 200, None),
    "location-workspace-bad": ("API-026", 400, "InvalidRequestError"),
}
# Answers whose content differs on purpose, so that only status and envelope are compared.
ENVELOPE_ONLY = {"session-list-project-subpath": "API-110: the filter filters"}
# Optional keys of features that do not exist yet.
UNBUILT = {"snapshot", "outputPaths"}


def load() -> list[dict[str, Any]]:
    samples = [json.loads(path.read_text(encoding="utf-8")) for path in SAMPLES.glob("*.json")]
    return sorted(samples, key=lambda sample: int(sample["seq"]))


def missing(name: str) -> bool:
    return name.startswith(tuple(MISSING))


def reply(body: dict[str, Any]) -> Turn:
    """The recorded server had a mock model with these habits."""
    last = body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "user" and "fail" in text:
        return Turn(fail=400)
    if last["role"] == "user" and "tool:" in text:
        return Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),))
    return Turn(text="Hello from the mock.")


@pytest.fixture
async def model() -> ScriptedTransport:
    return ScriptedTransport([reply] * 30)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj2"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "opencode").write_text("89c5f5e045f6ad66b8bda279a3537f61443a1c67", encoding="ascii")
    (folder / "hello.txt").write_text("hello world\n", encoding="utf-8")
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://mock/v1"}, "models": {"mock-1": {}}}
    config = {"model": "mock/mock-1", "provider": {"mock": provider}}
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


class Replay:
    """Fills variables, and does what the recording did between the samples that were kept."""

    def __init__(self, wire: Wire, model: ScriptedTransport, project: Path) -> None:
        self.wire = wire
        self.model = model
        self.project = project
        self.held = 0
        self.variables: dict[str, str] = {"proj": str(project)}

    async def value(self, name: str) -> str:
        if name not in self.variables:
            if name.startswith("ses_"):
                fields = {"id": "ses_wire_sample_1"} if name == "ses_b" else {}
                self.variables[name] = (await self.wire.post("/api/session", fields)).data["id"]
            else:
                self.variables[name] = await self.derived(name)
        return self.variables[name]

    async def derived(self, name: str) -> str:
        messages = f"/api/session/{self.variables.get('ses_c')}/message"
        if name == "msg_c1":
            return str((await self.wire.get(f"{messages}?order=asc")).data[1]["id"])
        opening, further, link = {
            "cur_asc": ("/api/session?limit=2&order=asc", None, "next"),
            "cur_dir": (f"/api/session?limit=2&directory={self.project}", None, "next"),
            "cur_prev2": ("/api/session?limit=2", "/api/session", "previous"),
            "mc_prev2": (f"{messages}?limit=2", messages, "previous"),
        }[name]
        cursor = (await self.wire.get(opening)).json["cursor"]
        if further is not None:
            cursor = (await self.wire.get(f"{further}?cursor={cursor['next']}")).json["cursor"]
        return str(cursor[link])

    async def fill(self, template: Any) -> Any:
        match template:
            case str():
                for name in re.findall(r"\{\{(\w+)\}\}", template):
                    template = template.replace("{{" + name + "}}", await self.value(name))
                return template
            case dict():
                return {key: await self.fill(item) for key, item in template.items()}
            case list():
                return [await self.fill(item) for item in template]
            case _:
                return template

    async def send(self, sample: dict[str, Any]) -> Answer:
        request = sample["request"]
        target = await self.fill(request["path_template"].replace("/srv/demo/proj2", str(self.project)))
        headers = {**request.get("headers", {}), **(request.get("headers_template") or {})}
        if "x-opencode-directory" in headers:
            headers["x-opencode-directory"] = headers["x-opencode-directory"].replace("/srv/demo", "/")
        body = request.get("body_template")
        if request.get("raw_body"):
            return await self.wire(request["method"], target, body=body.encode(), headers=headers)
        if body is None:
            headers.pop("content-type", None)
            return await self.wire(request["method"], target, headers=headers)
        filled = json.loads(json.dumps(await self.fill(body)).replace("/srv/demo/proj2", str(self.project)))
        return await self.wire(request["method"], target, filled, headers=headers)

    def capture(self, sample: dict[str, Any], answer: Answer) -> None:
        for name, path in (sample.get("capture") or {}).items():
            value = answer.json
            for key in path.split("."):
                value = value[key]
            self.variables[name] = value

    # -- what happened between the samples ------------------------------------------------------------------------

    async def second_session(self) -> None:
        await self.value("ses_b")

    async def session_with_variant(self) -> None:
        await self.wire.create(model={"id": "mock-1", "providerID": "mock", "variant": "high"})

    async def first_admission(self) -> None:
        await self.wire.prompt(await self.value("ses_a"), "admit only", id="msg_wire_1", resume=False)

    async def two_turns(self) -> None:
        for text in ("say hello", "again"):
            await self.wire.answer(await self.value("ses_c"), text)

    async def hold(self) -> None:
        self.held = len(self.model.requests)
        self.model.hold(self.held)

    async def running(self) -> None:
        await self.model.seen(self.held + 1)

    async def interrupt(self) -> None:
        await self.wire.post(f"/api/session/{await self.value('ses_d')}/interrupt")

    async def failing_turn(self) -> None:
        await self.wire.answer(await self.value("ses_e"), "fail now")

    async def settle_tool(self) -> None:
        await self.wire.post(f"/api/session/{await self.value('ses_f')}/wait")


BEFORE: dict[str, Callable[[Replay], Awaitable[None]]] = {
    "session-create-full": Replay.second_session,
    "session-create-bad-id": Replay.session_with_variant,
    "prompt-exact-retry": Replay.first_admission,
    "messages-limit2": Replay.two_turns,
    "prompt-slow": Replay.hold,
    "prompt-steer-while-running": Replay.running,
    "session-active-after-interrupt": Replay.interrupt,
    "history-after-fail": Replay.failing_turn,
    "context-after-tool": Replay.settle_tool,
}


def shape(value: Any) -> Any:
    """Keys and kinds of values, without the values. Lists by their distinct members."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items() if key not in UNBUILT}
        case list():
            return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
        case bool() | None:
            return str(value and "boolean")
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


def recorded_body(sample: dict[str, Any]) -> Any:
    response = sample["response"]
    if sample.get("kind") == "sse" and response["status"] != 200:
        return json.loads(response["raw_text"])
    return response.get("body")


def differences(sample: dict[str, Any], answer: Answer) -> list[str]:
    name, recorded = sample["name"], recorded_body(sample)
    status, tag = sample["response"]["status"], recorded.get("_tag") if isinstance(recorded, dict) else None
    rule = None
    if name in DIFFERENT:
        rule, status, tag = DIFFERENT[name]
    found: Any = answer.json if answer.body else {}
    problems = []
    if (answer.status, found.get("_tag")) != (status, tag):
        problems.append(f"{name}: {answer.status} {found}, expected {status} {tag}")
    elif rule is None and name in ENVELOPE_ONLY:
        if set(found) != set(recorded):
            problems.append(f"{name}: keys {set(found)}, expected {set(recorded)}")
    elif rule is None and shape(found) != shape(recorded or {}):
        problems.append(f"{name}: shape {shape(found)}, expected {shape(recorded or {})}")
    return problems


@pytest.fixture
async def locked(runtime: Runtime) -> AsyncIterator[Wire]:
    """The recorded server's password."""
    async with in_memory(App(runtime, credentials=Credentials("secret"))) as wire:
        yield wire


async def test_recorded_requests_get_answers_of_the_same_shape(
    memory: Wire, locked: Wire, model: ScriptedTransport, project: Path
) -> None:
    """API-003, API-005, API-020, API-023, API-024, API-041, API-112, API-117, API-122, API-126, API-127, API-321: every
    sample of an implemented operation, in the recorded order."""
    replay, protected = Replay(memory, model, project), Replay(locked, model, project)
    problems: list[str] = []
    replayed = 0
    for sample in load():
        name = sample["name"]
        if missing(name):
            continue
        if (before := BEFORE.get(name)) is not None:
            await before(replay)
        answer = await (protected if name.startswith("auth-") else replay).send(sample)
        problems += differences(sample, answer)
        if answer.status == 200:
            replay.capture(sample, answer)
        replayed += 1

    assert not problems, "\n".join(problems)
    assert replayed > 40


def test_every_exception_is_about_a_sample() -> None:
    """API-321: the tables above name samples that exist."""
    names = {sample["name"] for sample in load()}

    assert {*DIFFERENT, *ENVELOPE_ONLY, *BEFORE} <= names
    assert all(any(name.startswith(start) for name in names) for start in MISSING)
    assert all(rule.startswith("API-") for rule, _, _ in DIFFERENT.values())
