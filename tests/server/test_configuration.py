"""The configuration and the sandbox of a Location over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.server.conftest import Wire

pytestmark = pytest.mark.anyio


async def test_the_effective_configuration_is_merged_and_has_no_secrets(wire: Wire, project: Path) -> None:
    """API-462: later files win, and a key is not shown."""
    provider = {"mock": {"npm": "@ai-sdk/openai-compatible", "options": {"apiKey": "sk-very-secret"}}}
    (project / "opencode.json").write_text(json.dumps({"model": "a/b", "provider": provider}), encoding="utf-8")
    (folder := project / ".opencode").mkdir()
    (folder / "opencode.json").write_text(json.dumps({"model": "c/d"}), encoding="utf-8")
    answer = await wire.get("/api/config/effective")

    assert answer.data["model"] == "c/d"
    assert b"sk-very-secret" not in answer.body


async def test_the_sandbox_that_is_off_names_a_back_end_only_when_asked(wire: Wire) -> None:
    """API-462: looking for one costs a process."""
    assert (await wire.get("/api/sandbox")).data == {"mode": "off", "required": False}
    probed = (await wire.get("/api/sandbox?probe=true")).data

    assert probed["mode"] == "off"
    assert ("backend" in probed) != ("problem" in probed)


async def test_the_sandbox_that_is_on_says_what_is_in_force(wire: Wire, project: Path) -> None:
    """API-462: or why nothing is. Only the user's own configuration can ask for it."""
    config = {"holdfast": {"sandbox": {"mode": "workspace", "required": True}}}
    (folder := project.parent / ".config" / "opencode").mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    found = (await wire.get("/api/sandbox")).data

    assert (found["mode"], found["required"]) == ("workspace", True)
    assert "inForce" in found or "problem" in found
