"""What documents are made into, and what happens to bad ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.config.conftest import Place

from holdfast.core.config.config import FILE_LIMIT, MOST_PROBLEMS, describe
from holdfast.core.config.schema import ConfigFile, json_schema
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.core.diagnostic import Diagnostic

Load = Callable[[Any], dict[str, Any]]


def test_no_files_is_no_problem(place: Place) -> None:
    """CAT-026."""
    found = place.load()
    assert (found.documents(), found.diagnostics(), found.effective()) == ((), (), {})


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"7",
        b"null",
        b'{"model": "p/x"} trailing',
        b"\xff\xfe",
        b'{"providers": {"p": 7}}',
        b'{"provider": {"p": {"options": {"headers": {"a": 7}}}}}',
        b'{"providers": []}',
        b'{"provider": "p"}',
        b'{"model": 7}',
        b'{"model": ["p/x"]}',
    ],
)
def test_a_bad_file_is_reported_and_the_rest_still_counts(place: Place, content: bytes) -> None:
    """CAT-026, CAT-027: a diagnostic that names the file, never an exception."""
    place.user_config({"model": "p/good"})
    (place.root / "opencode.json").write_bytes(content)
    found = place.load()
    assert found.latest("model") == "p/good"
    (problem,) = found.diagnostics()
    assert (problem.path, bool(problem.message)) == (str(place.root / "opencode.json"), True)


@pytest.mark.parametrize("content", ["", "  \n", "\ufeff"])
def test_an_empty_file_says_nothing(place: Place, content: str) -> None:
    """CAT-026."""
    place.write("opencode.json", content)
    assert (place.load().documents(), place.load().diagnostics()) == ((), ())


def test_files_that_cannot_be_read(place: Place) -> None:
    """CAT-027: a folder of that name, a file that is far too large, a link that leads nowhere."""
    (place.root / "opencode.json").mkdir()
    with (place.root / "opencode.jsonc").open("wb") as file:
        file.truncate(FILE_LIMIT + 1)
    (place.root / "packages" / "opencode.json").symlink_to("nowhere")
    found = place.load(place.root / "packages").diagnostics()
    assert [Path(problem.path).name for problem in found] == ["opencode.json", "opencode.jsonc"]


def test_the_last_document_that_says_something_counts(place: Place) -> None:
    """CAT-030: there is no merged object, and `null` says nothing."""
    place.user_config({"model": "p/good", "providers": {"p": {"name": "P"}}})
    place.write("opencode.json", {"model": None, "providers": {"p": None, "q": {"name": None}}, "shell": "zsh"})
    found = place.load()
    assert (found.latest("model"), found.latest("shell"), found.latest("username")) == ("p/good", "zsh", None)
    assert [document.data.get("providers") for document in found.documents()] == [{"p": {"name": "P"}}, {"q": {}}]
    assert found.diagnostics() == ()


def test_one_bad_entry_does_not_take_the_others_along(place: Place) -> None:
    """CAT-027: an agent, a provider, a model, a server, a command or a reference goes alone, and its place is named."""
    place.write(
        "opencode.json",
        """{
        "agents": {"good": {"steps": 3},
                   "bad": {"steps": -1}},
        "providers": {"good": {"models": {"m": {},
                                          "bad": {"limit": {"context": "many"}}}},
                      "bad": []},
        "mcp": {"servers": {"good": {"type": "local", "command": ["x"]},
                            "bad": {"type": "local"}}},
        "commands": {"good": {"template": "t"},
                     "bad": {}},
        "references": {"good": "../x",
                       "bad": {"branch": "b"}},
        "plugins": ["good", 7]
        }""",
    )
    found = place.load()
    assert found.documents()[0].data == {
        "agents": {"good": {"steps": 3}},
        "providers": {"good": {"models": {"m": {}}}},
        "mcp": {"servers": {"good": {"type": "local", "command": ["x"]}}},
        "commands": {"good": {"template": "t"}},
        "references": {"good": "../x"},
        "plugins": ["good"],
    }
    assert [problem.line for problem in found.diagnostics()] == [3, 5, 6, 8, 10, 12, 13]
    assert {problem.severity for problem in found.diagnostics()} == {"warning"}


@pytest.mark.parametrize(
    ("content", "rules"),
    [
        ({"permissions": [{"action": "bash", "resource": "rm *", "effect": "dney"}]}, [("bash", "rm *", "deny")]),
        ({"permissions": [{"action": "bash", "effect": "deny"}]}, [("bash", "*", "deny")]),
        (
            {"permissions": [{"action": "read", "resource": "*", "effect": "allow"}, 7]},
            [("read", "*", "allow"), ("*", "*", "deny")],
        ),
        ({"permissions": "deny"}, [("*", "*", "deny")]),
        ({"permission": {"bash": {"rm *": "nope"}}}, [("bash", "rm *", "deny")]),
        ({"permission": {"edit": 7}}, [("edit", "*", "deny")]),
        ({"permission": ["deny"]}, [("*", "*", "deny")]),
        ({"tools": {"write": "no"}}, [("edit", "*", "deny")]),
    ],
)
def test_an_unreadable_rule_closes_its_document(place: Place, content: Any, rules: list[tuple[str, str, str]]) -> None:
    """CAT-027: denies what it still names, ignores the rest of the file, and is an error."""
    place.write("opencode.json", {**content, "model": "p/x", "agents": {"a": {}}})
    found = place.load()
    (document,) = found.documents()
    assert document.data.keys() == {"permissions"}
    assert [(rule["action"], rule["resource"], rule["effect"]) for rule in document.data["permissions"]] == rules
    assert (found.diagnostics()[0].severity, found.refused) == ("error", True)


def test_an_unreadable_policy_closes_its_document(place: Place) -> None:
    """CAT-027."""
    statements = [
        {"effect": "alow", "action": "provider.use", "resource": "x"},
        {"effect": "allow", "action": "model.use"},
    ]
    place.write("opencode.json", {"experimental": {"policies": statements}, "model": "p/x"})
    (document,) = place.load().documents()
    deny = {"effect": "deny", "action": "provider.use"}
    assert document.data == {"experimental": {"policies": [{**deny, "resource": "x"}, {**deny, "resource": "*"}]}}


def test_an_agents_unreadable_rule_denies(place: Place) -> None:
    """CAT-027: dropping the agent would lift what it denies to a built-in one."""
    place.write(
        "opencode.json", {"agents": {"build": {"steps": "x", "permissions": [{"action": "bash", "effect": 1}]}}}
    )
    assert place.load().documents()[0].data["agents"] == {
        "build": {"permissions": [{"action": "bash", "resource": "*", "effect": "deny"}]}
    }


@pytest.mark.parametrize(
    ("content", "suggestion"),
    [
        ({"modle": "p/x"}, "model"),
        ({"default_agnet": "x"}, "default_agent"),
        ({"theme": "dark"}, None),
        ({"agents": {"a": {"prompt": "x"}}}, "system"),
        ({"agents": {"a": {"descripton": "x"}}}, "description"),
        ({"providers": {"p": {"npm": "x"}}}, "api"),
        ({"compaction": {"bufer": 1}}, "buffer"),
        ({"mcp": {"servers": {"s": {"type": "remote", "url": "u", "header": {}, "disabled": True}}}}, "headers"),
        ({"providers": {"p": {"models": {"m": {"limit": {"contxt": 1}}}}}}, "context"),
        ({"permissions": [{"action": "bash", "resource": "*", "effect": "ask", "resourse": "x"}]}, "resource"),
        ({"compaction": {"keep": {"token": 1}}}, "tokens"),
        ({"experimental": {"batch_tool": True}}, None),
    ],
)
def test_unknown_names_are_ignored_and_the_nearest_is_named(place: Place, content: Any, suggestion: str | None) -> None:
    """CAT-026, CAT-027."""
    place.write("opencode.json", {**content, "shell": "sh"})
    found = place.load()
    assert found.latest("shell") == "sh"
    (problem,) = found.diagnostics()
    assert (problem.suggestion, problem.severity) == (suggestion, "warning")


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ({"agents": {"a": {"steps": "5", "hidden": "true"}}}, {"agents": {"a": {"steps": 5, "hidden": True}}}),
        ({"snapshots": "false"}, {"snapshots": False}),
        ({"tool_output": {"max_lines": 10.0}}, {"tool_output": {"max_lines": 10}}),
    ],
)
def test_loose_types_are_read_and_reported(place: Place, content: Any, read: dict[str, Any]) -> None:
    """CAT-027: variables are always text, so a number may come as one."""
    place.write("opencode.json", content)
    found = place.load()
    assert (found.documents()[0].data, len(found.diagnostics())) == (read, 1)


def test_the_last_of_two_equal_keys_counts_and_is_reported(place: Place) -> None:
    """CAT-027."""
    place.write("opencode.json", '{"model": "p/a", "model": "p/b"}')
    found = place.load()
    assert (found.latest("model"), len(found.diagnostics())) == ("p/b", 1)


@pytest.mark.parametrize(
    ("action", "resource"),
    [("*", "*"), ("external_directory", "*"), ("**", "**"), ("external_*", "/*"), ("e*y", "?*")],
)
def test_a_project_that_allows_everything_is_noticed(place: Place, action: str, resource: str) -> None:
    """CAT-027, CAT-062, CAT-180: without trust it is ignored, and not silently; the user's own file may say so."""
    rule = {"action": action, "resource": resource, "effect": "allow"}
    place.user_config({"permissions": [rule]})
    assert place.load().diagnostics() == ()
    place.write("opencode.json", {"permissions": [rule], "agents": {"build": {"permissions": [rule]}}})
    assert len(place.load(trust=TRUST_NOTHING).diagnostics()) == 2
    assert place.load().diagnostics() == ()


