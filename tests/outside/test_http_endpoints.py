"""The endpoints one after the other, on a running server: what they answer, and each refusal that they declare."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import eventually
from tests.outside.wire import Wire, failure, serving
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

CANARY = "sk-canary-51aa"
UNKNOWN = "/api/session/ses_0000000000000000000000000a"
NO_SESSION = (404, "SessionNotFoundError")
INVALID = (400, "InvalidRequestError")


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    home = tmp_path_factory.mktemp("endpoints")
    folder = home / "config" / "opencode"
    (folder / "skill" / "cut").mkdir(parents=True)
    (folder / "skill" / "cut" / "SKILL.md").write_text("---\nname: cut\ndescription: How to cut\n---\nWith care.\n")
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Mock",
        "env": ["MOCK_KEY"],
        "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": CANARY},
        "models": {"m": {"name": "Model M", "limit": {"context": 1000, "output": 100}}},
    }
    document = {
        "provider": {"mock": provider},
        "agent": {"poet": {"prompt": "In verse.", "description": "Rhymes", "mode": "primary"}},
        "command": {"greet": {"template": "Say hello to $ARGUMENTS", "description": "Greets"}},
        "references": {"docs": {"path": str(folder), "description": "Where the docs are"}},
        "permission": {"bash": "ask", "webfetch": {"*": "deny"}},
    }
    (folder / "opencode.json").write_text(json.dumps(document))
    with serving(home, "--no-auth") as wire:
        yield wire


def test_a_conversation_over_http(wire: Wire) -> None:
    """API-111, API-114, API-117, API-118, API-119, API-121, API-125, API-126, API-127: create, prompt, wait, read; the
    receipt of a retry; a conflict names the message."""
    session = wire.create(id="ses_talk")
    receipt = wire.ask(session, "hello", id="msg_hello")
    assert {"admittedSeq", "id", "sessionID", "prompt", "delivery", "timeCreated"} <= set(receipt)
    assert "promotedSeq" not in receipt
    again = wire.ask(session, "hello", id="msg_hello")
    assert again == {**receipt, "promotedSeq": again["promotedSeq"]}
    conflict = wire.post(f"{session}/prompt", {"id": "msg_hello", "prompt": {"text": "other"}})
    assert failure(conflict) == (409, "ConflictError")
    assert conflict.json()["resource"] == "msg_hello"
    user, answer = wire.data(f"{session}/context")
    assert (user["type"], user["id"], user["text"]) == ("user", "msg_hello", "hello")
    assert (answer["type"], answer["agent"], answer["finish"]) == ("assistant", "build", "stop")
    assert [(part["type"], part["text"]) for part in answer["content"]] == [("text", "hello")]
    assert wire.data(f"{session}/message/msg_hello") == user
    page = wire.get(f"{session}/message?limit=1").json()
    assert page["data"] == [answer]
    assert page["cursor"]["next"]
    absent = wire.get(f"{session}/message/msg_absent")
    assert failure(absent) == (404, "MessageNotFoundError")
    assert absent.json()["sessionID"] == "ses_talk"
    assert [failure(wire.post(f"{UNKNOWN}/{name}")) for name in ("compact", "wait")] == [NO_SESSION] * 2


def test_compaction_that_cannot_be_done_says_why(wire: Wire) -> None:
    """API-119, API-020, CMP-040: nothing to compact is a conflict; a model that is not there is 503 with its
    service."""
    session = wire.create()
    assert failure(wire.post(f"{session}/compact")) == (409, "ConflictError")
    wire.ask(session, "word " * 3000)
    assert wire.post(f"{session}/model", {"model": {"id": "x", "providerID": "nobody"}}).status_code == 204
    answer = wire.post(f"{session}/compact")
    assert failure(answer) == (503, "ServiceUnavailableError")
    assert answer.json()["service"] == "model"


def test_a_permission_is_evaluated_asked_and_answered(wire: Wire) -> None:
    """API-130, API-131, API-132, API-133, TOL-075, TOL-079, TOL-086, TOL-087, TOL-091, TOL-102, TOL-103: only `ask`
    leaves a request; a reply is taken once; `always` saves what was offered, and from then on it is allowed."""
    session, other = wire.create(), wire.create()

    def ask(action: str, *resources: str, **more: Any) -> Any:
        payload = {"action": action, "resources": list(resources), **more}
        answer = wire.post(f"{session}/permission", payload)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    assert ask("read", "hello.txt")["effect"] == "allow"
    assert ask("webfetch", "https://example.org")["effect"] == "deny"
    assert ask("read", "hello.txt", "prod.env")["effect"] == "ask"
    wire.post(f"{session}/permission/{wire.data(f'{session}/permission')[0]['id']}/reply", {"reply": "once"})
    pending = ask("bash", "make test", save=["make test"], metadata={"why": "to see"})
    assert pending["effect"] == "ask"
    (request,) = wire.data(f"{session}/permission")
    assert request["id"] == pending["id"]
    assert request["id"].startswith("per_")
    assert (request["action"], request["resources"], request["save"]) == ("bash", ["make test"], ["make test"])
    assert "agent" not in request
    assert wire.data(f"{session}/permission/{request['id']}") == request
    located = wire.get("/api/permission/request").json()
    assert located["data"] == [request]
    assert wire.data(f"{other}/permission") == []
    strange = wire.get(f"{other}/permission/{request['id']}")
    assert failure(strange) == (404, "PermissionNotFoundError")
    assert strange.json()["requestID"] == request["id"]
    reply = f"{session}/permission/{request['id']}/reply"
    assert failure(wire.post(reply, {"reply": "perhaps"})) == INVALID
    assert wire.post(reply, {"reply": "always"}).status_code == 204
    assert failure(wire.post(reply, {"reply": "once"})) == (404, "PermissionNotFoundError")
    assert ask("bash", "make test", save=["make test"])["effect"] == "allow"
    assert ask("bash", "make tests", save=["make tests"])["effect"] == "ask"
    assert failure(wire.post(f"{session}/permission", {"action": "bash", "resources": []})) == INVALID
    (saved,) = wire.data("/api/permission/saved")
    assert set(saved) == {"id", "projectID", "action", "resource"}
    assert (saved["id"][:4], saved["action"], saved["resource"]) == ("psv_", "bash", "make test")
    for _ in range(2):
        assert wire.http.delete(f"/api/permission/saved/{saved['id']}").status_code == 204
    assert ask("bash", "make test", save=["make test"])["effect"] == "ask"
    assert failure(wire.post(f"{session}/question/que_absent/reject")) == (404, "QuestionNotFoundError")
    assert wire.get("/api/question/request").json()["data"] == wire.data(f"{session}/question") == []


def test_a_location_lists_agents_models_providers_commands_and_skills(wire: Wire) -> None:
    """API-140, CAT-055, CAT-058, CAT-075, CAT-077, CAT-085, CAT-086, CTX-170: agents, models, providers, commands,
    skills and references, each with where it holds; an unknown provider is not found, an unknown integration is
    null."""
    agents = {agent["id"]: agent for agent in wire.data("/api/agent")}
    assert {"build", "plan", "general", "explore", "poet"} <= set(agents)
    assert (agents["poet"]["system"], agents["poet"]["mode"], agents["poet"]["hidden"]) == (
        "In verse.",
        "primary",
        False,
    )
    assert agents["explore"]["mode"] == "subagent"
    assert agents["title"]["hidden"] is True
    (model,) = [model for model in wire.data("/api/model") if model["providerID"] == "mock"]
    assert (model["id"], model["name"], model["status"], model["enabled"]) == ("m", "Model M", "active", True)
    assert model["limit"] == {"context": 1000, "output": 100}
    provider = wire.data("/api/provider/mock")
    assert (provider["id"], provider["name"]) == ("mock", "Mock")
    unknown = wire.get("/api/provider/nobody")
    assert failure(unknown) == (404, "ProviderNotFoundError")
    assert unknown.json()["providerID"] == "nobody"
    commands = {command["name"]: command for command in wire.data("/api/command")}
    assert commands["greet"]["template"] == "Say hello to $ARGUMENTS"
    assert {"init", "review"} <= set(commands)
    assert "$ARGUMENTS" in commands["init"]["template"]
    skills = {skill["name"]: skill for skill in wire.data("/api/skill")}
    assert skills["cut"]["description"] == "How to cut"
    (reference,) = wire.data("/api/reference")
    assert (reference["name"], reference["description"]) == ("docs", "Where the docs are")
    located = wire.get("/api/integration/nobody").json()
    assert located["data"] is None
    assert located["location"]["directory"] == str(wire.machine.project)


def test_keys_go_in_and_do_not_come_out(wire: Wire) -> None:
    """API-141, API-142, API-143, CAT-130, CAT-131, CAT-135, TOL-330: a stored key is a connection
    with a label; it can be renamed and removed; no answer shows any key."""
    connected = wire.post("/api/integration/mock/connect/key", {"key": CANARY, "label": "work"})
    assert connected.status_code == 204
    integration = wire.data("/api/integration/mock")
    (connection, *_) = integration["connections"]
    assert connection["label"] == "work"
    path = f"/api/credential/{connection['id']}"
    assert wire.http.patch(path, json={"label": "home"}).status_code == 204
    assert wire.data("/api/integration/mock")["connections"][0]["label"] == "home"
    pages = ("integration", "provider", "provider/mock", "model", "agent", "config", "config/report")
    assert not [page for page in pages if CANARY in wire.get(f"/api/{page}").text]
    database = wire.machine.data
    secret = [file for file in database.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert all(file.stat().st_mode & 0o077 == 0 for file in secret)
    for _ in range(2):
        assert wire.http.delete(path).status_code == 204
    assert [item for item in wire.data("/api/integration/mock")["connections"] if item.get("label") == "home"] == []
    assert failure(wire.post("/api/integration/nobody/connect/key", {"key": "x"})) == INVALID
    assert failure(wire.get("/api/integration/attempt/con_absent")) == INVALID


def test_files_of_the_project_are_listed_found_and_read(wire: Wire) -> None:
    """API-026, API-150: with their type; nothing outside, and nothing that is not there."""
    folder = wire.machine.project
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "page one.html").write_text("<p>é</p>", encoding="utf-8")
    (folder / "link").symlink_to("/etc")
    listed = wire.data("/api/fs/list")
    assert {"path": "hello.txt", "type": "file"} in listed
    assert {entry["type"] for entry in listed if entry["path"].startswith("docs")} == {"directory"}
    found = wire.data("/api/fs/find", params={"query": "page", "type": "file"})
    assert found == [{"path": "docs/page one.html", "type": "file"}]
    read = wire.get("/api/fs/read/docs/page%20one.html")
    assert (read.content, read.headers["content-type"].split(";")[0]) == ("<p>é</p>".encode(), "text/html")
    for path in ("absent.txt", "%2e%2e/config", "link/passwd", "docs"):
        assert wire.get(f"/api/fs/read/{path}").status_code in (400, 404)
    for path in ("absent", "../config", "/etc", "link"):
        assert wire.get("/api/fs/list", params={"path": path}).status_code in (400, 404)


def test_a_copy_of_a_project_is_made_and_removed(wire: Wire) -> None:
    """API-003, API-021, API-151: a bare directory; what is wrong has a name instead of a tag, and says whether force
    would help."""
    repository = wire.machine.home / "repository"
    repository.mkdir()
    (repository / "a.txt").write_text("a\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", *who, *command], cwd=repository, check=True)
    place = {"location[directory]": str(repository)}
    project = wire.get("/api/location", params=place).json()["project"]["id"]
    path = f"/experimental/project/{project}/copy"
    target = {"strategy": "git_worktree", "directory": str(wire.machine.home / "copies"), "name": "one"}
    made = wire.post(path, target, params=place)
    assert made.status_code == 200
    assert list(made.json()) == ["directory"]
    copy = Path(made.json()["directory"])
    (copy / "a.txt").write_text("changed\n")

    def remove(force: bool) -> Any:
        given = {"directory": str(copy), "force": force}
        return wire.http.request("DELETE", path, json=given, params=place)

    refused = remove(force=False)
    assert (refused.status_code, refused.json()["name"]) == (400, "ProjectCopyError")
    assert refused.json()["data"]["forceRequired"] is True
    assert remove(force=True).status_code == 204
    assert not copy.exists()
    assert wire.post(f"{path}/refresh", params=place).status_code == 204


def test_a_terminal_is_opened_through_a_ticket(wire: Wire) -> None:
    """API-160, API-162, API-163, API-164, API-165, TOL-303, TOL-304, TOL-305, TOL-310: tickets are for one terminal and
    one use, and need their header; output comes as text, the cursor as the one binary frame."""
    created = wire.post("/api/pty", {"command": "/bin/cat", "args": [], "title": "cat", "env": {"TERM": "dumb"}})
    assert created.status_code == 200
    info = created.json()["data"]
    assert (info["title"], info["status"], info["cwd"]) == ("cat", "running", str(wire.machine.project))
    path = f"/api/pty/{info['id']}"
    assert [item["id"] for item in wire.data("/api/pty")] == [info["id"]]
    resized = wire.http.put(path, json={"title": "new", "size": {"rows": 10, "cols": 20}})
    assert resized.json()["data"]["title"] == "new"
    assert failure(wire.http.put(path, json={"size": {"rows": 0, "cols": 20}})) == INVALID
    elsewhere = {"location[directory]": str(wire.machine.home)}
    assert failure(wire.get(path, params=elsewhere)) == (404, "PtyNotFoundError")
    assert failure(wire.post(f"{path}/connect-token")) == (403, "ForbiddenError")
    header = {"x-opencode-ticket": "1"}
    token = wire.post(f"{path}/connect-token", headers=header).json()["data"]
    assert token["expires_in"] == 60
    address = str(wire.http.base_url).replace("http", "ws").rstrip("/")
    with connect(f"{address}{path}/connect?ticket={token['ticket']}", proxy=None) as socket:
        frame = socket.recv(timeout=30)
        assert isinstance(frame, bytes)
        assert frame[0] == 0
        assert json.loads(frame[1:]) == {"cursor": 0}
        socket.send("typed\n")
        shown = ""
        while shown.count("typed") < 2:
            shown += str(socket.recv(timeout=30))
    for ticket in (token["ticket"], "nonsense"):
        with pytest.raises(InvalidStatus) as used:
            connect(f"{address}{path}/connect?ticket={ticket}", proxy=None)
        assert used.value.response.status_code == 403
    assert wire.data(path)["status"] == "running"
    assert wire.http.delete(path).status_code == 204
    assert failure(wire.get(path)) == (404, "PtyNotFoundError")


def test_a_terminal_that_ended_still_shows_what_it_said(wire: Wire) -> None:
    """API-160, API-161, TOL-301, CAT-151: the environment is the caller's, then what is forced; the output is replayed
    before the connection is closed with a reason; it is listed with its exit code until it is removed."""
    given = {"command": "/usr/bin/env", "env": {"TERM": "dumb", "MINE": "1"}}
    path = f"/api/pty/{wire.post('/api/pty', given).json()['data']['id']}"
    eventually(lambda: wire.data(path)["status"] == "exited")
    assert wire.data(path)["exitCode"] == 0
    address = str(wire.http.base_url).replace("http", "ws").rstrip("/")
    frames: list[Any] = []
    with connect(f"{address}{path}/connect", proxy=None) as socket, suppress(ConnectionClosedError):
        while True:
            frames.append(socket.recv(timeout=30))
    assert (socket.close_code, socket.close_reason) == (4404, "session exited")
    assert isinstance(frames[-1], bytes)
    output = "".join(frames[:-1])
    assert "MINE=1" in output
    assert "TERM=dumb" not in output
    assert "OPENCODE_TERMINAL=1" in output
    assert wire.http.delete(path).status_code == 204
