"""Everything that the OpenAPI document allows and much that it does not, asked of the real application."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from tests.server.conftest import Answer, Wire, in_memory

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.protocol.openapi import document
from holdfast.server.app import App

schemathesis = pytest.importorskip("schemathesis")
requests = pytest.importorskip("requests")

from schemathesis import GenerationMode  # noqa: E402
from schemathesis.core.transport import Response  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}
MUTABLE = {label for label, operation in OPERATIONS.items() if operation.definition.raw.get("requestBody")}
HOST = "http://localhost"
ANY_FILE = "/api/fs/read/*"
FILES = st.sampled_from(["hello.txt", "", ".", "..", "a/../hello.txt", "%00", "%2e%2e%2f", "nowhere"])
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]

FEW = settings(
    max_examples=3,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=60, derandomize=False, phases=(Phase.generate, Phase.shrink))


class Place:
    """One application with a Session that has been used, so that there is something to find."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self.known: dict[str, str] = {}

    def __enter__(self) -> Place:
        self._wire = self._runner.run(self._start())
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    def send(self, prepared: Any) -> Answer:
        return self._runner.run(self._send(prepared))

    async def _start(self) -> Wire:
        self.project = self._folder / "project"
        self.project.mkdir()
        (self.project / "hello.txt").write_text("hello\n", encoding="utf-8")
        runtime = await self._open.enter_async_context(
            Runtime(
                paths=Paths(self._folder / "data"),
                directory=self.project,
                environment={"HOME": str(self._folder)},
                transport=ScriptedTransport([Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),))]),
                options=HostOptions(titles=False),
            )
        )
        wire = await self._open.enter_async_context(in_memory(App(runtime)))
        session = (await wire.create())["id"]
        message = (await wire.answer(session))["id"]
        await wire.prompt(session, "later", id="msg_later", resume=False)
        asked = await wire.post(f"/api/session/{session}/permission", {"action": "bash", "resources": ["ls"]})
        terminal = await wire.post("/api/pty", {"command": "cat"})
        self.known = {
            "sessionID": session,
            "messageID": message,
            "requestID": asked.data["id"],
            "ptyID": terminal.data["id"],
            "providerID": "openai",
            "integrationID": "openai",
        }
        return wire

    async def _send(self, prepared: Any) -> Answer:
        target, headers = prepared.path_url, dict(prepared.headers)
        path = target.partition("?")[0]
        if "/event" in path or path.endswith("/view"):
            async with self._wire.stream(target, headers) as stream:
                if stream.status == 200:
                    return Answer(stream.status, stream.headers["content-type"], b"")
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
        return await self._wire(prepared.method, target, body=body, headers=headers)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_one_that_the_document_names(label: str, place: Place) -> None:
    """API-002, API-003, API-020, API-022: status, media type and body, for requests that fit the document and for those
    that do not; a failure of ours has a reference to the log."""
    _explore(label, place, FEW)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_one_that_the_document_names_at_length(label: str, place: Place) -> None:
    """API-002, API-003, API-020, API-022: the same, with many more requests."""
    _explore(label, place, MANY)


def _explore(label: str, place: Place, effort: settings) -> None:
    operation = OPERATIONS[label]
    takes = label in MUTABLE or operation.path_parameters or operation.query
    for mode in MODES if takes else MODES[:1]:

        @effort
        @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans(), file=FILES)
        def explore(case: Any, known: bool, file: str) -> None:
            _check(case, place, known=known, file=file)

        with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
            explore()  # where any text will do there are no wrong ones


def _check(case: Any, place: Place, *, known: bool, file: str) -> None:
    if known:
        case.path_parameters = {name: place.known.get(name, value) for name, value in case.path_parameters.items()}
        if isinstance(case.body, dict) and "messageID" in case.body:
            case.body = {**case.body, "messageID": place.known["messageID"]}
    _tame(case, place.project)
    sent = requests.Request(**case.as_transport_kwargs(base_url=HOST)).prepare()
    if case.operation.path == ANY_FILE:
        sent.url = sent.url.replace(quote(ANY_FILE, safe="/*"), ANY_FILE[:-1] + file)
    answer = place.send(sent)
    headers = {"content-type": [answer.content_type]} if answer.content_type else {}
    response = Response(answer.status, headers, answer.body, sent, elapsed=0.0, verify=False)
    checks = [status_code_conformance]
    if case.operation.path != ANY_FILE:  # a file has the media type of its own
        checks.append(content_type_conformance)
    if answer.body:
        checks.append(response_schema_conformance)
    if answer.status >= 500:
        assert answer.json["_tag"] != "UnknownError" or answer.json["ref"], answer.body
    case.validate_response(response, checks=checks)


def _tame(case: Any, project: Path) -> None:
    """A place that happens to exist is the project, and a terminal runs nothing that matters."""
    for name, value in (case.query or {}).items():
        if name.startswith("location") and isinstance(value, str) and os.path.exists(value.replace("\0", "")):
            case.query[name] = str(project)
    if case.operation.label == "POST /api/pty" and isinstance(case.body, dict):
        case.body = {**case.body, "command": "true"}