def test_a_file_of_garbage_is_told_in_few_words(place: Place) -> None:
    """CAT-026, CAT-027: nearly five megabytes of unknown names, in one pass over them."""
    names = {f"unknown_name_{number:06}": {"prompt": "x" * 20} for number in range(80_000)}
    place.write("opencode.json", {"shell": "sh", **names})
    found = place.load()
    assert found.latest("shell") == "sh"
    assert len(found.diagnostics()) == MOST_PROBLEMS + 1


def test_a_fatal_problem_is_never_lost_among_many(place: Place) -> None:
    """CAT-027."""
    names = {f"unknown_{number}": 1 for number in range(200)}
    place.write("opencode.json", {**names, "permissions": [7]})
    assert place.load().refused


def test_problems_are_logged_by_weight(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """CAT-027: never only silence."""
    place.write("opencode.json", '{"modle": 1,\n"permissions": 7}')
    place.load()
    assert [(record.levelno, "did you mean model?" in record.message) for record in caplog.records] == [
        (logging.WARNING, True),
        (logging.ERROR, False),
    ]
    assert describe(Diagnostic("/a", "m", 3)) == "/a:3: m"


def test_the_shown_configuration_merges_documents_by_key(place: Place) -> None:
    """CAT-031: scalars latest, objects by key, some lists joined without repetition, other arrays replaced."""
    ask = {"action": "bash", "resource": "*", "effect": "ask"}
    deny = {**ask, "effect": "deny"}
    place.user_config(
        {
            "model": "p/a",
            "instructions": ["a", "b"],
            "permissions": [ask],
            "plugins": ["x"],
            "skills": ["s"],
            "providers": {"p": {"env": ["A"], "name": "P", "models": {"m": {"limit": {"context": 1}}}}},
            "watcher": {"ignore": ["a"]},
        }
    )
    place.write(
        "opencode.json",
        {
            "model": "p/b",
            "instructions": ["b", "c"],
            "permissions": [deny, ask],
            "plugins": ["x", "y"],
            "skills": ["t", "s"],
            "providers": {"p": {"env": ["B"], "models": {"m": {"limit": {"output": 2}}, "n": {}}}},
            "watcher": {"ignore": ["b"]},
        },
    )
    shown = place.load().effective()
    assert shown == {
        "model": "p/b",
        "instructions": ["a", "b", "c"],
        "permissions": [ask, deny],
        "plugins": ["x", "y"],
        "skills": ["s", "t"],
        "providers": {
            "p": {"env": ["B"], "name": "P", "models": {"m": {"limit": {"context": 1, "output": 2}}, "n": {}}}
        },
        "watcher": {"ignore": ["b"]},
    }
    shown["model"] = "changed"
    assert place.load().effective()["model"] == "p/b"


def test_a_name_as_long_as_its_file_is_told_in_few_words(place: Place) -> None:
    """CAT-027: each problem names the place, and fifty of them do not fill the log."""
    place.write("opencode.json", {"x" * 1_000_000: 1, "agents": {"y" * 1_000_000: {"steps": 0, "z": 1}}})
    problems = place.load().diagnostics()
    assert len(problems) == 3
    assert max(len(problem.message) for problem in problems) < 500


def test_a_key_that_stands_in_the_file_is_not_shown(place: Place) -> None:
    """CAT-031, CAT-033: neither under a name that says so, nor in a header, a variable, an argument or an address."""
    server = {
        "type": "remote",
        "url": "https://user:s3cret@host/mcp?api_key=s3cret&v=1",
        "headers": {"Authorization": "Bearer s3cret", "X-Own": "s3cret"},
    }
    command = ["x", "--api-key", "s3cret", "--token=s3cret", "--verbose", "plain"]
    local = {"type": "local", "command": command, "environment": {"GITHUB_PAT": "s3cret", "A": "s3cret"}}
    body = {"apiKey": "s3cret", "tokens": ["t"], "token": ["s3cret"], "author": "me", "maxTokens": 5}
    place.write(
        "opencode.json", {"mcp": {"far": server, "near": local}, "providers": {"p": {"request": {"body": body}}}}
    )
    shown = place.load().effective()
    assert "s3cret" not in str(shown)
    assert shown["mcp"]["servers"]["far"]["url"] == "https://host/…"
    assert shown["mcp"]["servers"]["near"]["environment"] == {"GITHUB_PAT": "***", "A": "***"}
    assert shown["mcp"]["servers"]["near"]["command"] == ["x", "--api-key", "***", "--token=***", "--verbose", "plain"]
    assert shown["providers"]["p"]["request"]["body"] == {
        "apiKey": "***",
        "tokens": ["t"],
        "token": ["***"],
        "author": "me",
        "maxTokens": 5,
    }


@pytest.mark.parametrize(
    ("content", "valid"),
    [
        ({"autoupdate": "notify"}, True),
        ({"autoupdate": "sometimes"}, False),
        ({"share": "manual"}, True),
        ({"share": "often"}, False),
        ({"enterprise": {"url": "https://x"}, "username": "u", "snapshots": False, "shell": "zsh"}, True),
        ({"watcher": {"ignore": ["x"]}, "formatter": {"x": {"command": ["y"]}}, "lsp": True}, True),
        ({"formatter": "yes please"}, False),
        (
            {"attachments": {"image": {"auto_resize": True, "max_width": 1, "max_height": 2, "max_base64_bytes": 3}}},
            True,
        ),
        ({"tool_output": {"max_lines": 0}}, False),
        ({"tool_output": {"max_bytes": 1}}, True),
        ({"compaction": {"auto": False, "prune": True, "keep": {"tokens": 8000}, "buffer": 20000}}, True),
        ({"compaction": {"buffer": -1}}, False),
        ({"mcp": {"timeout": {"startup": 1, "request": 2}}}, True),
        ({"mcp": {"timeout": {"startup": 0}}}, False),
    ],
)
def test_fields_are_checked_for_type_and_bounds(data: Load, content: dict[str, Any], valid: bool) -> None:
    """CAT-160, CAT-161, TOL-280, TOL-285: their types and bounds."""
    assert data(content) == (content if valid else {})


@pytest.mark.parametrize(
    ("server", "valid"),
    [
        ({"type": "local", "command": ["x", "y"], "cwd": ".", "environment": {"A": "1"}, "disabled": True}, True),
        ({"type": "local", "command": ["x"], "timeout": {"startup": 5}}, True),
        ({"type": "local", "command": []}, False),
        ({"type": "remote", "url": "https://x", "headers": {"a": "b"}, "oauth": False}, True),
        ({"type": "remote", "url": "u", "oauth": {"client_id": "c", "scope": "s", "callback_port": 80}}, True),
        ({"type": "remote", "url": "u", "oauth": {"callback_port": 70000}}, False),
        ({"type": "remote"}, False),
        ({"type": "socket", "url": "u"}, False),
        ({"disabled": True}, True),
    ],
)
def test_mcp_servers_are_local_or_remote(data: Load, server: dict[str, Any], valid: bool) -> None:
    """CAT-162, TOL-280: one timeout may be given alone; a server of another file may be switched off."""
    found = data({"mcp": {"servers": {"s": server}}})
    assert found == ({"mcp": {"servers": {"s": server}}} if valid else {})


def test_the_schema_for_editors_knows_every_key() -> None:
    """CAT-160: generated from the same types that validate."""
    schema = json_schema()
    properties = schema["$defs"]["ConfigFile"]["properties"]
    assert set(properties) == {field.encode_name for field in msgspec.structs.fields(ConfigFile)}
    assert schema["$defs"]["Rule"]["properties"]["effect"]["enum"] == ["allow", "ask", "ask-changes", "deny"]


def test_a_provider_without_an_address_needs_trust_too(place: Place) -> None:
    """CAT-180: headers, body fields and models for a provider that the catalog knows also change what is sent to it."""
    providers = {
        "headers": {"request": {"headers": {"x-forward": "elsewhere"}}},
        "body": {"request": {"body": {"user": "somebody"}}},
        "models": {"models": {"large": {"limit": {"context": 1000, "output": 100}}}},
    }
    place.write("opencode.json", {"providers": providers, "model": "models/large"})
    assert place.load().documents()[-1].data == {"providers": providers, "model": "models/large"}
    untrusted = place.load(trust=TRUST_NOTHING)
    assert untrusted.documents()[-1].data == {"model": "models/large"}
    reports = [str(report) for report in untrusted.diagnostics()]
    assert [any(f"configures the provider {name}" in report for report in reports) for name in providers] == [True] * 3
