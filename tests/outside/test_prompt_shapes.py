"""The two shapes in which a prompt is sent over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.outside.test_clients import Serve


class Caller:
    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self.session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"

    def send(self, **payload: Any) -> httpx2.Response:
        return self._http.post(f"{self.session}/prompt", json={"resume": False, **payload})

    @property
    def pending(self) -> list[dict[str, Any]]:
        return list(self._http.get(f"{self.session}/pending").json()["data"])


@pytest.fixture
def caller(serve: Serve) -> Iterator[Caller]:
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        yield Caller(http)


FIELDS: dict[str, Any] = {
    "text": "hi",
    "files": [{"uri": "data:text/plain,abc", "name": "a"}],
    "agents": [{"name": "plan", "mention": {"start": 0, "end": 1, "text": "@"}}],
    "metadata": {"k": 1},
    "system": "answer in rhymes",
    "tools": {"bash": False},
    "agent": "plan",
    "model": {"id": "echo", "providerID": "demo"},
    "variant": "high",
}


def test_both_shapes_are_one_prompt(caller: Caller) -> None:
    """API-484, API-485: the same receipt for the same id; every field is in it, with the names of the wire."""
    flat = caller.send(id="msg_mine", **FIELDS)
    inside = caller.send(id="msg_mine", prompt=FIELDS)
    assert flat.status_code == 200, flat.text
    assert inside.json() == flat.json()

    prompt = flat.json()["data"]["prompt"]
    assert (prompt["text"], prompt["metadata"]) == ("hi", {"k": 1})
    assert prompt["options"] == {key: FIELDS[key] for key in ("system", "tools", "agent", "model", "variant")}
    assert prompt["agents"] == [{"name": "plan", "source": {"start": 0, "end": 1, "text": "@"}}]
    assert len(caller.pending) == 1
    silent = caller.send(text="hi", noReply=True).json()["data"]["prompt"]
    assert silent["options"] == {"noReply": True}


def test_both_shapes_at_once_are_refused(caller: Caller) -> None:
    """API-484: by the name of each field that stands beside `prompt`, unless it asks for nothing."""
    more = {"noReply": True, "skills": [{"id": "s"}], "format": {"type": "json_schema", "schema": {}}}
    for name, value in (FIELDS | more).items():
        answer = caller.send(prompt={"text": "hi"}, **{name: value})
        assert (answer.status_code, answer.json()["_tag"], answer.json()["field"]) == (400, "InvalidRequestError", name)
        assert f"`{name}`" in answer.json()["message"]
    assert caller.pending == []
    empty = {"noReply": False, "skills": [], "tools": {}, "system": "", "format": {"type": "text"}, "agent": None}
    assert caller.send(prompt={"text": "hi"}, **empty).status_code == 200


def test_neither_shape_is_refused(caller: Caller) -> None:
    """API-484: nothing at all misses `prompt`; fields without a text miss `text`."""
    assert caller.send().json()["message"] == 'Missing key\n  at ["prompt"]'
    assert caller.send(system="x").json()["message"] == 'Missing key\n  at ["text"]'
    assert caller.send(prompt=None, text=None).status_code == 400
    assert caller.send(text="hi", system=None, files=None).status_code == 200
    assert caller.send(prompt={"text": "hi", "system": None}).status_code == 400


def test_a_refusal_names_the_field_in_the_shape_of_the_caller(caller: Caller) -> None:
    """API-484, SES-233."""
    missing = {"text": "hi", "files": [{"uri": "file:///no/such/file"}]}
    assert caller.send(**missing).json()["field"] == "files[0]"
    assert caller.send(prompt=missing).json()["field"] == "prompt.files[0]"
    assert caller.send(text="hi", tools={"bahs": False}).json()["field"] == "tools.bahs"
    assert caller.send(prompt={"text": "hi", "tools": {"bahs": False}}).json()["field"] == "prompt.tools.bahs"


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": {"bash": "no"}},
        {"tools": ["bash"]},
        {"noReply": "yes"},
        {"metadata": [1]},
        {"model": {"providerID": "demo", "modelID": "echo"}},
        {"system": 1},
    ],
)
def test_a_value_of_another_type_is_refused(caller: Caller, wrong: dict[str, Any]) -> None:
    """API-484."""
    for answer in (caller.send(text="hi", **wrong), caller.send(prompt={"text": "hi", **wrong})):
        assert (answer.status_code, answer.json()["_tag"]) == (400, "InvalidRequestError")
    assert caller.pending == []


def test_numbers_in_metadata_come_back_as_they_were(caller: Caller) -> None:
    """SES-299: whatever JSON holds, the prompt is admitted and promoted with it, or refused."""
    for value in (0, -1, 1.5, 1e300, 2**53, 2**64 - 1, -(2**63), "\u2028", {"a": [None, True]}):
        assert caller.send(text="hi", metadata={"v": value}).json()["data"]["prompt"]["metadata"] == {"v": value}
    assert caller.send(text="hi", metadata={"v": 10**30}).status_code in (200, 400)
