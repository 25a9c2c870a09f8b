"""Several people and programs on one server, each with a token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Server
from tests.plain_http import NO_TLS

PASSWORD = "a password"
Serve = Callable[..., Server]


def created(machine: Machine, name: str, *options: str) -> str:
    ran = machine("token", "create", name, *options)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def call(server: Server, token: str, method: str, path: str, **options: object) -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.request(method, f"{server.url}{path}", headers=headers, verify=NO_TLS, timeout=PATIENCE, **options)  # type: ignore[arg-type]


@pytest.fixture
def server(holdfast: Machine, serve: Serve) -> Server:
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    return serve()


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(holdfast: Machine, server: Server) -> None:
    """OPS-300, OPS-301, OPS-305: made and revoked by another process than the server."""
    made = created(holdfast, "ci", "--role", "read", "--expires", "30d")
    assert made.startswith("hft_")
    assert call(server, made, "GET", "/api/session").status_code == 200
    listed = holdfast("token", "list")
    assert listed.out.splitlines()[1].split()[:2] == ["ci", "read"]
    (info,) = json.loads(holdfast("token", "list", "--json").out)
    assert info["expires"] - info["created"] == 30 * 86_400_000
    assert made not in listed.out + json.dumps(info)
    taken = holdfast("token", "create", "ci", "--role", "admin")
    assert (taken.code, "token revoke ci" in taken.err) == (1, True)
    assert holdfast("token", "revoke", "ci").code == 0
    assert call(server, made, "GET", "/api/session").status_code == 401
    gone = holdfast("token", "revoke", "ci")
    assert (gone.code, "token list" in gone.err) == (1, True)


@pytest.mark.parametrize("role", ["read", "prompt", "approve", "admin"])
def test_the_stream_of_the_page_begins_with_the_role(holdfast: Machine, server: Server, role: str) -> None:
    """WEB-447: so that the page offers what is allowed."""
    headers = {"authorization": f"Bearer {created(holdfast, role, '--role', role)}"}
    with httpx2.stream("GET", f"{server.url}/web/stream", headers=headers, verify=NO_TLS, timeout=PATIENCE) as stream:
        first = next(line for line in stream.iter_lines() if line.startswith("data: "))
    hello = json.loads(first.removeprefix("data: "))
    assert (hello["type"], hello["role"]) == ("hello", role)


def test_a_token_outlives_the_server(holdfast: Machine, serve: Serve) -> None:
    """OPS-300: it is in the database."""
    made = created(holdfast, "ci", "--role", "read", "--json")
    secret = json.loads(made)["token"]
    for _ in range(2):
        server = serve()
        assert call(server, secret, "GET", "/api/session").status_code == 200
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0


def test_a_stream_ends_when_another_process_revokes_the_token(holdfast: Machine, server: Server) -> None:
    """OPS-305."""
    made = created(holdfast, "ci", "--role", "read")
    headers = {"authorization": f"Bearer {made}"}
    with httpx2.stream("GET", f"{server.url}/api/event", headers=headers, verify=NO_TLS, timeout=PATIENCE) as stream:
        pieces = stream.iter_raw()
        assert next(pieces)
        assert holdfast("token", "revoke", "ci").code == 0
        for _ in pieces:
            pass


def test_each_role_includes_the_ones_before_it(holdfast: Machine, server: Server) -> None:
    """OPS-302, OPS-303: the refusal tells which role is needed and who has it."""
    tokens = {role: created(holdfast, f"the-{role}", "--role", role) for role in ("read", "prompt", "approve", "admin")}
    steps: list[tuple[str, str, str, object]] = [
        ("read", "GET", "/api/session", None),
        ("prompt", "POST", "/api/session", {}),
        ("approve", "DELETE", "/api/permission/saved/none", None),
        ("admin", "GET", "/api/token", None),
    ]
    for place, (needed, method, path, payload) in enumerate(steps):
        for rank, (role, token) in enumerate(tokens.items()):
            answer = call(server, token, method, path, json=payload)
            assert answer.is_success == (rank >= place), (role, path, answer.text)
            if rank < place:
                assert (answer.status_code, answer.json()["role"]) == (403, needed)
                assert f"the-{needed}" in answer.json()["message"]


def test_the_command_line_works_with_a_token(holdfast: Machine, server: Server) -> None:
    """OPS-301: where a client takes a password, it takes a token."""
    reader, prompter = created(holdfast, "r", "--role", "read"), created(holdfast, "p", "--role", "prompt")
    asked = ("run", "--attach", server.url, "--model", "demo/echo", "hello")
    done = holdfast(*asked, OPENCODE_SERVER_PASSWORD=prompter)
    assert done.code == 0, done.err
    refused = holdfast(*asked, OPENCODE_SERVER_PASSWORD=reader)
    assert refused.code == 1
    assert "needs the role prompt" in refused.err


def test_secrets_of_holdfast_need_an_admin(holdfast: Machine, server: Server) -> None:
    """OPS-304."""
    prompter = created(holdfast, "p", "--role", "prompt")
    where = {"location[directory]": str(holdfast.home / "state")}
    listed = call(server, prompter, "GET", "/api/fs/list", params={**where, "path": "holdfast"})
    assert (listed.status_code, listed.json()["role"]) == (403, "admin")


def test_a_prompt_attaches_files_of_its_project_only(holdfast: Machine, server: Server, tmp_path: Path) -> None:
    """OPS-308: what is elsewhere needs an admin, or is sent as data."""
    (holdfast.project / "notes.txt").write_text("notes", encoding="utf-8")
    (tmp_path / "private.txt").write_text("private", encoding="utf-8")
    prompter, admin = created(holdfast, "p", "--role", "prompt"), created(holdfast, "a", "--role", "admin")
    place = {"location": {"directory": str(holdfast.project)}}
    session = call(server, prompter, "POST", "/api/session", json=place).json()["data"]["id"]

    def attached(token: str, uri: str) -> httpx2.Response:
        prompt = {"text": "Read it.", "files": [{"uri": uri, "mime": "text/plain"}]}
        return call(server, token, "POST", f"/api/session/{session}/prompt", json={"prompt": prompt, "resume": False})

    private = (tmp_path / "private.txt").as_uri()
    refused = attached(prompter, private)
    assert (refused.status_code, "role admin" in refused.json()["message"]) == (400, True)
    for token, uri in ((prompter, "notes.txt"), (prompter, "data:text/plain,private"), (admin, private)):
        assert attached(token, uri).status_code == 200, uri


def test_a_token_of_a_project_reaches_nothing_else(holdfast: Machine, server: Server, tmp_path: Path) -> None:
    """OPS-306, OPS-307."""
    other = tmp_path / "other"
    other.mkdir()
    made = created(holdfast, "limited", "--role", "prompt", "--project", str(holdfast.project))
    inside = call(server, made, "POST", "/api/session", json={"location": {"directory": str(holdfast.project)}})
    assert inside.status_code == 200
    outside = call(server, made, "POST", "/api/session", json={"location": {"directory": str(other)}})
    assert (outside.status_code, str(holdfast.project) in outside.json()["message"]) == (403, True)
    assert call(server, made, "GET", "/api/overview").status_code == 403
    page = call(server, made, "POST", "/web/sign-in", json={"password": made})
    assert page.status_code == 403


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ci",), "--role"),
        (("ci", "--role", "owner"), "'owner' is not one of"),
        (("ci", "--role", "read", "--expires", "soon"), "as in 30d"),
        (("ci", "--role", "read", "--expires", "0d"), "as in 30d"),
        (("ci", "--role", "read", "--project", "nowhere"), "nowhere"),
        (("ci", "--role", "admin", "--project", "."), "cannot be limited"),
        (("a b", "--role", "read"), "name"),
        (("page", "--role", "read"), "page"),
    ],
)
def test_a_mistake_is_told(holdfast: Machine, arguments: tuple[str, ...], told: str) -> None:
    """OPS-300."""
    ran = holdfast("token", "create", *arguments)
    assert ran.code in (1, 2)
    assert told in ran.err
    assert holdfast("token", "list").out == ""
