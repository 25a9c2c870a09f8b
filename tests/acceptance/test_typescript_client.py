"""Holdfast's own client for web pages, in node: against a real server, and alone with prepared answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("client.mjs")
MODULE = Path(__file__).parents[2] / "clients" / "typescript" / "client.js"

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


@pytest.fixture
def checks(node: str, project: Path, script: Path, server: str) -> dict[str, dict[str, Any]]:
    command = [node, str(SCRIPT), str(MODULE), server, str(project), str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"{lines[-1:]} {run.stderr}"
    return {line["check"]: line for line in lines}


def test_the_client_of_a_web_page(checks: dict[str, dict[str, Any]]) -> None:
    """API-301, API-303, API-304, API-307, API-308, API-309, API-310, API-311, API-312, API-313, API-314: loaded as it
    is, without a build; flat inputs, unwrapped answers, tagged errors, one ClientError, lazy streams, resuming."""
    assert list(checks) == [
        "create and list",
        "prompt and follow",
        "live stream and permission",
        "declared failures",
        "timeout and abort",
        "requests",
        "other failures",
        "trusts the shape",
        "streams",
        "resume",
    ]
    assert all(line["ok"] for line in checks.values())
    assert checks["prompt and follow"]["types"][:2] == ["session.next.prompt.admitted", "session.next.prompted"]
    assert checks["other failures"]["reasons"] == [
        "UnexpectedStatus",
        "UnsupportedContentType",
        "MalformedResponse",
        "MalformedResponse",
        "MalformedResponse",
        "UnsupportedContentType",
        "Transport",
    ]
    assert checks["streams"]["reasons"] == [
        "MalformedResponse",
        "MalformedResponse",
        "UnsupportedContentType",
        "Transport",
    ]
    assert checks["streams"]["left"] is True
    assert checks["resume"]["seen"] == [1, 2, 3]
