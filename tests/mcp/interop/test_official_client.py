"""The core of a server with a client of the official package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_client_of_the_official_package_uses_a_server_in_both_kinds_of_versions() -> None:
    """MCP-080, MCP-081, MCP-082, MCP-083, MCP-084, MCP-087"""
    script = Path(__file__).parent / "official_client.py"
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    common = {
        "instructions": "Ask.",
        "server": "ours",
        "tools": ["add", "fail", "steps", "wait", "cancellations", "ask", "change"],
        "add": ["3", {"total": 3}],
        "fail": ["it does not work", True],
        "steps": "2 steps",
        "progress": [[1, 2, "step 1"], [2, 2, "step 2"]],
        "ask": "accept: Ada, asked: Who?",
        "unknown": [-32602, "Unknown tool: nothing"],
        "cancelled": "1",
        "changed": "ToolsListChanged",
    }
    assert json.loads(ran.stdout) == [{"version": "2025-11-25", **common}, {"version": "2026-07-28", **common}]
