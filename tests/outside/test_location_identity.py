"""One directory is one Location and one place for approvals, however it is written and whatever it claims to be."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine
from tests.outside.hostile import Api, git, honest, running

ORIGIN = "https://example.invalid/known/name.git"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.configure_user(permission={"*": "ask"})
    return machine


@pytest.fixture(scope="module")
def api(machine: Machine) -> Iterator[Api]:
    """One server for all of these."""
    with running(machine) as api:
        yield api


def ask(api: Api, session_id: str, resource: str = "make test", **fields: Any) -> dict[str, Any]:
    wish = {"action": "bash", "resources": [resource], "save": [resource], **fields}
    answer = api.post(f"/api/session/{session_id}/permission", wish)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


def approve(api: Api, directory: Path) -> None:
    """ "Always", given in a new Session."""
    session = api.session(directory)
    asked = ask(api, session["id"])
    assert asked["effect"] == "ask"
    path = f"/api/session/{session['id']}/permission/{asked['id']}/reply"
    assert api.post(path, {"reply": "always"}).status_code == 204


def effect(api: Api, directory: Path) -> str:
    return str(ask(api, api.session(directory)["id"])["effect"])


def saved(api: Api, directory: Path | str | None = None, **query: str) -> list[str]:
    return [item["resource"] for item in api.get("/api/permission/saved", directory, **query).json()["data"]]


# -- one spelling ---------------------------------------------------------------------------------------------------


def test_a_directory_is_one_location_however_it_is_written(api: Api, tmp_path: Path) -> None:
    """CAT-173: a slash at the end, `.`, `..` and links; what waits in it is seen through each of them."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    spellings = [
        f"{project}",
        f"{project}/",
        f"{project}/.",
        f"{project}/../{project.name}",
        f"//{project}",
        f"{tmp_path}/link",
    ]
    waiting = [ask(api, api.session(spelling)["id"])["id"] for spelling in spellings]
    for spelling in spellings:
        assert api.get("/api/location", spelling).json()["directory"] == str(project)
        assert sorted(item["id"] for item in api.get("/api/permission/request", spelling).json()["data"]) == sorted(
            waiting
        )
        assert len(api.get("/api/session", directory=str(spelling)).json()["data"]) == len(spellings)


def test_a_known_session_is_returned_after_its_directory_is_gone(api: Api, tmp_path: Path) -> None:
    """API-111: with the directory it was created for, and with any other that is not there."""
    place = tmp_path / "short-lived"
    place.mkdir()
    session = api.session(place, id="ses_known")
    place.rmdir()
    assert api.session(place, id="ses_known") == session
    assert api.session(tmp_path / "never", id="ses_known") == session
    location = {"directory": str(place)}
    assert api.post("/api/session", {"id": "ses_new", "location": location}).status_code == 400
    assert [item["id"] for item in api.get("/api/session", directory=str(place)).json()["data"]] == ["ses_known"]


# -- where a project begins -----------------------------------------------------------------------------------------


def test_without_a_repository_nothing_above_the_location_counts(holdfast: Machine) -> None:
    """CAT-170, CTX-138: neither configuration nor instructions of a parent, and no file outside by reference."""
    holdfast.configure_user(model="demo/echo")
    (holdfast.home / "opencode.json").write_text(json.dumps({"username": "planted", "agent": {"planted": {}}}))
    (holdfast.home / "AGENTS.md").write_text("planted instructions", encoding="utf-8")
    (holdfast.home / "secret").write_text("the secret", encoding="utf-8")
    holdfast.configure(agent={"mine": {"prompt": "{file:../secret}", "description": "{file:hello.txt}"}})
    (holdfast.project / "AGENTS.md").write_text("instructions of the project", encoding="utf-8")
    with running(holdfast) as api:
        agents = api.get("/api/agent", holdfast.project)
        assert "planted" not in agents.text
        assert "the secret" not in agents.text
        assert "mine" in agents.text
        session = api.session(holdfast.project, model="echo")
        api.prompt(session["id"], "hello")
        context = api.get(f"/api/session/{session['id']}/request-context").text
        assert "instructions of the project" in context
        assert "planted" not in context
        # As the contract has it (API-032): one project for all of them, at the filesystem's root.
        assert api.get("/api/location", holdfast.project).json()["project"] == {"id": "global", "directory": "/"}
        assert session["subpath"] == str(holdfast.project).lstrip("/")


