"""A Location with a neighbourhood that nothing may touch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.tool.tool_support import FileTools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)
