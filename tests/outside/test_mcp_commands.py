"""`holdfast mcp` on the command line, by itself and with a running server."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine, Ran, rows
from tests.mcp_servers.support import scripted

Invoke = Callable[..., Ran]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.mcp.servers.UNASKED_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.core.process.piped.INPUT_END_SECONDS", 0.1)


def user_file(machine: Machine) -> Path:
    return machine.home / "config" / "opencode" / "opencode.json"


def test_servers_are_listed_with_reasons(holdfast: Machine, here: Invoke) -> None:
    """API-598: known and disabled ones too; a table for people, JSON for programs."""
    assert "`holdfast mcp add` adds one" in here("mcp", "list").err
    holdfast.configure_user(mcp={"good": scripted(), "bad": scripted("die"), "off": scripted(disabled=True)})
    listed = rows(here("mcp", "list"))
    assert [row[:2] for row in listed] == [["bad", "failed"], ["good", "connected"], ["off", "disabled"]]
    assert listed[1][2] == "5"
    assert "it cannot be configured" in here("mcp", "list").out
    known = json.loads(here("mcp", "list", "--json").out)[1]
    assert (known["state"], known["tools"], known["status"]) == ("known", 5, {"status": "pending"})


def test_why_a_server_cannot_be_used_is_told_in_words(holdfast: Machine, here: Invoke) -> None:
    """API-598: without numbers and names of the operating system's own."""
    missing = {"type": "local", "command": ["/no/such/program"]}
    elsewhere = scripted(cwd="/no/such/directory")
    holdfast.configure_user(
        mcp={"a": missing, "b": elsewhere, "c": {"type": "remote", "url": "http://127.0.0.1:9/mcp", "oauth": False}}
    )
    told = {one["name"]: one["error"] for one in json.loads(here("mcp", "list", "--json").out)}
    assert told["a"] == "/no/such/program: cannot be started: No such file or directory"
    assert told["b"].endswith("cannot be started: No such file or directory: /no/such/directory")
    assert told["c"] == "The MCP server at 127.0.0.1:9 cannot be reached: Connection refused"


def test_a_hung_server_is_waited_for_a_limited_time(holdfast: Machine, here: Invoke) -> None:
    """API-598."""
    holdfast.configure_user(mcp={"hung": scripted("hang")})
    assert rows(here("mcp", "list", "--wait", "0.1"))[0][:2] == ["hung", "starting"]


def test_a_server_is_added_called_and_removed(holdfast: Machine, here: Invoke) -> None:
    """API-599, API-601: the file keeps what else is in it."""
    path = user_file(holdfast)
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "username": "me"\n}\n', encoding="utf-8")
    path.chmod(0o640)
    added = here("mcp", "add", "s", "--env", "MODE=a=b", "--", *scripted()["command"])
    assert (added.code, added.err) == (0, f"added s to {path}\n")
    assert "// mine" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert here("mcp", "call", "s", "echo", '{"text": "hi\\u001b[1m"}').out == "hi\\u001b[1m\n"
    failed = here("mcp", "call", "s", "fail")
    assert (failed.code, failed.out) == (1, "it did not work\n")
    result = json.loads(here("mcp", "call", "s", "echo", "--json").out)
    assert result == {"content": [{"type": "text", "text": ""}]}
    variables = json.loads(here("mcp", "call", "s", "environment").out)["variables"]
    assert variables["MODE"] == "a=b"
    assert "log: info: at your service" in here("mcp", "logs", "s").out
    assert here("mcp", "remove", "s").code == 0
    assert path.read_text(encoding="utf-8") == '{\n  // mine\n  "username": "me",\n  "mcp": {\n    \n  }\n}\n'
    assert "has no MCP server s" in here("mcp", "remove", "s").complaint
    assert "MCP server not found: s" in here("mcp", "call", "s", "echo").complaint


def test_arguments_are_checked_before_a_call(holdfast: Machine, here: Invoke) -> None:
    """API-641."""
    holdfast.configure_user(mcp={"s": scripted()})
    refused = here("mcp", "call", "s", "echo", '{"text": 7}')
    assert (refused.code, refused.out) == (1, "")
    assert "Invalid tool input" in refused.complaint
    assert "text" in refused.complaint


def test_a_remote_server_is_added_with_headers(holdfast: Machine, here: Invoke) -> None:
    """API-599: into the project's file on request, in a form that every version of OpenCode reads."""
    here("mcp", "add", "docs", "https://x.example/mcp", "--header", "Authorization: Bearer {env:KEY}")
    written = json.loads(user_file(holdfast).read_text(encoding="utf-8"))
    headers = {"Authorization": "Bearer {env:KEY}"}
    assert written == {"mcp": {"docs": {"type": "remote", "url": "https://x.example/mcp", "headers": headers}}}
    assert stat.S_IMODE(user_file(holdfast).stat().st_mode) == 0o600
    project = here("mcp", "add", "more", "https://y.example", "--project")
    assert "once it is trusted" in project.err
    assert json.loads((holdfast.project / "opencode.json").read_text(encoding="utf-8"))["mcp"].keys() == {"more"}
    assert here("mcp", "remove", "more", "--project").code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add", "resource", "https://x"), "No MCP server can be called resource"),
        (("add", "a\nb", "https://x"), "No MCP server can be called 'a\\nb'"),
        (("add", "x", "ftp://x"), "starts with https:// or http://"),
        (("add", "x", "https://x", "--env", "A=1"), "--env is for a command"),
        (("add", "x", "--header", "A: 1", "--", "cmd"), "--header is for a URL"),
        (("add", "x", "https://x", "--header", "A"), "has no ':'"),
        (("call", "x", "y", "[1]"), "not a JSON object"),
        (("call", "x", "y", "{"), "not JSON"),
        (("disconnect", "x"), "No `holdfast serve` runs"),
        (("logs", "x"), "MCP server not found"),
        (("login", "x"), "No provider mcp:x"),
    ],
)
def test_what_makes_no_sense_is_refused(here: Invoke, arguments: tuple[str, ...], reason: str) -> None:
    """API-599, API-600, API-601."""
    refused = here("mcp", *arguments)
    assert refused.code != 0
    assert reason in refused.complaint


@pytest.mark.parametrize("text", ['{"mcp": []}', '{"mcp": ', "[]"])
def test_a_file_that_cannot_be_changed_is_not_changed(holdfast: Machine, here: Invoke, text: str) -> None:
    """API-599."""
    path = user_file(holdfast)
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert "not changed" in here("mcp", "add", "x", "https://x").complaint
    assert path.read_text(encoding="utf-8") == text


def test_a_running_server_is_used(holdfast: Machine, here: Invoke, serve: Any) -> None:
    """API-598, API-600: it keeps its servers connected between the commands."""
    holdfast.configure_user(mcp={"s": scripted(), "off": scripted(disabled=True)})
    serve()
    assert rows(here("mcp", "list"))[1][:2] == ["s", "connected"]
    assert rows(here("mcp", "list"))[1][:2] == ["s", "connected"]
    connected = here("mcp", "connect", "off")
    assert (connected.code, connected.out) == (0, "connected: 5 tools, protocol version 2025-11-25\n")
    assert here("mcp", "disconnect", "off").code == 0
    assert rows(here("mcp", "list"))[0][:2] == ["off", "disabled"]
