"""Requests with known answers, sent to our server: status, tag and shape of what it answers.

Some samples are our own, some were recorded at the released OpenCode server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FIXTURES, RECORDINGS
from tests.server.conftest import PATIENCE, Answer, Wire, in_memory

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.server.app import App
from holdfast.server.auth import Credentials

pytestmark = pytest.mark.anyio

OWN = FIXTURES / "wire.json"
RECORDED = RECORDINGS / "contract" / "samples"

# Samples, or all whose name begins so, that are looked at elsewhere.
ELSEWHERE = {
    "pty-ws": "test_pty.py",
    "auth-pty-ws": "test_pty.py",
    "event-subscribe-": "test_live_stream.py",
    "w-event-shutdown": "test_live_stream.py",
    "session-events-after-beyond": "test_session_stream.py",
    "v-session-events-headers-at": "test_session_stream.py",
}
# Samples of a server in a project where everything asks first.
ASKING = ("perm-", "prompt-tool-ask", "context-tool-waiting", "question-session", "question-perm", "question-cross")
ASKING_LATER = ("context-question", "w-")

# Where we answer otherwise on purpose: the rule, and what is expected instead.
DIFFERENT: dict[str, tuple[str, int, str | None]] = {
    "openapi-doc": ("API-010", 200, None),
    "session-create-no-body": ("API-011", 200, None),
    "location-workspace-bad": ("API-026", 400, "InvalidRequestError"),
    "integration-attempt-unknown": ("API-026", 400, "InvalidRequestError"),
    "fs-read-missing": ("API-026", 404, "NotFoundError"),
}
# Answers whose content differs on purpose, so that only status and envelope are compared.
ENVELOPE_ONLY = {
    "session-list-project-subpath": "API-110: the filter filters",
    "context-after-tool": "TOL: what `read` returned stays readable in `content`",
    "history-after-fail": "SES-242: a turn that fails before any output waits for no tree",
    "model-list": "API-143: no keys, and another catalog",
}
# Optional keys that depend on the size of an output.
OPTIONAL = {"outputPaths"}


def load(source: Path) -> list[dict[str, Any]]:
    if source.is_file():
        own: list[dict[str, Any]] = json.loads(source.read_text(encoding="utf-8"))
        return own
    samples = [json.loads(path.read_text(encoding="utf-8")) for path in source.glob("*.json")]
    return sorted(samples, key=lambda sample: int(sample["seq"]))


def elsewhere(name: str) -> bool:
    return name.startswith(tuple(ELSEWHERE))


QUESTION = {
    "question": "Proceed?",
    "header": "Go",
    "options": [{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}],
}


def reply(body: dict[str, Any]) -> Turn:
    """The recorded server had a mock model with these habits."""
    last = body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "user" and "fail" in text:
        return Turn(fail=400)
    if last["role"] == "user" and "tool:" in text:
        return Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),))
    if last["role"] == "user" and "ask:" in text:
        return Turn(calls=(Call(tool="question", input={"questions": [QUESTION]}),))
    return Turn(text="Hello from the mock.")


@pytest.fixture
async def model() -> ScriptedTransport:
    return ScriptedTransport([reply] * 30)


def repository(folder: Path, **config: object) -> Path:
    """What the recorded server ran in."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".git" / "opencode").write_text("89c5f5e045f6ad66b8bda279a3537f61443a1c67", encoding="ascii")
    (folder / "sub").mkdir()
    for name in ("hello.txt", "sub/a.txt"):
        (folder / name).write_text("hello world\n", encoding="utf-8")
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://mock/v1"}, "models": {"mock-1": {}}}
    settings = {"model": "mock/mock-1", "provider": {"mock": provider}, **config}
    (folder / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "proj2")


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
        if name in ("msg_c0", "msg_c1"):
            return str((await self.wire.get(f"{messages}?order=asc")).data[int(name[-1])]["id"])
        if name == "project":
            return str((await self.wire.get("/api/location")).json["project"]["id"])
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
        template = request["path_template"]
        for recorded in ("/srv/demo/proj2", "%2Fsrv%2Fdemo%2Fproj2"):
            template = template.replace(recorded, str(self.project))
        target = await self.fill(template)
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

    async def switches(self) -> None:
        path = f"/api/session/{await self.value('ses_a')}"
        assert (await self.wire.post(f"{path}/agent", {"agent": "plan"})).status == 204
        assert (await self.wire.post(f"{path}/model", {"model": {"id": "mock-1", "providerID": "mock"}})).status == 204

    async def first_request(self) -> None:
        await self.ask("per_a", action="custom_action", resources=["thing/1"], save=["thing/*"], metadata={"k": 1})

    async def third_request(self) -> None:
        source = {"type": "tool", "messageID": "msg_x", "callID": "call_x"}
        await self.ask("per_b", action="other", resources=["y"], source=source)

    async def ask(self, name: str, **fields: object) -> None:
        answer = await self.wire.post(f"/api/session/{await self.value('ses_p')}/permission", fields)
        self.variables[name] = answer.data["id"]

    async def waiting_tool(self) -> None:
        await self.pending("ses_q", "permission")

    async def asked_for_a_question(self) -> None:
        await self.wire.prompt(await self.value("ses_r"), "ask: me")
        self.variables["per_q"] = await self.pending("ses_r", "permission")

    async def asked_a_question(self) -> None:
        self.variables["que"] = await self.pending("ses_r", "question")

    async def answered(self) -> None:
        path = f"/api/session/{await self.value('ses_r')}"
        reply = await self.wire.post(f"{path}/question/{self.variables['que']}/reply", {"answers": [["Yes"]]})
        assert reply.status == 204
        assert (await self.wire.post(f"{path}/wait")).status == 204

    async def new_terminal(self) -> None:
        self.variables["pty"] = (await self.wire.post("/api/pty", {"command": "/bin/sh", "args": ["-c", "true"]})).data[
            "id"
        ]

    async def exited_terminal(self) -> None:
        await self.new_terminal()
        async with asyncio.timeout(PATIENCE):
            while (await self.wire.get(f"/api/pty/{self.variables['pty']}")).data["status"] != "exited":  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def removed_terminal(self) -> None:
        assert (await self.wire("DELETE", f"/api/pty/{self.variables['pty']}")).status == 204

    async def pending(self, session: str, kind: str) -> str:
        """The id of what a session waits for."""
        path = f"/api/session/{await self.value(session)}/{kind}"
        async with asyncio.timeout(PATIENCE):
            while not (found := (await self.wire.get(path)).data):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return str(found[0]["id"])


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
    "context-after-switch": Replay.switches,
    "pty-get-exited": Replay.exited_terminal,
    "pty-remove-again": Replay.removed_terminal,
    "v-pty-remove": Replay.new_terminal,
    "perm-ask-id": Replay.first_request,
    "perm-request-list": Replay.third_request,
    "context-tool-waiting": Replay.waiting_tool,
    "question-perm-reply": Replay.asked_for_a_question,
    "question-cross": Replay.asked_a_question,
    "context-question": Replay.answered,
}


