"""Who did what: in Sessions, and to a server."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from tests.cli.conftest import PATIENCE, Machine, Server
from tests.outside.test_tokens import PASSWORD, call, created
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, events
from tests.plain_http import NO_TLS

from holdfast import Holdfast

OWNER = httpx2.BasicAuth("opencode", PASSWORD)
Serve = Callable[..., Server]


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def test_an_audit_tells_who_admitted_approved_and_changed_what(holdfast: Machine, serve: Serve) -> None:
    """OPS-310, OPS-311, OPS-312: two tokens, somebody with a link, a page and the owner, in one Session."""
    writes = [{"tool": "write", "input": {"path": f"{name}.txt", "content": name}} for name in ("one", "two", "three")]
    holdfast.script(*({"calls": [each]} for each in writes), {"text": "done"})
    holdfast.configure_user(permission={"edit": "ask"}, model="demo/scripted")
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    server = serve()
    ci, anna = created(holdfast, "ci", "--role", "prompt"), created(holdfast, "anna", "--role", "approve")
    session = call(server, ci, "POST", "/api/session", json={}).json()["data"]["id"]
    here = f"/api/session/{session}"
    assert call(server, ci, "POST", f"{here}/prompt", json={"prompt": {"text": "go"}}).status_code == 200

    def asked(before: str = "") -> str:
        def other() -> Any:
            found = call(server, anna, "GET", f"{here}/permission").json()["data"]
            return found and found[0]["id"] != before and found[0]["id"]

        return str(until(other))

    first = asked()
    refused = call(server, ci, "POST", f"{here}/permission/{first}/reply", json={"reply": "once"})
    assert (refused.status_code, refused.json()["role"]) == (403, "approve")
    assert call(server, anna, "POST", f"{here}/permission/{first}/reply", json={"reply": "once"}).is_success
    second = asked(first)
    link = holdfast("sessions", "link", session).out.strip().rpartition("/")[2]
    answered = {"token": link, "reply": "reject"}
    origin = {"origin": server.url}
    assert httpx2.post(f"{server.url}/web/approval/reply", json=answered, headers=origin, verify=NO_TLS).is_success
    assert call(server, ci, "POST", f"{here}/wait").status_code == 204
    signed_in = httpx2.post(f"{server.url}/web/sign-in", json={"password": PASSWORD}, headers=origin, verify=NO_TLS)
    page = {"x-holdfast-key": signed_in.json()["key"], "cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    renamed = httpx2.post(
        f"{server.url}{here}/rename", json={"title": "New"}, headers={**page, **origin}, verify=NO_TLS
    )
    assert renamed.is_success
    chosen = {"model": {"id": "echo", "providerID": "demo"}}
    assert httpx2.post(f"{server.url}{here}/model", json=chosen, auth=OWNER, verify=NO_TLS).is_success
    assert call(server, ci, "POST", f"{here}/interrupt").is_success

    told = json.loads(holdfast("sessions", "audit", session, "--json").out)
    assert [entry["time"] for entry in told] == sorted(entry["time"] for entry in told)
    assert {entry["sessionID"] for entry in told} == {session}
    # A title that the model gives is the runtime's own.
    found = [
        (entry["who"], entry["what"], entry.get("detail"))
        for entry in told
        if entry.get("who") and "title" not in entry["what"]
    ]
    assert found == [
        ("ci", "created", None),
        ("ci", "admitted", "steer"),
        ("anna", "approved", "once"),
        ("local", "permissions.link", None),
        ("link", "denied", "reject"),
        ("password", "changed model", "demo/echo"),
        ("ci", "sessions.interrupt", None),
    ]
    titles = [(entry.get("who"), entry["detail"]) for entry in told if entry["what"] == "changed title"]
    assert [title for title in titles if title[0] is not None] == [("page", "New")]
    assert {entry.get("subject") for entry in told} >= {first, second}
    table = holdfast("sessions", "audit", session).out
    assert table.splitlines()[0].split() == ["TIME", "WHO", "WHAT", "ABOUT"]

    assert httpx2.delete(f"{server.url}{here}", auth=OWNER, verify=NO_TLS).is_success
    assert holdfast("token", "revoke", "ci").code == 0
    done = json.loads(holdfast("audit", "--json").out)
    kept = [(entry["who"], entry["what"], entry.get("subject") or entry.get("sessionID")) for entry in done]
    assert kept == [
        ("local", "tokens.create", "ci"),
        ("local", "tokens.create", "anna"),
        ("local", "permissions.link", second),
        ("ci", "sessions.interrupt", session),
        ("password", "sessions.delete", session),
        ("local", "tokens.revoke", "ci"),
    ]
    assert ci not in json.dumps([told, done])
    assert holdfast("audit").out.count("tokens.create") == 2


def test_nothing_secret_is_recorded_and_only_admins_read_it(holdfast: Machine, serve: Serve) -> None:
    """OPS-312."""
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    server = serve()
    admin, lesser = created(holdfast, "boss", "--role", "admin"), created(holdfast, "anna", "--role", "approve")
    key = {"key": "sk-very-secret", "label": "mine"}
    connected = call(server, admin, "POST", "/api/integration/openai/connect/key", json=key)
    assert connected.is_success, connected.text
    opened = call(server, admin, "POST", "/api/pty", json={"command": "/bin/cat"}).json()["data"]["id"]
    assert call(server, admin, "PUT", f"/api/pty/{opened}", json={"title": "x"}).is_success
    assert call(server, admin, "DELETE", f"/api/pty/{opened}").is_success
    assert call(server, lesser, "GET", "/api/audit").status_code == 403
    told = call(server, admin, "GET", "/api/audit")
    assert "sk-very-secret" not in told.text
    assert ("boss", "integrations.connect_key", "openai") in [
        (entry["who"], entry["what"], entry.get("subject")) for entry in told.json()["data"]
    ]
    terminals = [(entry["what"], entry.get("subject")) for entry in told.json()["data"] if "pty" in entry["what"]]
    assert terminals == [("ptys.create", None), ("ptys.remove", opened)]
    first = call(server, admin, "GET", "/api/audit", params={"limit": 1}).json()
    assert (len(first["data"]), first["hasMore"]) == (1, True)
    rest = call(server, admin, "GET", "/api/audit", params={"after": 1}).json()
    assert first["data"] + rest["data"] == told.json()["data"]
    assert not rest["hasMore"]


@pytest.mark.anyio
async def test_what_the_runtime_does_by_itself_has_no_author(world: World) -> None:
    """OPS-310: neither the turn that a request started nor the subagents that it called."""
    world.model.always = Cast(parent=[delegating("child")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "parent")
        told = (await hf.sessions.audit(session.id)).items
        by = [(entry.what, entry.who, entry.session_id == session.id) for entry in told]
        assert ("created", "local", True) in by
        assert ("admitted", "local", True) in by
        assert ("created", None, False) in by
        assert ("admitted", None, False) in by
        assert [event.metadata for event in await events(hf, session) if event.metadata] == []  # as in the contract
        assert await hf.verify() == []


@pytest.mark.anyio
async def test_an_audit_travels_with_a_bundle(world: World, tmp_path: Path) -> None:
    """OPS-311, OPS-472: also after a rebuild, and the events are the same; the names are marked as those of another
    place."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.rename(session.id, title="Renamed")
        await hf.sessions.shell(session.id, command="true")
        told = (await hf.sessions.audit(session.id)).items
        stored = (await hf.sessions.log(session.id)).items
        bundle = await hf.sessions.export(session.id)
    assert [(entry.what, entry.who) for entry in told] == [
        ("created", "local"),
        ("changed title", "local"),
        ("ran a command", "local"),
    ]
    async with Holdfast(world.project, data=tmp_path / "other", environment=world.environment) as other:
        await other.sessions.import_bundle(bundle=base64.b64encode(bundle).decode())
        *entries, imported = (await other.sessions.audit(session.id)).items
        assert entries == [replace(entry, elsewhere=True) for entry in told]
        assert (imported.what, imported.who, imported.elsewhere) == ("imported", "local", None)
        assert (await other.sessions.log(session.id)).items == stored
        assert await other.sessions.export(session.id) == bundle
        assert await other.verify() == []
