"""Stores the preset of permissions or sandbox that a user chose for all projects.

It is a configuration document of lowest priority: the user's own configuration files take precedence. Its permission
rules only narrow what agents may do (core/agent/configured.py)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.atomic_write import atomic_write
from holdfast.core.config.discovery import choices_file
from holdfast.private_files import own_directory
from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Preset = Literal["default", "ask", "sandbox"]

ASK_CHANGES: dict[str, Any] = {"permission": {"edit": "ask-changes", "bash": "ask-changes", "webfetch": "ask-changes"}}
PRESETS: dict[Preset, dict[str, Any]] = {
    "default": {},
    "ask": ASK_CHANGES,
    "sandbox": {"holdfast": {"sandbox": "workspace"}},
}


class Choices:
    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.path: Path = choices_file(os.environ if environment is None else environment)

    @property
    def made(self) -> bool:
        return self.path.exists()

    def choose(self, preset: Preset) -> None:
        own_directory(self.path.parent)
        atomic_write(self.path, encode(PRESETS[preset]) if PRESETS[preset] else b"")