# -- approvals ------------------------------------------------------------------------------------------------------


def test_an_approval_is_not_inherited_by_what_claims_to_be_the_same_project(api: Api, tmp_path: Path) -> None:
    """TOL-393: an archive with a known `origin` or a known id, a clone, a link to a trusted repository, a `.git` that
    points at one: each is another directory."""
    trusted = honest(tmp_path / "trusted")
    git(trusted, "remote", "add", "origin", ORIGIN)
    approve(api, trusted)
    assert effect(api, trusted) == "allow"
    known = api.get("/api/location", trusted).json()["project"]["id"]

    archive = honest(tmp_path / "archive")
    git(archive, "remote", "add", "origin", ORIGIN)
    cached = honest(tmp_path / "cached")
    (cached / ".git" / "opencode").write_text(known, encoding="ascii")
    clone = shutil.copytree(trusted, tmp_path / "clone")
    pointing = shutil.copytree(trusted, tmp_path / "pointing", ignore=shutil.ignore_patterns(".git"))
    (pointing / ".git").write_text(f"gitdir: {trusted / '.git'}\n", encoding="utf-8")
    linked = shutil.copytree(trusted, tmp_path / "linked", ignore=shutil.ignore_patterns(".git"))
    (linked / ".git").symlink_to(trusted / ".git")
    posing = shutil.copytree(trusted, tmp_path / "posing", ignore=shutil.ignore_patterns(".git"))
    git(trusted, "worktree", "add", "--quiet", "-b", "real", str(tmp_path / "real"))
    shutil.copy(tmp_path / "real" / ".git", posing / ".git")
    for claimant in (archive, cached, clone, pointing, linked, posing):
        assert api.get("/api/location", claimant).json()["project"]["id"] == known
        assert effect(api, claimant) == "ask", claimant
        assert saved(api, claimant) == []
    assert effect(api, trusted) == "allow"


def test_an_approval_holds_in_the_working_trees_of_its_repository(api: Api, tmp_path: Path) -> None:
    """TOL-393: below its root, in a copy that was made here, and in one of plain git."""
    trusted = honest(tmp_path / "trusted")
    approve(api, trusted / "sub")
    project = api.get("/api/location", trusted).json()["project"]["id"]
    copy = f"/experimental/project/{project}/copy"
    made = api.post(copy, {"strategy": "git_worktree", "directory": str(tmp_path / "copies")}, trusted)
    git(trusted, "worktree", "add", "--quiet", "-b", "mine", str(tmp_path / "mine"))
    for place in (trusted, Path(made.json()["directory"]), tmp_path / "mine" / "sub"):
        assert effect(api, place) == "allow"


def test_directories_without_a_repository_share_no_approvals(api: Api, tmp_path: Path) -> None:
    """TOL-393: they share the id `global`."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    approve(api, one)
    assert (effect(api, one), effect(api, two)) == ("allow", "ask")
    (one / "below").mkdir()
    assert effect(api, one / "below") == "ask"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_another_owner_has_no_approvals(api: Api, tmp_path: Path) -> None:
    """TOL-393, CAT-174: the same path in other hands, and a repository of another user is not used at all."""
    place = honest(tmp_path / "place")
    approve(api, place)
    os.chown(place / ".git", 12_345, -1)
    assert api.get("/api/location", place).json()["project"] == {"id": "global", "directory": "/"}
    assert effect(api, place) == "ask"
    os.chown(place / ".git", 0, -1)
    assert effect(api, place) == "allow"


def test_saved_approvals_are_those_of_the_location(api: Api, machine: Machine, tmp_path: Path) -> None:
    """API-131: of the location in the query, of a project by its id, by default of the server's own directory."""
    other = honest(tmp_path / "other")
    git(other, "remote", "add", "origin", "https://example.invalid/another/name.git")
    approve(api, other)
    assert saved(api) == saved(api, machine.project) == []
    assert saved(api, other) == saved(api, f"{other}/sub/..") == ["make test"]
    project = api.get("/api/location", other).json()["project"]["id"]
    assert saved(api, projectID=project) == ["make test"]
    assert saved(api, projectID="unknown") == []
    (approval,) = api.get("/api/permission/saved", other).json()["data"]
    assert set(approval) == {"id", "projectID", "action", "resource"}
    assert approval["projectID"] == project
