"""What a configuration file says and nothing here acts on is named: the file, the path in it, and a near name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, NearMachine, Server, finish

OPENCODE: dict[str, Any] = {
    "$schema": "https://opencode.ai/config.json",
    "theme": "dark",
    "keybinds": {"leader": "ctrl+x"},
    "tui": {"scroll_speed": 3},
    "autoupdate": True,
    "share": "auto",
    "username": "ada",
    "enterprise": {"url": "https://example.invalid"},
    "watcher": {"ignore": ["dist/**"]},
    "formatter": {"prettier": {"disabled": True}},
    "lsp": {"pyright": {"command": ["pyright-langserver"]}},
    "media": {"image": {"max_width": 100}},
    "websearch": {"provider": "exa"},
    "warming": True,
    "small_model": "p/m",
    "logLevel": "DEBUG",
    "server": {"port": 1},
    "layout": "auto",
    "mcp": {"docs": {"type": "remote", "url": "https://example.invalid"}},
    "command": {"c": {"template": "t", "subtask": True}},
    "compaction": {"tail_turns": 3},
    "experimental": {"batch_tool": True, "openTelemetry": True, "policies": []},
    "provider": {
        "p": {
            "npm": "@ai-sdk/openai-compatible",
            "whitelist": ["m"],
            "optoins": {},
            "models": {"m": {"reasoning": True, "release_date": "2025-01-01", "limits": {}, "limit": {"contxt": 1}}},
        }
    },
    "agent": {"a": {"promt": "x", "permission": {"bsah": "deny"}}},
    "permission": {"shell": "deny", "list": "allow"},
}

NAMED = {
    "theme": None,
    "keybinds": None,
    "tui": None,
    "autoupdate": None,
    "share": None,
    "username": None,
    "enterprise": None,
    "watcher": None,
    "formatter": None,
    "lsp": None,
    "media": "attachments",
    "websearch": None,
    "warming": None,
    "small_model": None,
    "logLevel": None,
    "server": None,
    "layout": None,
    "compaction.tail_turns": None,
    "experimental.batch_tool": None,
    "experimental.openTelemetry": None,
    "provider.p.whitelist": None,
    "provider.p.optoins": "options",
    "provider.p.models.m.reasoning": None,
    "provider.p.models.m.release_date": None,
    "provider.p.models.m.limits": "limit",
    "provider.p.models.m.limit.contxt": "context",
    "agent.a.promt": "prompt",
}
MACHINE = NearMachine


def test_everything_that_has_no_effect_is_named(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """CAT-190, CAT-191: by `config check` and the report, with its path in the file and a near name; a warning, so that
    files of OpenCode load."""
    holdfast.configure_user(**OPENCODE)
    path = str(holdfast.home / "config" / "opencode" / "opencode.json")
    checked = holdfast("config", "check")
    assert checked.code == 0
    lines = [line for line in checked.out.splitlines() if line.startswith("warning: ")]
    for name, near in NAMED.items():
        found = [line for line in lines if line.startswith(f"warning: {path}:1: {name}: ")]
        assert len(found) == 1, (name, lines)
        assert near is None or f"did you mean {near}?" in found[0], found
    rules = [line for line in lines if "no tool here asks for" in line]
    assert len(rules) == 3
    assert any("asks for shell;" in line and "did you mean bash?" in line for line in rules)
    assert any("agents.a.permissions" in line and "did you mean bash?" in line for line in rules)
    assert len(lines) == len(NAMED) + len(rules)
    server = serve("--no-auth")
    place = {"location[directory]": str(holdfast.project)}
    report = httpx2.get(f"{server.url}/api/config/report", params=place, timeout=PATIENCE).json()["data"]
    assert [f"warning: {one['path']}" for one in report["problems"]] == [f"warning: {path}"] * len(lines)


def test_what_asks_for_what_happens_anyway_is_no_problem(holdfast: Machine) -> None:
    """CAT-190."""
    holdfast.configure_user(
        autoupdate=False,
        share="disabled",
        formatter=False,
        lsp=False,
        mcp={"off": {"type": "local", "command": ["x"], "enabled": False}},
        command={"c": {"template": "t", "subtask": False}},
        permission={"bash": "ask", "*": "allow", "web*": "ask"},
    )
    ran = holdfast("config", "check")
    assert (ran.code, "no problems found" in ran.err) == (0, True), ran


@pytest.mark.parametrize("how", ["run", "serve"])
def test_the_start_says_in_one_line_that_something_does_not_count(
    holdfast: Machine, serve: Callable[..., Server], how: str
) -> None:
    """CAT-191: how many, and the first; bounded, whatever a name is like."""
    holdfast.configure_user(share="auto", lsp=True, **{"x" * 10_000: 1})
    if how == "run":
        ran = holdfast("run", "--model", "demo/echo", "hello")
        assert ran.code == 0
        assert "configuration" not in holdfast("run", "-q", "--model", "demo/echo", "hello").err
        lines = ran.err.splitlines()
    else:
        server = serve("--no-auth")
        assert server.process.stderr is not None
        lines = [server.process.stderr.readline().rstrip("\n") for _ in range(2)]
        server.process.terminate()
        finish(server.process)
    (line,) = [line for line in lines if line.startswith("configuration: ")]
    assert line.startswith("configuration: 3 problems (`holdfast config check`): warning: ")
    assert len(line) <= 400


def test_a_file_of_garbage_gives_a_bounded_report(holdfast: Machine) -> None:
    """CAT-191."""
    holdfast.configure_user(**{f"unknown{number}": number for number in range(5_000)})
    ran = holdfast("config", "check")
    assert ran.code == 0
    assert len(ran.out.splitlines()) < 60
    assert "has more problems" in ran.out


def test_a_document_that_is_mostly_unknown_still_counts(holdfast: Machine) -> None:
    """CAT-026, CAT-190: an unknown name takes nothing along."""
    holdfast.configure_user(**OPENCODE)
    shown = json.loads(holdfast("config", "show").out)
    assert shown["agents"]["a"]["permissions"] == [{"action": "bsah", "resource": "*", "effect": "deny"}]
    assert shown["commands"]["c"]["template"] == "t"
