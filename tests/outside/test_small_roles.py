"""What somebody with a small role, or with a token for a part of a project, tries."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Server
from tests.outside.test_tokens import PASSWORD, call, created
from tests.plain_http import NO_TLS

Serve = Callable[..., Server]
OWNER = httpx2.BasicAuth("opencode", PASSWORD)


class Place:
    """A server whose model writes a file, and asks before."""

    def __init__(self, holdfast: Machine, serve: Serve) -> None:
        self.holdfast = holdfast
        self._serve = serve
        holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD

    def start(self, *turns: dict[str, Any], **permission: str) -> None:
        self.holdfast.script(*turns, {"text": "done"})
        self.holdfast.configure_user(permission=permission, model="demo/scripted")
        self.server = self._serve()

    def token(self, name: str, role: str, *options: str) -> str:
        return created(self.holdfast, name, "--role", role, *options)

    def owner(self, method: str, path: str, **options: Any) -> httpx2.Response:
        url = f"{self.server.url}{path}"
        return httpx2.request(method, url, auth=OWNER, verify=NO_TLS, timeout=PATIENCE, **options)

    def session(self, directory: Path) -> str:
        made = self.owner("POST", "/api/session", json={"location": {"directory": str(directory)}})
        return str(made.json()["data"]["id"])

    def prompt(self, session: str) -> None:
        sent = self.owner("POST", f"/api/session/{session}/prompt", json={"prompt": {"text": "go"}})
        assert sent.status_code == 200, sent.text

    def asked(self, session: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while not (found := self.owner("GET", f"/api/session/{session}/permission").json()["data"]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        request: dict[str, Any] = found[0]
        return request

    def ended(self, session: str) -> None:
        assert self.owner("POST", f"/api/session/{session}/wait").status_code == 204


@pytest.fixture
def place(holdfast: Machine, serve: Serve) -> Place:
    return Place(holdfast, serve)


def writing(path: Path | str) -> dict[str, Any]:
    return {"calls": [{"tool": "write", "input": {"path": str(path), "content": "changed"}}]}


@pytest.mark.parametrize("where", ["outside", "own"])
def test_a_waiting_call_shows_only_files_that_the_reader_could_read(place: Place, tmp_path: Path, where: str) -> None:
    """WEB-115, OPS-304: whoever prompts chooses the file, and nobody has approved anything yet."""
    private = tmp_path / "private.txt" if where == "outside" else place.holdfast.home / "config/opencode/private.txt"
    private.parent.mkdir(parents=True, exist_ok=True)
    private.write_text("the secret\n", encoding="utf-8")
    place.start(writing(private), edit="ask", external_directory="ask")
    session = place.session(place.holdfast.home if where == "own" else place.holdfast.project)
    place.prompt(session)
    source, request = (asked := place.asked(session))["source"], asked["id"]
    path = f"/api/session/{session}/rendered/{source['messageID']}/{source['callID']}?format=text"
    link = place.owner("POST", f"/api/session/{session}/permission/{request}/link", json={}).json()["data"]["path"]
    shown = httpx2.post(
        f"{place.server.url}/web/approval",
        json={"token": link.rpartition("/")[2]},
        headers={"origin": place.server.url},
        verify=NO_TLS,
    )
    for role in ("prompt", "approve"):
        answer = call(place.server, place.token(role, role), "GET", path)
        assert (answer.status_code, "the secret" in answer.text) == (200, False)
        assert "cannot be shown" in answer.text
    assert (shown.status_code, "the secret" in shown.text) == (200, False)
    assert "the secret" in call(place.server, place.token("a", "admin"), "GET", path).text


@pytest.fixture
def parts(place: Place) -> tuple[Path, Path]:
    """Two directories of one repository."""
    repository = place.holdfast.project
    folders = repository / "a", repository / "b"
    for folder in folders:
        folder.mkdir()
        (folder / "file.txt").write_text("as it was\n", encoding="utf-8")
    git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *command], check=True)
    return folders


def test_a_part_of_a_project_is_all_that_its_token_undoes_sees_and_approves(
    place: Place, parts: tuple[Path, Path]
) -> None:
    """OPS-306: snapshots have the whole project, and a saved approval holds for all of it."""
    inside, outside = parts
    place.start(writing("file.txt"), {"text": "done"}, writing("new.txt"), edit="ask")
    part = place.token("part", "approve", "--project", str(inside))
    session = place.session(inside)
    place.prompt(session)
    request = place.asked(session)["id"]
    (outside / "file.txt").write_text("work of somebody else\n", encoding="utf-8")
    reply = f"/api/session/{session}/permission/{request}/reply"
    refused = call(place.server, part, "POST", reply, json={"reply": "always"})
    assert (refused.status_code, "once" in refused.json()["message"]) == (403, True)
    assert call(place.server, part, "POST", reply, json={"reply": "once"}).status_code == 204
    place.ended(session)
    message = place.owner("GET", f"/api/session/{session}/message?order=asc&limit=1").json()["data"][0]["id"]
    changes, stage = f"/api/session/{session}/changes", f"/api/session/{session}/revert/stage"
    assert call(place.server, part, "GET", changes).status_code == 403
    undone = call(place.server, part, "POST", stage, json={"messageID": message})
    assert (undone.status_code, "files: false" in undone.json()["message"]) == (403, True)
    assert call(place.server, part, "POST", stage, json={"messageID": message, "files": False}).status_code == 200
    assert call(place.server, part, "POST", f"/api/session/{session}/revert/clear").status_code == 204
    assert (outside / "file.txt").read_text(encoding="utf-8") == "work of somebody else\n"
    whole = place.token("whole", "approve", "--project", str(place.holdfast.project))
    assert call(place.server, whole, "GET", changes).status_code == 200
    assert call(place.server, whole, "POST", stage, json={"messageID": message}).status_code == 200
    cleared = call(place.server, part, "POST", f"/api/session/{session}/revert/clear")
    assert (cleared.status_code, "not limited" in cleared.json()["message"]) == (403, True)


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_an_approval_link_ends_with_the_token_that_made_it(place: Place, how: str) -> None:
    """WEB-030, OPS-305."""
    place.start(writing("one.txt"), edit="ask")
    token = place.token("phone", "approve", *(["--expires", "2s"] if how == "expired" else []))
    session = place.session(place.holdfast.project)
    place.prompt(session)
    request = place.asked(session)["id"]
    made = call(place.server, token, "POST", f"/api/session/{session}/permission/{request}/link", json={})
    link = made.json()["data"]["path"].rpartition("/")[2]

    def web(path: str, **payload: str) -> int:
        given = {"token": link, **payload}
        headers = {"origin": place.server.url}
        return httpx2.post(f"{place.server.url}{path}", json=given, headers=headers, verify=NO_TLS).status_code

    if how == "revoked":
        assert web("/web/approval") == 200
        assert place.holdfast("token", "revoke", "phone").code == 0
    else:
        deadline = time.monotonic() + PATIENCE
        while call(place.server, token, "GET", "/api/health").status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert (web("/web/approval"), web("/web/approval/reply", reply="once")) == (404, 404)
    assert place.asked(session)["id"] == request
    by_owner = place.owner("POST", f"/api/session/{session}/permission/{request}/link", json={})
    link = by_owner.json()["data"]["path"].rpartition("/")[2]
    assert web("/web/approval/reply", reply="once") == 204


def test_an_id_of_a_caller_is_short(place: Place) -> None:
    """SES-002: it is part of every list."""
    place.start()
    id = "ses_" + "a" * 97
    prompter = place.token("p", "prompt")
    for path, payload in (
        ("/api/session", {"id": id}),
        (f"/api/session/{place.session(place.holdfast.project)}/prompt", {"id": "msg_" + id, "prompt": {"text": "x"}}),
    ):
        refused = call(place.server, prompter, "POST", path, json=payload)
        assert (refused.status_code, "1 to 100 letters" in refused.text) == (400, True), refused.text
    assert call(place.server, prompter, "POST", "/api/session", json={"id": id[:100]}).status_code == 200


def test_a_form_cannot_claim_to_be_a_sign_in(place: Place) -> None:
    """OPS-309."""
    place.start()
    session = place.session(place.holdfast.project)
    form = {
        "title": "Sign in",
        "fields": [{"key": "name", "type": "string"}],
        "metadata": {"kind": "mcp-authorization", "integrationID": "x"},
    }
    refused = call(place.server, place.token("p", "prompt"), "POST", f"/api/session/{session}/form", json=form)
    assert (refused.status_code, "mcp-authorization" in refused.text) == (400, True), refused.text


def test_the_shown_configuration_has_no_secret_of_an_mcp_server(place: Place) -> None:
    """API-462: neither in its variables nor in its command."""
    server = {
        "type": "local",
        "command": ["x", "--api-key", "sk-1", "--token=sk-2", "--verbose", "plain"],
        "environment": {"PGPASS": "sk-3", "SLACK": "https://hooks.slack.example/sk-4"},
        "enabled": False,
    }
    place.start()
    place.holdfast.configure_user(model="demo/scripted", mcp={"one": server})
    for path in ("/api/config", "/api/config/effective"):
        shown = call(place.server, place.token(path.rpartition("/")[2], "read"), "GET", path)
        assert shown.status_code == 200
        assert "sk-" not in shown.text
        assert {"PGPASS", "--verbose", "plain"} <= set(
            json.dumps(shown.json()).replace('"', " ").replace(":", " ").split()
        )


def test_a_limited_token_learns_nothing_of_other_directories(place: Place, tmp_path: Path) -> None:
    """OPS-306: neither which there are, nor where a Session is."""
    (tmp_path / "other").mkdir()
    place.start()
    limited = place.token("l", "prompt", "--project", str(place.holdfast.project))
    told = set()
    for name in ("other", "none"):
        where = {"location[directory]": str(tmp_path / name)}
        answer = call(place.server, limited, "GET", "/api/agent", params=where)
        created = call(
            place.server, limited, "POST", "/api/session", json={"location": {"directory": str(tmp_path / name)}}
        )
        told |= {(each.status_code, each.text.replace(name, "")) for each in (answer, created)}
    assert (len(told), {status for status, _ in told}) == (1, {403})
    there = place.session(tmp_path / "other")
    payload = {"id": there, "location": {"directory": str(place.holdfast.project)}}
    taken = call(place.server, limited, "POST", "/api/session", json=payload)
    assert (taken.status_code, "other" in taken.text) == (403, False)
    assert call(place.server, limited, "GET", "/api/agent", params={"location[directory]": "/a\0b"}).status_code == 403
