"""What the package imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

PIPES = "import holdfast.mcp.connect, holdfast.mcp.stdio, holdfast.mcp.server, holdfast.mcp.server_peer"
PRINT = "import sys; print(*sorted(name for name in sys.modules if name.split('.')[0] in ('holdfast', 'mcp')))"


@pytest.mark.parametrize(("code", "http"), [(PIPES, False), ("import holdfast.mcp.streamable_http", True)])
def test_the_package_imports_nothing_else_of_holdfast(code: str, http: bool) -> None:
    """MCP-090"""
    ran = subprocess.run([sys.executable, "-c", f"{code}; {PRINT}"], capture_output=True, text=True, check=True)
    found = {name for name in ran.stdout.split() if not name.startswith("holdfast.mcp")}
    found -= {"holdfast", "holdfast.schema", "holdfast.schema.version"}  # `import holdfast` itself
    assert {name for name in found if not name.startswith("holdfast.http")} == set()
    assert bool(found) == http
