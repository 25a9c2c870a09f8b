"""Fields of a prompt that cannot be honoured are refused by name, instead of being accepted and ignored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine
from tests.outside.test_clients import Serve, embedded, embedded_sync, network

from holdfast import ApiError, AsyncClient, ModelRef, PromptInput

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")
ASKING: dict[str, Any] = {"parts": [{"type": "text", "text": "hello"}], "command": "init", "arguments": "now"}
MISNAMED: dict[str, Any] = {"messageID": "msg_mine"}


@pytest.fixture(params=[network, embedded], ids=["network", "embedded"])
async def client(request: pytest.FixtureRequest, holdfast: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    async with request.param(holdfast, serve) as client, asyncio.timeout(30):
        yield client


def test_every_unsupported_field_is_refused_by_name(serve: Serve) -> None:
    """API-455, API-583: beside the prompt and inside it; nothing is admitted. The same for the parent of a new Session.
    Other unknown fields are ignored (API-006)."""
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"

        def send(**payload: Any) -> httpx2.Response:
            return http.post(f"{session}/prompt", json={"resume": False, **payload})

        beside = [(name, send(prompt={"text": "hi"}, **{name: value})) for name, value in (ASKING | MISNAMED).items()]
        flat = [(name, send(text="hi", **{name: value})) for name, value in (ASKING | MISNAMED).items()]
        alone = [(name, send(**{name: value})) for name, value in (ASKING | MISNAMED).items()]
        inside = [(f"prompt.{name}", send(prompt={"text": "hi", name: value})) for name, value in ASKING.items()]
        for name, answer in beside + flat + alone + inside:
            assert (answer.status_code, answer.json()["_tag"]) == (400, "InvalidRequestError"), name
            assert (answer.json()["kind"], answer.json()["field"]) == ("Payload", name)
            assert f"`{name}` is not supported" in answer.json()["message"]
        assert http.get(f"{session}/pending").json()["data"] == []
        assert send(prompt={"text": "hi", "bogus": 1}, other={"a": 1}).status_code == 200

        refused = http.post("/api/session", json={"parentID": session.rpartition("/")[2]})
        assert (refused.status_code, refused.json()["field"]) == (400, "parentID")
        assert "only the tool `subagent` makes children. Nothing was created." in refused.json()["message"]
        assert len(http.get("/api/session").json()["data"]) == 1
        assert http.post("/api/session", json={"parentID": None}).status_code == 200


@pytest.mark.parametrize("value", [None, False, {}, [], ""])
def test_a_value_that_asks_for_nothing_is_accepted(serve: Serve, value: object) -> None:
    """API-455."""
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"
        payload = {"prompt": {"text": "hi", "parts": value}, "command": value, "messageID": value, "resume": False}

        assert http.post(f"{session}/prompt", json=payload).status_code == 200


async def test_clients_and_hosts_refuse_unsupported_fields(client: AsyncClient) -> None:
    """API-455: an argument that does not exist is a TypeError; in a plain dictionary it is the server's refusal."""
    session = await client.sessions.create(model=ECHO)
    untyped: Any = client.sessions.prompt
    with pytest.raises(TypeError):
        await untyped(session.id, prompt=PromptInput(text="hi"), parts=ASKING["parts"])
    with pytest.raises(TypeError):
        PromptInput(text="hi", parts=ASKING["parts"])  # type: ignore[call-arg]
    with pytest.raises(ApiError) as refused:
        await untyped(session.id, prompt={"text": "hi", **ASKING})

    assert (refused.value.status, refused.value.code) == (400, "InvalidRequestError")
    assert "`prompt.parts`" in str(refused.value)
    assert await client.sessions.pending(session.id) == []


def test_the_blocking_host_refuses_unsupported_fields(holdfast: Machine, serve: Serve) -> None:
    """API-455."""
    with embedded_sync(holdfast, serve) as client:
        session = client.sessions.create(model=ECHO)
        untyped: Any = client.sessions.prompt
        with pytest.raises(TypeError):
            untyped(session.id, prompt=PromptInput(text="hi"), noReply=True)  # its name is `no_reply`
        with pytest.raises(ApiError) as refused:
            untyped(session.id, prompt={"text": "hi", "command": "init"})

        assert "`prompt.command`" in str(refused.value)
