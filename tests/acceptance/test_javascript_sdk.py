"""The official JavaScript SDK against a real `holdfast serve`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import npm_package

SDK = "@opencode-ai/sdk"
VERSION = "1.19.3"
SCRIPT = Path(__file__).with_name("sdk.mjs")
STEP = ["session.next.step.started", "session.next.text.started", "session.next.text.ended"]

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def modules() -> Path:
    return npm_package(SDK, VERSION)


@pytest.fixture
def checks(
    tmp_path: Path, node: str, project: Path, script: Path, modules: Path, server: str
) -> dict[str, dict[str, Any]]:
    """What the script saw, by the name of each check."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    command = [node, str(tmp_path / SCRIPT.name), server, str(project), str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"{lines[-1:]} {run.stderr}"
    return {line["check"]: line for line in lines}


def test_the_official_javascript_sdk_works_unchanged(checks: dict[str, dict[str, Any]]) -> None:
    """API-003, API-035, API-100, API-101, API-111, API-115, API-116, API-117, API-122, API-124, API-130, API-133,
    API-134, API-140, API-150, API-202, API-210, API-221, API-223: every kind of operation, as the SDK itself sends and
    reads it: create, list with cursors, prompt, tool call, permission and question, interrupt, events, errors."""
    assert list(checks) == [
        "health",
        "location",
        "create without arguments",
        "create with arguments",
        "get",
        "list",
        "prompt",
        "wait",
        "messages",
        "message",
        "history",
        "resume",
        "switch",
        "permission allowed",
        "permission rejected",
        "question answered",
        "question dismissed",
        "interrupt",
        "catalogs",
        "files",
        "errors",
    ]
    assert all(line["ok"] for line in checks.values())
    assert (checks["list"]["listed"], checks["list"]["here"]) == (3, 3)
    assert checks["prompt"]["types"] == [
        "session.next.prompt.admitted",
        "session.next.prompted",
        *STEP,
        "session.next.tool.input.started",
        "session.next.tool.input.ended",
        "session.next.tool.called",
        "session.next.tool.success",
        "session.next.step.ended",
        *STEP,
        "session.next.step.ended",
    ]
    assert checks["permission allowed"]["again"] == "PermissionNotFoundError"
    assert checks["question dismissed"]["again"] == "QuestionNotFoundError"
    assert {"build", "plan"} <= set(checks["catalogs"]["agents"])
    assert checks["errors"]["tags"] == [
        "404 SessionNotFoundError",
        "404 SessionNotFoundError",
        "404 SessionNotFoundError",
        "404 MessageNotFoundError",
        "409 ConflictError",
        "400 InvalidCursorError",
        "400 InvalidRequestError",
    ]
