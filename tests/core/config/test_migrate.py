"""Files of the first generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.config.conftest import Place

from holdfast.core.policy.policy import Policy

Load = Callable[[Any], dict[str, Any]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"autoshare": True}, {"share": "auto"}),
        ({"autoshare": True, "share": "manual"}, {"share": "manual"}),
        ({"autoshare": False}, {}),
        ({"provider": {"p": {"blacklist": [{}, 7, "m"]}}}, {"providers": {"p": {"models": {"m": {"disabled": True}}}}}),
        ({"snapshot": False}, {"snapshots": False}),
        ({"attachment": {"image": {"max_width": 5}}}, {"attachments": {"image": {"max_width": 5}}}),
        ({"command": {"c": {"template": "t"}}}, {"commands": {"c": {"template": "t"}}}),
        ({"reference": {"r": "./x"}}, {"references": {"r": "./x"}}),
        ({"reference": {"r": "./x"}, "references": {"s": "./y"}}, {"references": {"s": "./y"}}),
        ({"skills": {"urls": ["u"], "paths": ["p"]}, "snapshot": True}, {"skills": ["p", "u"], "snapshots": True}),
        (
            {"plugin": ["a", ["b", {"x": 1}], ["c"]]},
            {"plugins": ["a", {"package": "b", "options": {"x": 1}}, {"package": "c"}]},
        ),
        (
            {"compaction": {"auto": False, "preserve_recent_tokens": 5, "reserved": 6, "tail_turns": 2}},
            {"compaction": {"auto": False, "keep": {"tokens": 5}, "buffer": 6}},
        ),
        (
            {"experimental": {"mcp_timeout": 9}, "mcp": {"s": {"type": "remote", "url": "u"}}},
            {"mcp": {"timeout": {"catalog": 9, "execution": 9}, "servers": {"s": {"type": "remote", "url": "u"}}}},
        ),
        (
            {"mcp": {"a": {"type": "local", "command": ["x"], "enabled": False, "timeout": 7}, "b": {"enabled": True}}},
            {
                "mcp": {
                    "servers": {
                        "a": {
                            "type": "local",
                            "command": ["x"],
                            "disabled": True,
                            "timeout": {"catalog": 7, "execution": 7},
                        },
                        "b": {"disabled": False},
                    }
                }
            },
        ),
        (
            {"mcp": {"s": {"type": "remote", "url": "u", "oauth": {"clientId": "i", "callbackPort": 8, "scope": "x"}}}},
            {
                "mcp": {
                    "servers": {
                        "s": {
                            "type": "remote",
                            "url": "u",
                            "oauth": {"client_id": "i", "scope": "x", "callback_port": 8},
                        }
                    }
                }
            },
        ),
    ],
)
def test_keys_that_are_called_differently_now(data: Load, old: dict[str, Any], new: dict[str, Any]) -> None:
    """CAT-036, CAT-037."""
    assert data(old) == new


@pytest.mark.parametrize("key", ["logLevel", "server", "layout", "small_model"])
def test_keys_without_meaning_are_dropped_and_reported(place: Place, key: str) -> None:
    """CAT-036, CAT-040."""
    place.write("opencode.json", {key: "x", "model": "p/m"})
    found = place.load()
    assert found.documents()[0].data == {"model": "p/m"}
    assert [key in problem.message for problem in found.diagnostics()] == [True]


@pytest.mark.parametrize(
    ("old", "rules"),
    [
        ({"permission": "ask"}, ["ask * *"]),
        ({"permission": {"bash": "deny", "edit": "ask"}}, ["deny bash *", "ask edit *"]),
        ({"permission": {"bash": {"*": "ask", "git *": "allow"}}}, ["ask bash *", "allow bash git *"]),
        ({"permission": {"bash": {"git *": "allow", "*": "ask"}}}, ["allow bash git *", "ask bash *"]),
        ({"tools": {"write": False, "patch": True, "bash": False}}, ["deny edit *", "allow edit *", "deny bash *"]),
        ({"permission": {"edit": "allow"}, "tools": {"write": False}}, ["deny edit *", "allow edit *"]),
        ({"permission": {"bash": None}}, []),
    ],
)
def test_permissions_become_rules_in_written_order(data: Load, old: dict[str, Any], rules: list[str]) -> None:
    """CAT-036, CAT-038: booleans of `tools` come first; of two patterns the later one will decide."""
    found = data(old).get("permissions", [])
    assert [f"{rule['effect']} {rule['action']} {rule['resource']}" for rule in found] == rules


def test_old_agents_and_modes_are_migrated_to_agents(data: Load) -> None:
    """CAT-036, CAT-038: renamed fields, options and unknown keys into the body, modes as primary agents."""
    old = {
        "agent": {
            "a": {
                "prompt": "p",
                "disable": False,
                "temperature": 0.5,
                "top_p": 0.9,
                "options": {"reasoningEffort": "high"},
                "maxSteps": 7,
                "textVerbosity": "low",
                "model": "p/m",
                "variant": "v",
                "tools": {"bash": False},
                "permission": {"edit": "ask"},
            }
        },
        "mode": {"m": {"prompt": "q", "mode": "subagent"}},
    }
    assert data(old)["agents"] == {
        "a": {
            "model": "p/m",
            "variant": "v",
            "request": {"body": {"reasoningEffort": "high", "textVerbosity": "low", "temperature": 0.5, "top_p": 0.9}},
            "system": "p",
            "steps": 7,
            "disabled": False,
            "permissions": [
                {"action": "bash", "resource": "*", "effect": "deny"},
                {"action": "edit", "resource": "*", "effect": "ask"},
            ],
        },
        "m": {"system": "q", "mode": "primary"},
    }


def test_old_providers_and_models_are_migrated(data: Load) -> None:
    """CAT-036, CAT-039: package and address into `api`; options stay together, for the catalog to sort."""
    old = {
        "provider": {
            "p": {
                "name": "P",
                "npm": "@ai-sdk/openai-compatible",
                "env": ["KEY"],
                "options": {"baseURL": "http://h", "apiKey": "k", "headers": {"a": "b"}, "timeout": False},
                "models": {
                    "m": {
                        "id": "real",
                        "name": "M",
                        "tool_call": True,
                        "structured_output": False,
                        "modalities": {"input": ["text", "image"]},
                        "options": {"reasoningEffort": "low"},
                        "headers": {"x": "y"},
                        "cost": {
                            "input": 1,
                            "output": 2,
                            "cache_read": 0.1,
                            "context_over_200k": {"input": 3, "output": 4},
                        },
                        "limit": {"context": 10, "output": 5},
                        "variants": {"fast": {"reasoningEffort": "none"}, "off": {"disabled": True}, "max": {"x": 1}},
                        "reasoning": True,
                    },
                    "old": {"status": "deprecated", "provider": {"npm": "@ai-sdk/openai", "api": "http://o"}},
                },
                "blacklist": ["gone"],
            },
            "known": {"api": "http://proxy", "options": {"apiKey": "k", "body": {"x": 1}}},
        }
    }
    found = data(old)["providers"]
    assert found["p"] == {
        "name": "P",
        "env": ["KEY"],
        "api": {"type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://h"},
        "request": {"headers": {"a": "b"}, "body": {"apiKey": "k", "timeout": False}},
        "models": {
            "m": {
                "name": "M",
                "api": {"id": "real"},
                "capabilities": {"tools": True, "input": ["text", "image"], "output": ["text"], "structured": False},
                "request": {"headers": {"x": "y"}, "body": {"reasoningEffort": "low"}},
                "variants": [{"body": {"reasoningEffort": "none"}, "id": "fast"}, {"body": {"x": 1}, "id": "max"}],
                "cost": [
                    {"input": 1.0, "output": 2.0, "cache": {"read": 0.1}},
                    {"input": 3.0, "output": 4.0, "tier": {"type": "context", "size": 200000}},
                ],
                "limit": {"context": 10, "output": 5},
            },
            "old": {"api": {"type": "aisdk", "package": "@ai-sdk/openai", "url": "http://o"}, "disabled": True},
            "gone": {"disabled": True},
        },
    }
    assert found["known"] == {"request": {"body": {"apiKey": "k", "x": 1, "baseURL": "http://proxy"}}}


@pytest.mark.parametrize(
    ("old", "statements"),
    [
        ({"disabled_providers": ["a", "b"]}, ["deny a", "deny b"]),
        ({"enabled_providers": ["a"]}, ["deny *", "allow a"]),
        ({"enabled_providers": ["a", "b"], "disabled_providers": ["b"]}, ["deny *", "allow a", "allow b", "deny b"]),
        ({"enabled_providers": []}, ["deny *"]),
        ({"disabled_providers": "a"}, ["deny *"]),
    ],
)
def test_provider_lists_become_policy(data: Load, old: dict[str, Any], statements: list[str]) -> None:
    """CAT-036, CAT-040: and a list that cannot be read denies."""
    found = data(old)["experimental"]["policies"]
    assert [f"{item['effect']} {item['resource']}" for item in found] == statements
    assert {item["action"] for item in found} == {"provider.use"}


def test_newer_keys_win_in_a_mixed_file(data: Load) -> None:
    """CAT-040: nothing newer is lost, by name where names exist."""
    old = {
        "agent": {"a": {"prompt": "old"}, "b": {"prompt": "only old"}},
        "agents": {"a": {"system": "new"}, "c": {"system": "only new"}},
        "snapshot": True,
        "snapshots": False,
        "permission": {"bash": "allow"},
        "permissions": [{"action": "bash", "resource": "*", "effect": "deny"}],
        "provider": {"p": {"name": "old"}},
        "providers": {"p": {"name": "new"}},
    }
    found = data(old)
    assert {id: agent["system"] for id, agent in found["agents"].items()} == {
        "a": "new",
        "b": "only old",
        "c": "only new",
    }
    assert (found["snapshots"], found["providers"]["p"]["name"]) == (False, "new")
    assert found["permissions"] == [
        {"action": "bash", "resource": "*", "effect": "allow"},
        {"action": "bash", "resource": "*", "effect": "deny"},
    ]


DENY = {"action": "bash", "resource": "*", "effect": "deny"}
ASK = {"action": "edit", "resource": "*", "effect": "ask"}


@pytest.mark.parametrize(
    ("old", "rules"),
    [
        ({"permission": {"bash": "deny"}, "permissions": None}, [DENY]),
        ({"permission": {"bash": "deny"}, "permissions": [ASK]}, [DENY, ASK]),
        ({"tools": {"bash": False}, "permissions": [ASK]}, [DENY, ASK]),
    ],
)
def test_no_denial_is_lost_in_a_mixed_file(data: Load, old: dict[str, Any], rules: list[Any]) -> None:
    """CAT-027, CAT-040: newer rules come last and so win; what they do not speak of is still denied. The same holds
    within an agent, whichever of its names are the newer ones."""
    assert data(old) == {"permissions": rules}
    assert data({"agent": {"a": old}}) == {"agents": {"a": {"permissions": rules}}}
    newer = {"agents": {"a": {"permissions": old["permissions"], "steps": 3}}}
    older = {"agent": {"a": {**old, "permissions": None, "steps": 5, "mode": "all"}}}
    assert data({**newer, **older}) == {"agents": {"a": {"steps": 3, "permissions": rules}}}


def test_newer_names_of_an_agent_count_beside_older_ones(data: Load) -> None:
    """CAT-038, CAT-040: only what neither generation knows is for the model."""
    agent = {
        "temperature": 0.2,
        "other": 1,
        "system": "new",
        "prompt": "old",
        "disabled": False,
        "permissions": [DENY],
        "request": {"headers": {"x": "y"}, "body": {"top_k": 3, "temperature": 1}},
    }
    assert data({"agent": {"a": agent}})["agents"]["a"] == {
        "system": "new",
        "disabled": False,
        "permissions": [DENY],
        "request": {"headers": {"x": "y"}, "body": {"other": 1, "temperature": 1, "top_k": 3}},
    }


@pytest.mark.parametrize(
    "old",
    [
        {"tools": "none"},
        {"tools": ["bash"], "permissions": [ASK]},
        {"tools": {"bash": False}, "permissions": "deny"},
        {"permission": 7, "permissions": [ASK]},
    ],
)
def test_rules_that_cannot_be_read_deny_everything(place: Place, old: dict[str, Any]) -> None:
    """CAT-027: in either form, and in whichever of both."""
    place.write("opencode.json", {**old, "model": "p/m"})
    found = place.load()
    assert found.documents()[0].data == {"permissions": [{"action": "*", "resource": "*", "effect": "deny"}]}
    assert found.refused


@pytest.mark.parametrize(
    "old",
    [
        {"disabled_providers": "allow"},
        {"disabled_providers": "openai"},
        {"enabled_providers": "allow"},
        {"enabled_providers": {"effect": "allow", "action": "provider.use", "resource": "*"}},
        {"disabled_providers": ["p"], "experimental": {"policies": "deny"}},
    ],
)
def test_providers_that_cannot_be_read_are_all_denied(place: Place, old: dict[str, Any]) -> None:
    """CAT-027, CAT-040: a word that happens to be an effect is none here."""
    place.write("opencode.json", {**old, "model": "p/m"})
    found = place.load()
    assert not Policy(found.documents()).allows_provider("p")
    assert not Policy(found.documents()).allows_provider("q")
    assert found.refused


@pytest.mark.parametrize(
    ("old", "new", "about"),
    [
        ({"agent": {"a": {"prompt": "p"}}, "mode": []}, {"agents": {"a": {"system": "p"}}}, "mode"),
        ({"agent": 7, "agents": {"a": {"system": "p"}}}, {"agents": {"a": {"system": "p"}}}, "agent"),
        ({"provider": "p", "providers": {"p": {"name": "n"}}}, {"providers": {"p": {"name": "n"}}}, "provider"),
        ({"compaction": {"reserved": 5, "wrong": 1}}, {"compaction": {"buffer": 5}}, "compaction.wrong"),
        ({"provider": {"p": {"models": {"m": {"cost": 7}}}}}, {"providers": {"p": {"models": {}}}}, "models.m"),
        ({"provider": {"p": {"models": {"m": {"variants": 7}}}}}, {"providers": {"p": {"models": {}}}}, "models.m"),
        ({"provider": {"p": {"models": 7}}}, {"providers": {"p": {}}}, "provider.p.models"),
    ],
)
def test_a_dropped_setting_is_reported(place: Place, old: dict[str, Any], new: dict[str, Any], about: str) -> None:
    """CAT-027: never only silence, and the rest of the file counts."""
    place.write("opencode.json", old)
    found = place.load()
    assert found.documents()[0].data == new
    (problem,) = found.diagnostics()
    assert about in problem.message
