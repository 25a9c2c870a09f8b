"""Fields that the recorded OpenCode server sends, also where nothing happened, and an input that it refuses."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine
from tests.outside.test_clients import Serve

SCRIPTED = {"providerID": "demo", "id": "scripted"}
GIT = ("git", "-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false")


class Api:
    """One server, with a Session of a scripted model."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE)
        self.id = self.post("/api/session", model=SCRIPTED)["data"]["id"]

    def post(self, path: str, **payload: Any) -> Any:
        answer = self.http.post(path, json=payload)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def of_session(self, path: str) -> Any:
        return self.http.get(f"/api/session/{self.id}{path}").json()["data"]

    def answer(self, text: str) -> None:
        self.post(f"/api/session/{self.id}/prompt", prompt={"text": text})
        self.post(f"/api/session/{self.id}/wait")

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [message for message in self.of_session("/context") if message["type"] == "assistant"]


@pytest.fixture
def repository(holdfast: Machine) -> Machine:
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run([*GIT, *command], cwd=holdfast.project, check=True, env=holdfast.environment)
    holdfast.configure_user(permission={"*": "allow"}, holdfast={"titles": False})
    return holdfast


@pytest.fixture
def api(repository: Machine, serve: Serve) -> Iterator[Api]:
    call = {"tool": "write", "input": {"path": "new.txt", "content": "new\n"}}
    look = {"tool": "read", "input": {"path": "hello.txt"}}
    repository.script(
        {"text": "nothing changed"}, {"calls": [look]}, {"text": "read"}, {"calls": [call]}, {"text": "written"}
    )
    api = Api(serve("--no-auth").url)
    yield api
    api.http.close()


def test_a_finished_step_has_its_tree_also_when_nothing_changed(api: Api) -> None:
    """SES-242: `snapshot` has `start`, `end` and `files` after an answer without tools, after tools that only look, and
    after tools that write; the durable `step.ended` has the tree of a step that changed nothing."""
    for text in ("say", "look", "write"):
        api.answer(text)

    trees = [step["snapshot"] for step in api.steps]
    assert [tree["files"] for tree in trees] == [[], [], [], ["new.txt"], []]
    assert all(set(tree) == {"start", "end", "files"} for tree in trees)
    assert [tree["start"] == tree["end"] for tree in trees] == [True, True, True, False, True]
    ended = [event["data"] for event in api.of_session("/history") if event["type"] == "session.next.step.ended"]
    assert [(step.get("snapshot"), step.get("files")) for step in ended] == [
        (None, None) if tree["files"] else (tree["end"], []) for tree in trees
    ]


def test_a_staged_revert_has_a_diff_also_when_nothing_changed(api: Api) -> None:
    """API-451: `diff` and `files` are there, empty; and in the Session too."""
    api.answer("say")
    first = api.of_session("/context")[0]["id"]

    staged = api.post(f"/api/session/{api.id}/revert/stage", messageID=first)["data"]

    assert (staged["messageID"], staged["diff"], staged["files"]) == (first, "", [])
    assert api.of_session("")["revert"] == staged


def test_a_staged_revert_without_a_repository_has_an_empty_diff(holdfast: Machine, serve: Serve) -> None:
    """API-451: no file is put back there, and no tree is named."""
    holdfast.script({"text": "said"})
    api = Api(serve("--no-auth").url)
    with closing(api.http):
        api.answer("say")
        first = api.of_session("/context")[0]["id"]

        staged = api.post(f"/api/session/{api.id}/revert/stage", messageID=first)["data"]

        assert staged == {"messageID": first, "diff": "", "files": []}


def test_a_malformed_workspace_is_refused_in_a_list_of_sessions(api: Api) -> None:
    """API-450: 400 that names the field; a well-formed id that nobody has is an empty page."""
    refused = api.http.get("/api/session", params={"workspace": "nope"})
    assert (refused.status_code, refused.json()["_tag"], refused.json()["kind"]) == (
        400,
        "InvalidRequestError",
        "Query",
    )
    assert '["workspace"]' in refused.json()["message"]
    assert api.http.get("/api/session", params={"workspace": "wrk_none"}).json()["data"] == []


@pytest.mark.parametrize("code", [0, 3])
def test_an_exited_terminal_keeps_its_exit_code(api: Api, code: int) -> None:
    """API-452: in its own record, in the list, and after it was renamed."""
    made = api.post("/api/pty", command="/bin/sh", args=["-c", f"exit {code}"])["data"]
    deadline = time.monotonic() + PATIENCE
    while (seen := api.http.get(f"/api/pty/{made['id']}").json()["data"])["status"] != "exited":
        assert time.monotonic() < deadline, seen

    assert seen["exitCode"] == code
    assert json.dumps(seen) in [json.dumps(item) for item in api.http.get("/api/pty").json()["data"]]
    renamed = api.http.put(f"/api/pty/{made['id']}", json={"title": "done", "size": {"rows": 5, "cols": 5}})
    assert renamed.json()["data"] == {**seen, "title": "done"}
