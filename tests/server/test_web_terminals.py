"""Terminals of a page that is signed in: a ticket opens them, and the end of the sign-in closes them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from tests.plain_http import NO_TLS
from tests.server.conftest import PATIENCE
from tests.server.test_pty import TICKET, serving
from tests.server.test_web_sign_in import Browser, sign_in
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.server.app import App
from holdfast.server.auth import Credentials
from holdfast.server.pty import SIGNED_OUT

pytestmark = pytest.mark.anyio


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials("correct horse")


async def terminal(http: httpx2.AsyncClient, browser: Browser) -> str:
    answer = await http.post("/api/pty", json={"command": "/bin/cat"}, headers=browser.headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["id"])


async def ticket(http: httpx2.AsyncClient, browser: Browser, id: str) -> str:
    answer = await http.post(f"/api/pty/{id}/connect-token", headers={**browser.headers, **TICKET})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["ticket"])


def opened(address: str, id: str, query: str, **headers: str) -> Any:
    return connect(f"ws://{address}/api/pty/{id}/connect?{query}", additional_headers=headers, proxy=None)


async def closed(socket: Any) -> int:
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionClosed):
            while True:
                await socket.recv()
    return int(socket.close_code)


async def test_a_sign_in_opens_terminals_by_ticket_and_closes_them_with_its_end(app: App) -> None:
    """WEB-011, WEB-018: the cookie that a browser sends with a socket admits to nothing; the sockets of others stay."""
    async with (
        serving(app) as address,
        httpx2.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE, verify=NO_TLS) as http,
    ):
        one, other = await sign_in(http), await sign_in(http)
        id = await terminal(http, one)
        for query in ("", "ticket=wrong"):
            with pytest.raises(InvalidStatus):
                async with opened(address, id, query, cookie=one.cookie):
                    pass
        mine, theirs, unused = [await ticket(http, each, id) for each in (one, other, one)]
        origin = f"http://{address}"
        async with (
            opened(address, id, f"ticket={mine}", origin=origin, cookie=one.cookie) as first,
            opened(address, id, f"ticket={theirs}") as second,
        ):
            await first.send("x")
            while "x" not in str(await second.recv()):
                pass
            assert (await http.post("/web/sign-out", headers=one.headers)).status_code == 204
            assert await closed(first) == SIGNED_OUT
            async with opened(address, id, f"ticket={unused}") as late:
                assert await closed(late) == SIGNED_OUT
            await second.send("y")
            while "y" not in str(await second.recv()):
                pass
