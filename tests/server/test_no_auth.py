"""Without a password nobody is asked for one."""

from __future__ import annotations

import httpx2
import pytest
from tests.server.conftest import Wire

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic !!!"}, {"authorization": "Bearer x"}])
async def test_credentials_do_not_matter(memory: Wire, headers: dict[str, str]) -> None:
    """API-040, API-400: auth is off, also for the embedded host's own application."""
    assert (await memory.get("/api/health?auth_token=nonsense", headers)).status == 200


async def test_a_foreign_origin_still_only_reads(http: httpx2.AsyncClient) -> None:
    """API-044: the refusal does not depend on a password."""
    foreign = {"origin": "https://evil.example"}

    assert (await http.get("/api/health", headers=foreign)).status_code == 200
    assert (await http.post("/api/session", headers=foreign, json={})).status_code == 403