def shape(value: Any) -> Any:
    """Keys and kinds of values, without the values. Lists by their distinct members."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items() if key not in OPTIONAL}
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


@pytest.fixture
async def asking(tmp_path: Path, model: ScriptedTransport) -> AsyncIterator[Replay]:
    """A server in a project where everything asks first."""
    folder = repository(tmp_path / "proj3", permission={"*": "ask"})
    paths, environment = Paths(tmp_path / "data3"), {"HOME": str(tmp_path)}
    async with (
        Runtime(
            paths=paths,
            directory=folder,
            environment=environment,
            transport=model,
            options=HostOptions(titles=False, trust=True),
        ) as runtime,
        in_memory(App(runtime)) as wire,
    ):
        replay = Replay(wire, model, folder)
        replay.variables["proj"] = await replay.value("project")  # this part of the recording means its id
        yield replay


@pytest.mark.parametrize(
    ("source", "least"),
    [pytest.param(OWN, 60, id="own"), pytest.param(RECORDED, 91, id="recorded", marks=pytest.mark.recorded)],
)
async def test_known_requests_get_answers_of_the_same_shape(
    source: Path, least: int, memory: Wire, locked: Wire, asking: Replay, model: ScriptedTransport, project: Path
) -> None:
    """API-003, API-005, API-020, API-023, API-024, API-027, API-041, API-112, API-117, API-120, API-122, API-126,
    API-127, API-130, API-132, API-133, API-134, API-140, API-160, API-321: every sample but those for elsewhere."""
    replay, protected = Replay(memory, model, project), Replay(locked, model, project)
    problems: list[str] = []
    replayed = 0
    for sample in load(source):
        name = sample["name"]
        if elsewhere(name):
            continue
        is_asking = name.startswith((*ASKING, *ASKING_LATER)) and name != "question-session-list"
        using = asking if is_asking else protected if name.startswith("auth-") else replay
        if (before := BEFORE.get(name)) is not None:
            await before(using)
        answer = await using.send(sample)
        problems += differences(sample, answer)
        if answer.status == 200:
            using.capture(sample, answer)
        replayed += 1

    assert not problems, "\n".join(problems)
    assert replayed >= least


@pytest.mark.recorded
def test_every_exception_is_about_a_sample() -> None:
    """API-321: the tables above name samples that exist."""
    names = {sample["name"] for sample in load(RECORDED)}

    assert {*DIFFERENT, *ENVELOPE_ONLY, *BEFORE} <= names
    assert all(any(name.startswith(start) for name in names) for start in (*ELSEWHERE, *ASKING, *ASKING_LATER))
    assert all(rule.startswith("API-") for rule, _, _ in DIFFERENT.values())
