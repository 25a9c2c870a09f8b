"""A database whose finished compactions were stored as version 1, by an earlier build."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine
from tests.outside.test_clients import Serve
from tests.stores.stores import STORES

from holdfast import Holdfast
from holdfast.schema.session_event import CompactionEnded

pytestmark = pytest.mark.anyio

ENDED = "session.next.compaction.ended"


class Conversation:
    def __init__(self, http: httpx2.Client, id: str) -> None:
        self.http = http
        self.path = f"/api/session/{id}"

    def turn(self, text: str) -> None:
        assert self.http.post(f"{self.path}/prompt", json={"prompt": {"text": text}}).status_code == 200
        assert self.http.post(f"{self.path}/wait").status_code == 204

    def compact(self) -> None:
        answer = self.http.post(f"{self.path}/compact")
        assert answer.status_code == 204, answer.text

    def get(self, what: str) -> Any:
        return self.http.get(f"{self.path}{what}").json()["data"]

    @property
    def compactions(self) -> list[dict[str, Any]]:
        return [event for event in self.get("/history?limit=100") if event["type"] == ENDED]


def stored_types(machine: Machine) -> list[str]:
    with STORES.rows(machine.data / "holdfast.db") as run:
        rows = run("select type from event where type like ? order by aggregate_id, seq", f"{ENDED}.%")
        return [str(row[0]) for row in rows]


def store_as_version_1(machine: Machine) -> None:
    with STORES.rows(machine.data / "holdfast.db") as run:
        run("update event set type = ? where type = ?", f"{ENDED}.1", f"{ENDED}.2")


async def test_version_1_compactions_are_read_replayed_and_rebuilt(holdfast: Machine, serve: Serve) -> None:
    """EVT-080: context, messages and history are the same before and after; a new one is stored as version 2."""
    holdfast.script(*({"text": f"answer {number}"} for number in range(12)))
    holdfast.configure_user(compaction={"keep": {"tokens": 0}}, holdfast={"titles": False})
    first = serve("--no-auth")
    with httpx2.Client(base_url=first.url, timeout=PATIENCE) as http:
        model = {"providerID": "demo", "id": "scripted"}
        session_id = http.post("/api/session", json={"model": model}).json()["data"]["id"]
        talk = Conversation(http, session_id)
        for text in ("one", "two", "three"):
            talk.turn(text * 500)
        talk.compact()
        talk.turn("four" * 500)
        context, messages, events = talk.get("/context"), talk.get("/message?order=asc"), talk.get("/history?limit=100")
        assert [event["durable"]["version"] for event in talk.compactions] == [2]
    first.process.terminate()
    first.process.communicate()
    assert stored_types(holdfast) == [f"{ENDED}.2"]
    store_as_version_1(holdfast)

    assert holdfast("doctor").code == 0
    assert holdfast("doctor", "--rebuild").code == 0
    second = serve("--no-auth")
    with httpx2.Client(base_url=second.url, timeout=PATIENCE) as http:
        talk = Conversation(http, session_id)
        assert (talk.get("/context"), talk.get("/message?order=asc")) == (context, messages)
        (ended,) = talk.compactions
        expected = next(event for event in events if event["type"] == ENDED)
        assert ended == {**expected, "durable": {**expected["durable"], "version": 1}}
        talk.turn("five" * 500)
        talk.compact()
        assert [event["durable"]["version"] for event in talk.compactions] == [1, 2]
    second.process.terminate()
    second.process.communicate()
    assert stored_types(holdfast) == [f"{ENDED}.1", f"{ENDED}.2"]

    async with Holdfast(holdfast.project, preset="allow", data=holdfast.data, environment=holdfast.environment) as hf:
        assert await hf.verify() == []
        decoded = [event.data for event in (await hf.sessions.history(session_id, limit=100)).events]
        assert sum(isinstance(data, CompactionEnded) for data in decoded) == 2
