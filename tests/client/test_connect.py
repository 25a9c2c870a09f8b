"""A client finds the server of this machine and its credential by itself."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import msgspec
import pytest
from tests.client.test_every_transport import listening

from holdfast.client.connect import _resolve, connect, connect_sync
from holdfast.client.credential import credential_file, known_password
from holdfast.client.discovery import RunningServer, running_servers, servers_folder
from holdfast.client.errors import ApiError, ClientError
from holdfast.core.runtime import Runtime
from holdfast.embedded.credential import ensure_password
from holdfast.embedded.registration import registered, server_of
from holdfast.server.app import App
from holdfast.server.auth import Credentials

pytestmark = pytest.mark.anyio


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


async def test_a_client_finds_address_and_password(
    runtime: Runtime, environment: dict[str, str], tmp_path: Path
) -> None:
    """API-040, API-046, API-317: generated once, kept in a file of the owner, used by both clients; a wrong one is
    refused."""
    password = ensure_password(environment)
    app = App(runtime, credentials=Credentials(password))
    async with listening(app) as url:
        with registered(environment, id="srv", url=url, data=tmp_path / "data"):
            async with connect(environment=environment) as client:
                assert (await client.health.get()).healthy
            found = server_of({**environment, "HOLDFAST_DATA": str(tmp_path / "data")})
            assert found is not None
            assert (found.url, found.pid) == (url, os.getpid())
            assert server_of({**environment, "HOLDFAST_DATA": str(tmp_path / "other")}) is None
        async with connect(url, password="wrong", environment=environment) as client:
            with pytest.raises(ApiError) as refused:
                await client.health.get()

    assert credential_file(environment).stat().st_mode & 0o777 == 0o600
    assert ensure_password(environment) == password == known_password(environment)
    assert refused.value.tag == "UnauthorizedError"
    assert running_servers(environment) == []


def test_servers_that_start_at_once_agree_on_a_password(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-046: whoever wrote it first; nobody is left with one that no client knows."""
    made = ["second", "first"]
    answers = []

    def token(size: int) -> str:
        if len(made) == 2:
            mine = made.pop(0)
            answers.append(ensure_password(environment))
            return mine
        return made.pop()

    monkeypatch.setattr(secrets, "token_urlsafe", token)
    answers.append(ensure_password(environment))

    assert answers == ["first", "first"]
    assert known_password(environment) == "first"
    assert [path.name for path in credential_file(environment).parent.iterdir()] == ["server-password"]


def test_an_empty_password_file_is_written_anew(environment: dict[str, str]) -> None:
    """API-046: what a crash left behind is no password."""
    path = credential_file(environment)
    path.parent.mkdir(parents=True)
    path.write_text("", encoding="ascii")

    assert len(ensure_password(environment)) >= 43
    assert ensure_password(environment) == known_password(environment)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_proxy_is_not_asked_for_this_machine(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-046, API-309: it could not reach it, and would see the password."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    def asked(url: str) -> bool:
        with connect_sync(url, environment={}) as client:
            return client.health.get().healthy

    async with listening(App(runtime)) as url:
        async with connect(url, environment={}) as client:
            assert (await client.health.get()).healthy
        assert await asyncio.to_thread(asked, url)


@pytest.mark.parametrize(
    ("url", "given", "sent"),
    [
        ("http://localhost:1", None, "kept"),
        ("http://[::1]:1", None, "kept"),
        ("http://example.com", None, None),
        ("http://localhost.example.com", None, None),
        ("http://example.com", "mine", "mine"),
    ],
)
def test_the_kept_password_is_for_this_machine_only(
    environment: dict[str, str], url: str, given: str | None, sent: str | None
) -> None:
    """API-046: what the local server made for itself never goes to another host; what the user gives, goes."""
    path = credential_file(environment)
    path.parent.mkdir(parents=True)
    path.write_text("kept\n", encoding="ascii")
    if given is not None:
        environment["OPENCODE_SERVER_PASSWORD"] = given
    assert _resolve(url, None, environment) == (url, ("opencode", sent) if sent else None)


def test_the_kept_password_is_for_a_server_of_this_machine_at_any_address(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """API-046: one that listens on another interface wrote down where."""
    password = ensure_password(environment)
    url = "http://192.0.2.7:4096"
    assert _resolve(url, None, environment) == (url, None)
    with registered(environment, id="srv", url=url, data=tmp_path):
        assert _resolve(url, None, environment) == (url, ("opencode", password))


@pytest.mark.parametrize("content", [b"{", b"", b"\xff", b'{"id":"x"}'])
def test_what_others_left_behind_is_passed_over(environment: dict[str, str], content: bytes) -> None:
    """API-046: a dead process and a broken file are no server."""
    folder = servers_folder(environment)
    folder.mkdir(parents=True)
    (folder / "1.json").write_bytes(content)
    dead = RunningServer(id="srv", version="0", url="http://localhost:1", pid=2**22 + 1, data="/", started=1)
    (folder / "2.json").write_bytes(msgspec.json.encode(dead))

    assert running_servers(environment) == []
    with pytest.raises(ClientError, match="no server runs"):
        connect_sync(environment=environment)


def test_the_newest_server_is_first(environment: dict[str, str]) -> None:
    """API-046: among those that live."""
    folder = servers_folder(environment)
    folder.mkdir(parents=True)
    for started in (2, 3, 1):
        server = RunningServer(
            id=f"srv{started}", version="0", url="http://localhost:1", pid=os.getpid(), data="/", started=started
        )
        (folder / f"{started}.json").write_bytes(msgspec.json.encode(server))

    assert [server.id for server in running_servers(environment)] == ["srv3", "srv2", "srv1"]
