"""A real server for the tests of one module, and its HTTP as a client without any library sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.cli.conftest import Machine, finish

ECHO = {"id": "echo", "providerID": "demo"}


class Wire:
    """Calls one server. `machine` is where it runs."""

    def __init__(self, machine: Machine, http: httpx2.Client) -> None:
        self.machine = machine
        self.http = http

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.http.get(path, **options)

    def post(self, path: str, payload: Any = None, **options: Any) -> httpx2.Response:
        return self.http.post(path, json=payload if payload is not None else {}, **options)

    def data(self, path: str, **options: Any) -> Any:
        """What a successful answer carries."""
        answer = self.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def create(self, **payload: Any) -> str:
        """The path of a new Session."""
        answer = self.post("/api/session", {"model": ECHO, **payload})
        assert answer.status_code == 200, answer.text
        return f"/api/session/{answer.json()['data']['id']}"

    def ask(self, session: str, text: str, **payload: Any) -> Any:
        """Prompt and wait; the receipt."""
        answer = self.post(f"{session}/prompt", {"prompt": {"text": text}, **payload})
        assert answer.status_code == 200, answer.text
        assert self.post(f"{session}/wait").status_code == 204
        return answer.json()["data"]

    def events(self, path: str, count: int, **options: Any) -> list[Any]:
        """The first events of a stream."""
        found: list[Any] = []
        with self.http.stream("GET", path, **options) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == count:
                    break
        return found


@contextmanager
def serving(home: Path, *arguments: str, **environment: str) -> Iterator[Wire]:
    """`holdfast serve` on a machine of its own; SIGTERM ends it."""
    machine = Machine(home)
    process = machine.start("serve", "--port", "0", *arguments, **environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listening on" in line, finish(process)
        with httpx2.Client(base_url=line.split()[-1], timeout=45, trust_env=False) as http:
            yield Wire(machine, http)
        process.terminate()
        assert finish(process).code in (0, -15)
    finally:
        machine.clean_up()


def failure(answer: httpx2.Response) -> tuple[int, str]:
    body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert body["message"]
    return answer.status_code, body["_tag"]
