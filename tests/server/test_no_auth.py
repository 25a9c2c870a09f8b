"""Without a password nobody is asked for one."""

from __future__ import annotations

import httpx2
import pytest
from tests.server.conftest import Wire

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic !!!"}, {"authorization": "Bearer x"}])
async def test_credentials_are_ignored_when_authorization_is_off(memory: Wire, headers: dict[str, str]) -> None:
    """API-040, API-400: auth is off, also for the embedded host's own application."""
    assert (await memory.get("/api/health?auth_token=nonsense", headers)).status == 200


async def test_a_foreign_origin_still_only_reads(http: httpx2.AsyncClient) -> None:
    """API-044: the refusal does not depend on a password."""
    foreign = {"origin": "https://evil.example"}

    assert (await http.get("/api/health", headers=foreign)).status_code == 200
    assert (await http.post("/api/session", headers=foreign, json={})).status_code == 403


async def test_pages_of_this_machine_are_foreign_without_a_password(http: httpx2.AsyncClient) -> None:
    """API-413: served without the header, as any page that may not read the answer; files and terminals are not."""
    page = {"origin": "http://localhost:3000"}

    answer = await http.get("/api/health", headers=page)
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (200, False)
    preflight = await http.options("/api/session", headers=page)
    assert (preflight.status_code, "access-control-allow-origin" in preflight.headers) == (204, False)
    for path in ("/api/fs/list", "/api/fs/find?query=a", "/api/fs/read/x", "/api/pty"):
        refused = await http.get(path, headers=page)
        assert (refused.status_code, refused.json()["_tag"]) == (403, "ForbiddenError")
        assert "--allow-origin" in refused.json()["message"]
