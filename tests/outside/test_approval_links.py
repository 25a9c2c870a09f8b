"""Approval links: a model waits, somebody far away answers with a link, and the model goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Server
from tests.outside.wire import failure
from tests.plain_http import NO_TLS

PASSWORD = "a password"
OWNER = httpx2.BasicAuth("opencode", PASSWORD)
GONE = (404, "NotFoundError")
Serve = Callable[..., Server]


class Waiting(NamedTuple):
    machine: Machine
    url: str
    session: str

    def link(self, *arguments: str) -> str:
        """The token of a new link, made on the command line."""
        ran = self.machine("sessions", "link", self.session, *arguments)
        assert ran.code == 0, ran.err
        assert ran.out.startswith(f"{self.url}/#/approve/")
        assert "one answer" in ran.err
        return ran.out.strip().rpartition("/")[2]

    def post(self, path: str, **payload: Any) -> httpx2.Response:
        """As a phone that has nothing but the link."""
        return httpx2.post(f"{self.url}{path}", json=payload, headers={"origin": self.url}, verify=NO_TLS)

    def requests(self) -> list[Any]:
        path = f"{self.url}/api/session/{self.session}/permission"
        return list(httpx2.get(path, auth=OWNER, verify=NO_TLS).json()["data"])

    def ended(self) -> None:
        """Wait until the model has nothing to do."""
        path = f"{self.url}/api/session/{self.session}/wait"
        assert httpx2.post(path, auth=OWNER, timeout=PATIENCE, verify=NO_TLS).status_code == 204


@pytest.fixture
def waiting(holdfast: Machine, serve: Serve) -> Waiting:
    """A Session whose model wants to write two files, one after the other, and waits for a person."""
    calls = [{"tool": "write", "input": {"path": f"{name}.txt", "content": name}} for name in ("one", "two")]
    holdfast.script({"calls": calls[:1]}, {"calls": calls[1:]}, {"text": "done"})
    holdfast.configure_user(permission={"edit": "ask"}, model="demo/scripted")
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    url = serve().url
    made = httpx2.post(f"{url}/api/session", json={}, auth=OWNER, verify=NO_TLS)
    session = made.json()["data"]["id"]
    prompt = {"prompt": {"text": "write them"}}
    sent = httpx2.post(f"{url}/api/session/{session}/prompt", json=prompt, auth=OWNER, verify=NO_TLS)
    assert sent.status_code == 200, sent.text
    found = Waiting(holdfast, url, session)
    until_asked(found)
    return found


def until_asked(waiting: Waiting) -> str:
    deadline = time.monotonic() + PATIENCE
    while not (found := waiting.requests()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return str(found[0]["id"])


def test_somebody_without_a_sign_in_allows_one_call_and_no_more(waiting: Waiting) -> None:
    """WEB-030, WEB-031, WEB-033: the link shows what it is about, works once, and the next request needs another."""
    token = waiting.link()
    shown = waiting.post("/web/approval", token=token).json()
    asked = shown["request"]
    assert (asked["kind"], asked["sessionID"], asked["directory"]) == (
        "permission",
        waiting.session,
        str(waiting.machine.project),
    )
    assert asked["permission"]["resources"] == ["one.txt"]
    (change,) = shown["preview"]["files"]
    assert (change["path"], change["status"]) == ("one.txt", "added")
    assert "+one" in change["patch"]
    assert waiting.post("/web/approval/reply", token=token, reply="once").status_code == 204
    until_asked(waiting)
    assert (waiting.machine.project / "one.txt").read_text(encoding="utf-8") == "one"
    for path, more in (("/web/approval", {}), ("/web/approval/reply", {"reply": "once"})):
        assert failure(waiting.post(path, token=token, **more)) == GONE
    assert not (waiting.machine.project / "two.txt").exists()
    assert waiting.post("/web/approval/reply", token=waiting.link(), reply="once").status_code == 204
    waiting.ended()
    assert (waiting.machine.project / "two.txt").read_text(encoding="utf-8") == "two"
    saved = httpx2.get(f"{waiting.url}/api/permission/saved", auth=OWNER, verify=NO_TLS).json()["data"]
    assert saved == []


def test_a_link_rejects_with_words_and_never_allows_for_good(waiting: Waiting) -> None:
    """WEB-031: the words reach the model."""
    token = waiting.link()
    refused = waiting.post("/web/approval/reply", token=token, reply="always")
    assert failure(refused) == (400, "InvalidRequestError")
    answer = waiting.post("/web/approval/reply", token=token, reply="reject", message="not this one")
    assert answer.status_code == 204
    until_asked(waiting)
    path = f"{waiting.url}/api/session/{waiting.session}/context"
    assert "not this one" in httpx2.get(path, auth=OWNER, verify=NO_TLS).text
    assert not (waiting.machine.project / "one.txt").exists()


def test_a_request_that_the_owner_answered_ends_its_links(waiting: Waiting) -> None:
    """WEB-031."""
    token, request = waiting.link(), waiting.requests()[0]["id"]
    path = f"{waiting.url}/api/session/{waiting.session}/permission/{request}/reply"
    assert httpx2.post(path, json={"reply": "once"}, auth=OWNER, verify=NO_TLS).status_code == 204
    assert failure(waiting.post("/web/approval", token=token)) == GONE
    assert failure(waiting.post("/web/approval/reply", token=token, reply="reject")) == GONE


def test_a_link_survives_a_restart_and_wrong_tokens_do_not_harm_it(waiting: Waiting, serve: Serve) -> None:
    """WEB-030, WEB-032: another server on the database takes it too."""
    token = waiting.link("--seconds", "60")
    other = waiting._replace(url=serve().url)
    for number in range(5):
        assert failure(other.post("/web/approval", token=f"guess{number}")) == GONE
    assert other.post("/web/approval", token=token).json()["request"]["sessionID"] == waiting.session
    assert other.post("/web/approval/reply", token=token, reply="once").status_code == 204
    assert failure(waiting.post("/web/approval", token=token)) == GONE


def test_the_command_line_says_which_requests_there_are(waiting: Waiting) -> None:
    """WEB-033: an address of a proxy can be given; nothing to answer is said."""
    request = waiting.requests()[0]["id"]
    ran = waiting.machine("sessions", "link", waiting.session, request, "--address", "https://agent.example/")
    assert ran.out.startswith("https://agent.example/#/approve/")
    assert waiting.machine("sessions", "link", waiting.session, "--address", "agent.example").code == 2
    unknown = waiting.machine("sessions", "link", waiting.session, "per_unknown")
    assert (unknown.code, "per_unknown" in unknown.complaint) == (1, True)
    idle = httpx2.post(f"{waiting.url}/api/session", json={}, auth=OWNER, verify=NO_TLS).json()["data"]["id"]
    ran = waiting.machine("sessions", "link", idle)
    assert (ran.code, "no open permission request" in ran.complaint) == (1, True)
    wish = {"action": "edit", "resources": ["a.txt"]}
    path = f"{waiting.url}/api/session/{waiting.session}/permission"
    assert httpx2.post(path, json=wish, auth=OWNER, verify=NO_TLS).status_code == 200
    several = waiting.machine("sessions", "link", waiting.session)
    assert (several.code, request in several.err, "a.txt" in several.err) == (1, True, True)


def test_the_preview_of_a_request_has_the_whole_change(holdfast: Machine, serve: Serve) -> None:
    """API-642, API-643: of a file of a megabyte every line, and of a command every character; an answered request has
    none."""
    before = "".join(f"old {number} {'x' * 60}\n" for number in range(9_000))
    after = "".join(f"new {number} {'y' * 60}\n" for number in range(9_000))
    (holdfast.project / "large.txt").write_text(before, encoding="utf-8")
    command = "git tag x  # \u202ewhy\n" * 2_000
    holdfast.script(
        {"calls": [{"tool": "write", "input": {"path": "large.txt", "content": after}}]},
        {"calls": [{"tool": "bash", "input": {"command": command}}]},
        {"calls": [{"tool": "webfetch", "input": {"url": "https://example.org/", "format": "text"}}]},
        {"text": "done"},
    )
    rules = {"edit": "ask", "bash": "ask", "webfetch": "ask"}
    holdfast.configure_user(permission=rules, model="demo/scripted")
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    url = serve().url
    http = httpx2.Client(base_url=url, auth=OWNER, verify=NO_TLS, timeout=PATIENCE)
    session = http.post("/api/session", json={}).json()["data"]["id"]
    http.post(f"/api/session/{session}/prompt", json={"prompt": {"text": "go"}}).raise_for_status()
    waiting = Waiting(holdfast, url, session)
    previews = []
    for _ in range(3):
        path = f"/api/session/{session}/permission/{until_asked(waiting)}"
        previews.append(http.get(f"{path}/preview").json()["data"])
        assert http.post(f"{path}/reply", json={"reply": "reject", "message": "not now"}).status_code == 204
        assert http.get(f"{path}/preview").status_code == 404
    written, ran, fetched = previews
    (change,) = written["files"]
    lines = change["patch"].split("\n")
    assert [line[1:] for line in lines if line[:1] == "-" and line[:3] != "---"] == before.split("\n")[:-1]
    assert [line[1:] for line in lines if line[:1] == "+" and line[:3] != "+++"] == after.split("\n")[:-1]
    assert written["directory"] == ran["directory"] == str(holdfast.project)
    assert ran["command"] == command
    assert fetched["input"] == {"url": "https://example.org/", "format": "text"}
    http.close()
