"""A project whose files are meant to be in the way: its Sessions are answered all the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import new_session
from tests.core.session.support_lab import LAB, Lab, Provider

from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio

IMPOSSIBLE = ["a\0b", "\ud800", "\udcff/*", "x" * 300, "y/" * 3000 + "*"]
REFERENCE = {"path": "/x", "description": "half a character: \ud800"}


@pytest.mark.parametrize(
    "config",
    [{"instructions": IMPOSSIBLE}, {"skills": IMPOSSIBLE}, {"references": {"r": REFERENCE}}],
    ids=["instructions", "skills", "references"],
)
async def test_configuration_that_nobody_could_mean(tmp_path: Path, config: dict[str, Any]) -> None:
    """CTX-145, CTX-171, CTX-191: paths that no file can have, and text that cannot be sent."""
    await answered(tmp_path, {"opencode.json": json.dumps(config)})


async def test_files_that_are_no_text(tmp_path: Path) -> None:
    """CTX-136, CTX-171: binary instructions, and skills with names and heads that are none."""
    skills = tmp_path / "project" / ".opencode" / "skills"
    skills.mkdir(parents=True)
    (skills / os.fsdecode(b"\xff.md")).write_text("---\ndescription: odd\n---\nbody", encoding="utf-8")
    (skills / "loop").symlink_to("loop")
    heads = ['description: "\\uD800"', "description: &a [*a]", "name: [x]", "name: 2024-13-01\ndescription: q"]
    files = {f".opencode/skills/s{n}/SKILL.md": f"---\n{head}\n---\nbody" for n, head in enumerate(heads)}
    (tmp_path / "project" / "AGENTS.md").write_bytes(bytes(range(256)) * 10)
    await answered(tmp_path, files)


async def answered(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello"), resume=False)
        await runtime.sessions.run(session.id)
    assert len(provider.requests) == 1
