"""Directories for sockets in the directory for temporary files: those of dead servers go, nothing else does."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.client import socket_folder
from holdfast.client.discovery import RunningServer, running_servers, servers_folder
from holdfast.embedded.registration import registered


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Short enough for a socket, whatever the path of the test is. Everything in it is old enough."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket_folder, "SETTLED_SECONDS", 0)
    return Path(".")


def new(root: Path) -> Path:
    """A directory that a server has just made."""
    folder = root / secrets.token_hex(8)
    folder.mkdir()
    return folder


def dead(folder: Path) -> Path:
    """As a killed server leaves it."""
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / socket_folder.SOCKET))
    return folder


def empty(folder: Path) -> Path:
    """As a server leaves it that is killed before it listens."""
    folder.mkdir(mode=0o700)
    return folder


def open_to_others(folder: Path) -> Path:
    dead(folder).chmod(0o755)
    return folder


def with_a_file(folder: Path) -> Path:
    (dead(folder) / "notes.txt").touch()
    return folder


def with_a_file_for_a_socket(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    (folder / socket_folder.SOCKET).touch()
    return folder


def a_link(folder: Path) -> Path:
    folder.symlink_to(dead(folder.with_name("elsewhere")).absolute())
    return folder


def a_file(folder: Path) -> Path:
    folder.touch(mode=0o600)
    return folder


Make = Callable[[Path], Path]
STRANGE = [open_to_others, with_a_file, with_a_file_for_a_socket, a_link, a_file]


@pytest.mark.parametrize("make", [dead, empty])
def test_an_abandoned_directory_is_removed(root: Path, make: Make) -> None:
    """API-415: also if nobody registered it."""
    folder = make(socket_folder.unused_path(root))
    socket_folder.remove_abandoned(new(root))
    assert not folder.exists()


@pytest.mark.parametrize(
    "remove",
    [lambda root, _: socket_folder.remove_abandoned(new(root)), lambda _, folder: socket_folder.remove(folder)],
)
@pytest.mark.parametrize("make", STRANGE)
def test_what_is_not_the_directory_of_a_dead_server_stays(
    root: Path, make: Make, remove: Callable[[Path, Path], None]
) -> None:
    """API-415: with its content."""
    folder = make(socket_folder.unused_path(root))
    content = sorted(os.listdir(folder)) if folder.is_dir() else []
    remove(root, folder)
    assert folder.exists()
    assert folder.is_file() or sorted(os.listdir(folder)) == content


def test_directories_of_other_names_and_other_users_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-415."""
    other = dead(root / "holdfast-sandbox-1")
    socket_folder.remove_abandoned(new(root))
    socket_folder.remove(other)
    assert other.exists()
    foreign = dead(socket_folder.unused_path(root))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    socket_folder.remove_abandoned(new(root))
    socket_folder.remove(foreign)
    assert foreign.exists()


def test_the_directory_of_a_server_that_listens_stays(root: Path) -> None:
    """API-415: also if it has no time to answer."""
    folder = empty(socket_folder.unused_path(root))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / socket_folder.SOCKET))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(str(folder / socket_folder.SOCKET))
        socket_folder.remove_abandoned(new(root))
        for connection in waiting:
            connection.close()
    assert folder.exists()


def test_a_directory_in_which_a_server_may_be_about_to_listen_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-415."""
    monkeypatch.setattr(socket_folder, "SETTLED_SECONDS", 60)
    folder = empty(socket_folder.unused_path(root))
    socket_folder.remove_abandoned(new(root))
    assert folder.exists()


def test_a_server_whose_clock_is_wrong_keeps_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-415: ages are those of the file system."""
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 10**9 + 86400)
    home = tmp_path / ("long" * 40)
    with registered({"HOME": str(home)}, id="srv", url="http://127.0.0.1:1", data=tmp_path) as listener:
        path = Path(listener.getsockname())
        assert path.parent.name.startswith(socket_folder.PREFIX)
        assert path.exists()
    assert not path.parent.exists()


@pytest.mark.parametrize("suffix", [".json", ".draft"])
def test_a_server_that_is_killed_at_any_step_of_its_registration_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    """API-415: the directory is known before it exists."""
    environment = {"HOME": str(tmp_path)}
    entry = servers_folder(environment) / "one"
    entry.parent.mkdir(parents=True, mode=0o700)
    elsewhere = empty(socket_folder.unused_path(tmp_path))
    path = str(elsewhere / socket_folder.SOCKET)
    server = RunningServer(id="srv", version="0", url="", pid=1, data="/", started=1, socket=path)
    entry.with_suffix(suffix).write_bytes(msgspec.json.encode(server))
    entry.with_suffix(".lock").touch()
    assert running_servers(environment) == []
    assert not elsewhere.exists()
    assert list(entry.parent.iterdir()) == []
