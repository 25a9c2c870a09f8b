"""MCP servers as documents configure them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.document import Document
from holdfast.core.config.schema import LocalServer
from holdfast.core.mcp.configured_servers import configured_servers
from holdfast.mcp.timeouts import Timeouts

LOCAL = {"type": "local", "command": ["x"]}


def document(servers: dict[str, Any], *, secrets: frozenset[str] = frozenset(), **mcp: Any) -> Document:
    place = Path("/x")
    return Document(place / "opencode.json", place, "user", {"mcp": {"servers": servers, **mcp}}, secrets)


def test_a_later_document_replaces_a_server_or_switches_it() -> None:
    """MCP-150."""
    found = configured_servers(
        [
            document({"a": {**LOCAL, "cwd": "c"}, "b": LOCAL, "resource": LOCAL}),
            document({"a": {"type": "local", "command": ["y"]}, "b": {"disabled": True}, "c": {"disabled": True}}),
        ]
    )
    assert list(found) == ["a", "b"]
    assert found["a"].config == LocalServer(command=["y"])
    assert (found["a"].disabled, found["b"].disabled) == (False, True)


@pytest.mark.parametrize(
    ("own", "common", "expected"),
    [
        ({}, {}, Timeouts(startup=30, catalog=30, execution=12 * 3600)),
        ({"startup": 1000}, {"startup": 9000, "catalog": 2000}, Timeouts(startup=1, catalog=2, execution=12 * 3600)),
        ({"request": 5000}, {"catalog": 1000}, Timeouts(startup=30, catalog=5, execution=5)),
        ({"request": 5000, "execution": 7000}, {}, Timeouts(startup=30, catalog=5, execution=7)),
    ],
)
def test_timeouts_of_a_server_come_before_those_of_all(
    own: dict[str, int], common: dict[str, int], expected: Timeouts
) -> None:
    """MCP-151."""
    found = configured_servers([document({"a": {**LOCAL, "timeout": own}}, timeout=common)])
    assert found["a"].timeouts == expected


def test_a_manifest_belongs_to_what_is_started_or_contacted() -> None:
    """MCP-165: not to a token; another command, address or setting is another server."""

    def key(**entry: Any) -> str:
        return configured_servers([document({"a": entry})])["a"].key

    assert key(**LOCAL, environment={"API_TOKEN": "1"}) == key(**LOCAL, environment={"API_TOKEN": "2"}, eager=True)
    assert key(**LOCAL, environment={"MODE": "1"}) != key(**LOCAL, environment={"MODE": "2"})
    assert key(**LOCAL) != key(type="local", command=["y"])
    remote = {"type": "remote", "url": "https://x"}
    assert key(**remote, headers={"Authorization": "1"}) == key(**remote, headers={"authorization": "2"})
    assert key(**remote) != key(type="remote", url="https://y")


def test_secrets_are_known_and_not_shown() -> None:
    """MCP-164."""
    servers = {
        "local": {**LOCAL, "environment": {"API_KEY": "key-1", "MODE": "fast", "OTHER": "a-variable-b"}},
        "remote": {
            "type": "remote",
            "url": "https://x",
            "headers": {"Authorization": "Bearer key-2", "X-Plain": "3"},
            "oauth": {"client_secret": "key-4"},
        },
    }
    found = configured_servers([document(servers, secrets=frozenset(("variable", "unrelated")))])
    assert found["local"].secrets == {"key-1", "variable"}
    assert found["remote"].secrets == {"Bearer key-2", "key-2", "3", "key-4"}
    assert "key" not in repr(found)


def test_a_server_belongs_to_the_document_that_declares_it() -> None:
    """MCP-361: an entry that only changes one does not make it the project's."""
    user = document({"a": LOCAL, "b": LOCAL, "c": LOCAL})
    project = document({"a": LOCAL, "b": {"disabled": True}, "d": LOCAL}).replace(origin="project")
    later = document({"d": LOCAL})
    found = configured_servers([user, project, later])
    assert {name: server.of_project for name, server in found.items()} == {
        "a": True,
        "b": False,
        "c": False,
        "d": False,
    }
