"""What a load balancer learns about a server: whether it answers, and whether it should get requests."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.core.database.postgres.proxy import Proxy
from tests.outside.test_clients import Serve
from tests.plain_http import NO_TLS
from tests.stores.pool import PooledDatabase
from tests.stores.stores import STORES

from holdfast import asgi, connect
from holdfast.schema.prompt import PromptInput
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def probe(server: Server, path: str, **headers: str) -> tuple[int, str]:
    found = httpx2.get(f"{server.url}{path}", headers=headers, verify=NO_TLS)
    assert "access-control-allow-origin" not in found.headers
    return found.status_code, found.text


def test_a_server_answers_probes_without_a_password_and_under_any_name(serve: Serve) -> None:
    """OPS-200, OPS-201: one word, which no page of another origin can read. Everything else stays closed."""
    server = serve()
    assert probe(server, "/healthz") == (200, "ok\n")
    assert probe(server, "/readyz") == (200, "ready\n")
    assert probe(server, "/readyz", host="10.1.2.3", origin="https://other.example") == (200, "ready\n")
    assert probe(server, "/api/health")[0] == 401
    assert probe(server, "/api/health", host="10.1.2.3")[0] == 403
    assert httpx2.post(f"{server.url}/readyz", verify=NO_TLS).status_code == 401


async def test_a_server_that_drains_is_healthy_and_not_ready(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """OPS-200, OPS-202: from the signal until its turns have ended."""
    provider.behave = provider.answer_later
    holdfast.use_provider(provider.url)
    server = serve("--drain", "30")
    async with connect(server.url, environment=holdfast.environment) as client:
        session = await client.sessions.create()
        await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await asyncio.to_thread(provider.asked.acquire)
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            while (await asyncio.to_thread(probe, server, "/readyz"))[0] == 200:  # noqa: ASYNC110 - a probe asks
                await asyncio.sleep(0.01)
        assert probe(server, "/readyz") == (503, "draining\n")
        assert probe(server, "/healthz") == (200, "ok\n")
    provider.released.set()
    assert (await asyncio.to_thread(finish, server.process)).code == 0


@pytest.fixture
def pooled() -> Iterator[PooledDatabase]:
    database = STORES.pool.take()
    yield database
    STORES.pool.give_back(database)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(STORES.pool.server.port)
    yield proxy
    proxy.close()


@pytest.mark.store("postgres", reason="a file does not go away")
async def test_a_server_without_its_database_is_not_ready(
    tmp_path: Path, pooled: PooledDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-203: until it is back."""
    monkeypatch.setattr("holdfast.core.database.postgres.writer.CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("holdfast.core.session.ownership.LEAVE_SECONDS", 0.3)
    agent = asgi(ScriptedModel("one").host(tmp_path, database=proxy.address(pooled.name)))
    async with (
        agent.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(agent), base_url="http://localhost") as http,
        asyncio.timeout(30),
    ):
        assert (await http.get("/readyz")).text == "ready\n"
        proxy.refuses = True
        proxy.cut()
        while (await http.get("/readyz")).status_code == 200:  # noqa: ASYNC110 - a probe asks
            await asyncio.sleep(0.02)
        assert (await http.get("/readyz")).text == "storage\n"
        assert (await http.get("/healthz")).status_code == 200
        proxy.heal()
        while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
