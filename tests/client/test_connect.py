"""A client finds the server of this machine and its credential by itself."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest
import uvicorn
from tests.client.test_every_transport import listening

from holdfast.client import local_socket
from holdfast.client.connect import _resolve, connect, connect_sync
from holdfast.client.credential import credential_file, kept_password
from holdfast.client.discovery import RunningServer, running_servers, servers_folder
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.local_socket import UntrustedSocket, verify_socket
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded import connection, credential
from holdfast.embedded.connection import Connection
from holdfast.embedded.credential import generated_password
from holdfast.embedded.registration import SOCKET_PATH_BYTES, registered, server_of
from holdfast.server.app import App
from holdfast.server.auth import Credentials

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:4096"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


@asynccontextmanager
async def serving(app: App, listener: socket.socket) -> AsyncIterator[None]:
    """As `holdfast serve` does for the clients of this machine: on the registered socket alone."""
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, lifespan="off", log_level="critical"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    yield
    server.should_exit = True
    await task


async def test_a_client_finds_address_and_password(
    runtime: Runtime, environment: dict[str, str], tmp_path: Path
) -> None:
    """API-046, API-317, API-415: through the socket, though nobody listens on the port; a wrong password is refused."""
    data = tmp_path / "data"
    with (
        generated_password(environment) as password,
        registered(environment, id="srv", url=URL, data=data) as listener,
    ):
        app = App(runtime, credentials=Credentials(password))
        async with serving(app, listener):
            for url in (None, URL, "http://localhost:4096/", "http://[::1]:4096"):
                async with connect(url, environment=environment) as client:
                    assert (await client.health.get()).healthy
            with connect_sync(environment=environment) as blocking:
                assert (await asyncio.to_thread(blocking.health.get)).healthy
            found = server_of({**environment, "HOLDFAST_DATA": str(data)})
            assert found is not None
            assert (found.url, found.pid) == (URL, os.getpid())
            assert server_of({**environment, "HOLDFAST_DATA": str(tmp_path / "other")}) is None
            async with connect(password="wrong", environment=environment) as client:
                with pytest.raises(ApiError) as refused:
                    await client.health.get()

    assert refused.value.code == "UnauthorizedError"
    assert running_servers(environment) == []
    assert list(servers_folder(environment).iterdir()) == []


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


@pytest.mark.parametrize("url", [URL, "http://localhost:4096", "http://[::1]:4096", "http://192.0.2.7:4096"])
def test_the_kept_password_is_for_the_socket_of_a_running_server_only(
    environment: dict[str, str], tmp_path: Path, url: str
) -> None:
    """API-046, API-415: it is never sent to a port, whoever listens there; what the user gives, goes where he says."""
    with generated_password(environment) as password:
        assert _resolve(url, None, environment).auth is None
        with registered(environment, id="srv", url=URL, data=tmp_path):
            found = _resolve(url, None, environment)
            known = "192.0.2.7" not in url
            assert (found.auth, found.socket is not None) == (("opencode", password) if known else None, known)
        assert _resolve(url, None, environment).auth is None
    environment["OPENCODE_SERVER_PASSWORD"] = "mine"
    assert _resolve(url, None, environment).auth == ("opencode", "mine")


def test_a_server_at_another_address_is_reached_through_its_socket(environment: dict[str, str], tmp_path: Path) -> None:
    """API-046, API-415: one that listens on another interface wrote down where."""
    url = "http://192.0.2.7:4096"
    with registered(environment, id="srv", url=url, data=tmp_path):
        assert _resolve(url, None, environment).socket is not None
        for other in ("http://192.0.2.7:4097", "https://192.0.2.7:4096", "http://192.0.2.8:4096", "http://["):
            assert _resolve(other, None, environment).socket is None


# -- what is left of servers that are gone -----------------------------------------------------------------------


def leave_behind(folder: Path, name: str, content: bytes) -> list[Path]:
    """The files of a server that was killed."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = [folder / f"{name}{suffix}" for suffix in (".json", ".lock", ".sock")]
    paths[0].write_bytes(content)
    paths[1].touch()
    # Bound elsewhere: the path of a test's own folder may be too long for a socket.
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        tempfile.TemporaryDirectory(dir="/tmp") as short,
    ):
        listener.bind(f"{short}/socket")
        os.rename(f"{short}/socket", paths[2])
    return paths


def described(folder: Path, name: str, started: int = 1) -> RunningServer:
    """With a process id that lives, as after it was given to another process."""
    return RunningServer(
        id=f"srv{started}",
        version="0",
        url=URL,
        pid=os.getpid(),
        data="/",
        started=started,
        socket=str(folder / f"{name}.sock"),
    )


def test_the_registration_of_a_killed_server_is_removed(environment: dict[str, str]) -> None:
    """API-415: the lock decides, neither the process id nor what the file says."""
    folder = servers_folder(environment)
    left = leave_behind(folder, "one", msgspec.json.encode(described(folder, "one")))
    for number, content in enumerate((b"{", b"", b"\xff", b'{"id":"x"}')):
        left += leave_behind(folder, f"broken{number}", content)
    (folder / "4711.json").write_bytes(b"{}")  # of a version that had no lock

    assert running_servers(environment) == []
    assert list(folder.iterdir()) == []
    with pytest.raises(ClientError, match="no server runs"):
        connect_sync(environment=environment)


