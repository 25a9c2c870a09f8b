"""A user's home, a project with a nested folder, and a short way to load what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.config import Config, load_config
from holdfast.core.config.trust import TRUST_EVERYTHING, Trust


class Place:
    def __init__(self, tmp_path: Path) -> None:
        self.tmp = tmp_path
        self.user = tmp_path / "home"
        self.home = self.user / ".config" / "opencode"
        self.root = tmp_path / "project"
        self.inner = self.root / "packages" / "core"
        self.home.mkdir(parents=True)
        self.inner.mkdir(parents=True)

    def write(self, path: str, content: Any) -> Path:
        """Below the project; `~/` is the user's home."""
        file = self.user / path[2:] if path.startswith("~/") else self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return file

    def user_config(self, content: Any, name: str = "opencode.json") -> Path:
        return self.write(f"~/.config/opencode/{name}", content)

    def load(self, directory: Path | None = None, *, trust: Trust = TRUST_EVERYTHING, **environment: str) -> Config:
        return load_config(directory or self.root, self.root, self.environment(**environment), trust=trust)

    def environment(self, **more: str) -> dict[str, str]:
        return {"HOME": str(self.user), **more}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def data(place: Place) -> Callable[[Any], dict[str, Any]]:
    """What one project file becomes."""

    def load(content: Any) -> dict[str, Any]:
        place.write("opencode.json", content)
        documents = place.load().documents()
        return documents[-1].data if documents else {}

    return load
