"""Ids that cannot be used again: that of a withdrawn prompt, and that of a deleted Session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from tests.cli.conftest import Machine
from tests.outside.test_clients import Serve, embedded, embedded_sync, network, network_sync

from holdfast import ApiError, AsyncClient, Client, ModelRef, PromptInput
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")
HELLO = PromptInput(text="hello")


@pytest.fixture(params=[network, embedded], ids=["network", "embedded"])
async def client(request: pytest.FixtureRequest, holdfast: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    async with request.param(holdfast, serve) as client, asyncio.timeout(30):
        yield client


@pytest.fixture(params=[network_sync, embedded_sync], ids=["network", "embedded"])
def blocking(request: pytest.FixtureRequest, holdfast: Machine, serve: Serve) -> Iterator[Client]:
    with request.param(holdfast, serve) as client:
        yield client


async def test_a_withdrawn_prompt_id_cannot_be_reused(client: AsyncClient) -> None:
    """SES-240: the same prompt again is a conflict that names the id, whether it is to be started or not; another id is
    admitted, and nothing of the withdrawn one runs."""
    session = await client.sessions.create(model=ECHO)
    await client.sessions.prompt(session.id, id="msg_gone", prompt=HELLO, resume=False)
    await client.sessions.withdraw(session.id, message_id="msg_gone")

    for resume in (False, True, None):
        with pytest.raises(ApiError) as refused:
            await client.sessions.prompt(session.id, id="msg_gone", prompt=HELLO, resume=resume)
        assert (refused.value.status, refused.value.code) == (409, "ConflictError")
        assert "msg_gone was withdrawn" in str(refused.value)
    await client.sessions.withdraw(session.id, message_id="msg_gone")
    assert await client.sessions.pending(session.id) == []

    await client.sessions.prompt(session.id, id="msg_new", prompt=HELLO)
    await client.sessions.wait(session.id)
    context = await client.sessions.context(session.id)
    assert [message.id for message in context if isinstance(message, UserMessage)] == ["msg_new"]


def test_a_withdrawn_prompt_id_cannot_be_reused_by_the_blocking_client(blocking: Client) -> None:
    """SES-240."""
    session = blocking.sessions.create(model=ECHO)
    blocking.sessions.prompt(session.id, id="msg_gone", prompt=HELLO, resume=False)
    blocking.sessions.withdraw(session.id, message_id="msg_gone")

    with pytest.raises(ApiError) as refused:
        blocking.sessions.prompt(session.id, id="msg_gone", prompt=HELLO)

    assert (refused.value.status, refused.value.code) == (409, "ConflictError")


async def test_a_retry_of_a_prompt_that_was_not_withdrawn_still_gets_its_receipt(client: AsyncClient) -> None:
    """SES-240, SES-041: pending or promoted."""
    session = await client.sessions.create(model=ECHO)
    first = await client.sessions.prompt(session.id, id="msg_one", prompt=HELLO, resume=False)
    assert await client.sessions.prompt(session.id, id="msg_one", prompt=HELLO, resume=False) == first

    await client.sessions.prompt(session.id, id="msg_one", prompt=HELLO)
    await client.sessions.wait(session.id)
    again = await client.sessions.prompt(session.id, id="msg_one", prompt=HELLO)

    assert (again.id, again.admitted_seq) == (first.id, first.admitted_seq)
    assert again.promoted_seq is not None


async def test_withdrawing_and_retrying_at_once_gives_a_receipt_or_a_conflict(client: AsyncClient) -> None:
    """SES-240: whichever comes first, every receipt that was given afterwards is a conflict."""
    session = await client.sessions.create(model=ECHO)
    for number in range(10):
        id = f"msg_{number}"
        await client.sessions.prompt(session.id, id=id, prompt=HELLO, resume=False)
        retry = client.sessions.prompt(session.id, id=id, prompt=HELLO, resume=False)
        await asyncio.gather(retry, client.sessions.withdraw(session.id, message_id=id), return_exceptions=True)
        with pytest.raises(ApiError):
            await client.sessions.prompt(session.id, id=id, prompt=HELLO, resume=False)
    assert await client.sessions.pending(session.id) == []


async def test_a_deleted_session_id_cannot_be_created_again(client: AsyncClient) -> None:
    """SES-241: a conflict that names the id. What was said in the deleted Session is out of reach."""
    session = await client.sessions.create(id="ses_once", model=ECHO)
    await client.sessions.prompt(session.id, prompt=PromptInput(text="the old conversation"))
    await client.sessions.wait(session.id)
    await client.sessions.delete(session.id)

    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            await client.sessions.create(id="ses_once", model=ECHO)
        assert (refused.value.status, refused.value.code) == (409, "ConflictError")
        assert "ses_once was deleted" in str(refused.value)
    for read in (client.sessions.history, client.sessions.messages, client.sessions.get):
        with pytest.raises(ApiError) as missing:
            await read("ses_once")
        assert missing.value.status == 404
    with pytest.raises(ApiError):
        async for _ in client.sessions.events("ses_once"):
            pass
    assert all(found.id != "ses_once" for found in (await client.sessions.list()).items)


def test_a_deleted_session_id_cannot_be_created_again_by_the_blocking_client(blocking: Client) -> None:
    """SES-241."""
    blocking.sessions.create(id="ses_once", model=ECHO)
    blocking.sessions.delete("ses_once")

    with pytest.raises(ApiError) as refused:
        blocking.sessions.create(id="ses_once", model=ECHO)

    assert (refused.value.status, refused.value.code) == (409, "ConflictError")


async def test_creating_one_id_at_once_gives_one_session(client: AsyncClient) -> None:
    """SES-241, SES-005: the check for a deleted id does not refuse a second caller."""
    created = await asyncio.gather(*(client.sessions.create(id="ses_shared", model=ECHO) for _ in range(8)))

    assert {session.id for session in created} == {"ses_shared"}


def test_a_deleted_id_stays_refused_after_a_rebuild_and_a_restart(holdfast: Machine, serve: Serve) -> None:
    """SES-241: `doctor --rebuild` keeps it deleted, and the conflict names the id on the wire."""
    server = serve("--no-auth")
    with httpx2.Client(base_url=server.url, timeout=30) as http:
        assert http.post("/api/session", json={"id": "ses_once"}).status_code == 200
        assert http.delete("/api/session/ses_once").status_code == 204
    server.process.terminate()
    server.process.communicate()
    assert holdfast("doctor", "--rebuild").code == 0
    assert holdfast("doctor").code == 0

    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        answer = http.post("/api/session", json={"id": "ses_once"})
        assert answer.status_code == 409, answer.text
        assert (answer.json()["_tag"], answer.json()["resource"]) == ("ConflictError", "ses_once")
