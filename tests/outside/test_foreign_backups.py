"""Backups that somebody else made: a restored database lets nobody in and does nothing else than it says."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import Machine, Server
from tests.outside.test_backup import there
from tests.outside.test_tokens import PASSWORD, call, created
from tests.plain_http import NO_TLS

pytestmark = pytest.mark.store("sqlite", reason="PostgreSQL has its own backups")

Serve = Callable[..., Server]
PLANTS = {
    "trigger planted": "create trigger planted after insert on access_token begin "
    "update access_token set role = 'admin', projects = '[]'; end",
    "view session_import": "drop table session_import; create view session_import as select 1 as session_id",
    "table further": "create table further (a)",
    "index further": "create index further on event (type)",
    "no table session_attempt": "drop table session_attempt",
    "another table session_attempt": "drop table session_attempt; create table session_attempt (session_id)",
}


def backup(holdfast: Machine) -> Path:
    path = holdfast.home / "a.backup"
    made = holdfast("backup", str(path))
    assert made.code == 0, made.err
    return path


def test_a_restored_backup_lets_nobody_in(holdfast: Machine, serve: Serve) -> None:
    """OPS-473: neither with a token of its maker, nor with one that was revoked since."""
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    token = created(holdfast, "maker", "--role", "admin")
    path = backup(holdfast)
    restored = holdfast("restore", str(path), **there(holdfast))
    assert restored.code == 0, restored.err
    assert "left out: 1 tokens" in restored.out
    assert "--with-access" in restored.out
    server = serve(**there(holdfast))
    assert call(server, token, "GET", "/api/session").status_code == 401
    assert httpx2.get(f"{server.url}/api/session", auth=("opencode", PASSWORD), verify=NO_TLS).status_code == 200
    assert token.encode() not in (holdfast.home / "there" / "holdfast" / "holdfast.db").read_bytes()


def test_with_access_takes_over_ones_own(holdfast: Machine, serve: Serve) -> None:
    """OPS-473."""
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    token = created(holdfast, "mine", "--role", "admin")
    restored = holdfast("restore", str(backup(holdfast)), "--with-access", **there(holdfast))
    assert restored.code == 0, restored.err
    assert "left out" not in restored.out
    assert call(serve(**there(holdfast)), token, "GET", "/api/session").status_code == 200


def test_a_restored_backup_approves_nothing(holdfast: Machine, serve: Serve) -> None:
    """OPS-473: neither by an approval that was saved, nor by a request that waits; rows agree with their events."""
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": "echo one", "description": "say"}}]})
    holdfast.configure_user(permission={"bash": "ask"}, model="demo/scripted")
    server = serve()
    owner = ("opencode", PASSWORD)
    session = httpx2.post(f"{server.url}/api/session", json={}, auth=owner, verify=NO_TLS).json()["data"]["id"]
    prompt = {"prompt": {"text": "go"}}
    httpx2.post(f"{server.url}/api/session/{session}/prompt", json=prompt, auth=owner, verify=NO_TLS)
    waiting = f"{server.url}/api/session/{session}/permission"
    while not httpx2.get(waiting, auth=owner, verify=NO_TLS).json()["data"]:
        pass
    path = backup(holdfast)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "insert into permission (id, project_id, root, action, resource, time_created, time_updated) "
            "select 'psv_1', id, worktree, 'bash', '*', 1, 1 from project limit 1"
        )
    restored = holdfast("restore", str(path), "--json", **there(holdfast))
    assert restored.code == 0, restored.err
    left_out = json.loads(restored.out)["left_out"]
    assert (left_out["saved approvals"], left_out["open requests"]) == (1, 1)
    doctor = holdfast("doctor", **there(holdfast))
    assert (doctor.code, "all rows agree with the event log" in doctor.out) == (0, True)
    second = serve(**there(holdfast))
    asked = httpx2.get(f"{second.url}/api/session/{session}/permission", auth=owner, verify=NO_TLS).json()["data"]
    assert asked == []


@pytest.mark.parametrize("plant", PLANTS)
def test_what_holdfast_does_not_make_is_refused_by_name(holdfast: Machine, plant: str) -> None:
    """OPS-474: by the check, by a restore, and by the doctor of a database that has it."""
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    path = backup(holdfast)
    with sqlite3.connect(path) as connection:
        connection.executescript(PLANTS[plant])
    for command in (("backup", "--check", str(path)), ("restore", str(path))):
        refused = holdfast(*command, **there(holdfast))
        assert refused.code == 1
        assert plant in refused.complaint
    assert not (holdfast.home / "there" / "holdfast" / "holdfast.db").exists()


@pytest.mark.parametrize("plant", ["trigger planted", "table further"])
def test_the_doctor_names_what_holdfast_does_not_make(holdfast: Machine, plant: str) -> None:
    """OPS-474."""
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    with sqlite3.connect(holdfast.data / "holdfast.db") as connection:
        connection.executescript(PLANTS[plant])
    ran = holdfast("doctor")
    assert ran.code == 1
    assert plant in ran.err