@contextmanager
def held(folder: Path, name: str) -> Iterator[None]:
    handle = os.open(folder / f"{name}.lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


def test_the_newest_server_is_first(environment: dict[str, str]) -> None:
    """API-046: among those that run."""
    folder = servers_folder(environment)
    for started in (2, 3, 1):
        leave_behind(folder, f"s{started}", msgspec.json.encode(described(folder, f"s{started}", started)))
    with held(folder, "s1"), held(folder, "s2"), held(folder, "s3"):
        assert [server.id for server in running_servers(environment)] == ["srv3", "srv2", "srv1"]


def test_two_clients_that_look_at_once_do_not_mislead_each_other(environment: dict[str, str]) -> None:
    """API-415: a client that looks at a lock does not hold it for another one."""
    folder = servers_folder(environment)
    leave_behind(folder, "one", b"{}")
    handle = os.open(folder / "one.lock", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    try:
        assert running_servers(environment) == []
    finally:
        os.close(handle)


def test_a_directory_that_others_could_write_is_made_private(environment: dict[str, str], tmp_path: Path) -> None:
    """API-415, TOL-328: mode 0700, and every file 0600, whatever the umask is."""
    folder = servers_folder(environment)
    folder.mkdir(parents=True, mode=0o777)
    folder.chmod(0o777)
    before = os.umask(0)
    try:
        with registered(environment, id="srv", url=URL, data=tmp_path):
            assert folder.stat().st_mode & 0o777 == 0o700
            assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    finally:
        os.umask(before)


@pytest.mark.parametrize("fault", ["gone", "file", "open", "dead"])
def test_a_socket_that_is_not_ours_gets_nothing(environment: dict[str, str], tmp_path: Path, fault: str) -> None:
    """API-415: before anything is sent."""
    with registered(environment, id="srv", url=URL, data=tmp_path) as listener:
        path = Path(listener.getsockname())
        verify_socket(str(path))
        if fault in ("gone", "file"):
            path.unlink()
        if fault == "file":
            path.touch()
        if fault == "open":
            path.parent.chmod(0o755)
        if fault == "dead":
            listener.close()
        with pytest.raises(UntrustedSocket):
            verify_socket(str(path))
        path.parent.chmod(0o700)
        if fault != "open":
            with pytest.raises(ClientError, match="cannot be reached"):
                connect_sync(environment=environment)


async def test_both_ends_of_a_socket_check_whose_process_is_at_the_other(
    runtime: Runtime, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-415: the system says it; another user's process is neither served nor spoken to."""
    with registered(environment, id="srv", url=URL, data=tmp_path) as listener:
        async with serving(App(runtime), listener), connect(environment=environment) as client:
            assert (await client.health.get()).healthy
            monkeypatch.setattr(connection, "peer_uid", lambda _: os.getuid() + 1)
            async with connect(environment=environment) as refused:
                with pytest.raises(ClientError):
                    await refused.health.get()
            monkeypatch.setattr(local_socket, "peer_uid", lambda _: os.getuid() + 1)
            with pytest.raises(ClientError, match="another user"):
                connect(environment=environment)


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    """API-415: the socket is in a private directory elsewhere then, and goes with the server too."""
    environment = {"HOME": str(tmp_path / ("long" * 30))}
    with registered(environment, id="srv", url=URL, data=tmp_path):
        (server,) = running_servers(environment)
        path = Path(server.socket)
        assert len(server.socket) <= SOCKET_PATH_BYTES
        assert path.parent.stat().st_mode & 0o777 == 0o700
        verify_socket(server.socket)
    assert not path.parent.exists()


def test_a_socket_left_in_the_temporary_directory_is_removed(tmp_path: Path) -> None:
    """API-415: nothing stays in the directory for temporary files after a crash."""
    environment = {"HOME": str(tmp_path)}
    elsewhere = tmp_path / "holdfast-server-x"
    elsewhere.mkdir(mode=0o700)
    folder = servers_folder(environment)
    server = msgspec.structs.replace(described(folder, "one"), socket=str(elsewhere / "server.sock"))
    leave_behind(folder, "one", msgspec.json.encode(server))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(server.socket)

    assert running_servers(environment) == []
    assert not elsewhere.exists()


# -- the password ------------------------------------------------------------------------------------------------


def test_servers_that_run_at_once_have_one_password(environment: dict[str, str]) -> None:
    """API-046: the file holds it until the last of them ends; the next start has a new one."""
    path = credential_file(environment)
    with generated_password(environment) as first:
        with generated_password(environment) as second:
            assert first == second == kept_password(environment)
        assert kept_password(environment) == first
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    with generated_password(environment) as third:
        assert third != first
        assert len(third) >= 43
    assert sorted(found.name for found in path.parent.iterdir()) == ["server-password.lock"]


def test_the_password_of_a_killed_server_is_not_used_again(environment: dict[str, str]) -> None:
    """API-046: its lock is free, so the file is written anew."""
    path = credential_file(environment)
    path.parent.mkdir(parents=True)
    path.write_text("old\n", encoding="ascii")
    path.chmod(0o644)
    with generated_password(environment) as password:
        assert password != "old"
        assert kept_password(environment) == password
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_server_that_never_finishes_writing_is_not_waited_for(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-046: after a bound, with a reason."""
    monkeypatch.setattr(credential, "LOCK_SECONDS", 0.05)
    path = credential_file(environment).with_suffix(".lock")
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(credential.PasswordUnavailable, match="another server"), generated_password(environment):
            pass


@pytest.mark.parametrize("content", [None, ""])
def test_a_password_file_that_was_lost_is_written_anew(environment: dict[str, str], content: str | None) -> None:
    """API-046: while another server runs, and only for those that start later."""
    path = credential_file(environment)
    with generated_password(environment) as first:
        path.unlink()
        if content is not None:
            path.write_text(content, encoding="ascii")
        with generated_password(environment) as second:
            assert second == kept_password(environment)
            assert second != first
