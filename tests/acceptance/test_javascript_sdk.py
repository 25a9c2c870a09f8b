"""The official JavaScript SDK against a real `holdfast serve`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SDK = "@opencode-ai/sdk"
VERSION = "1.19.3"
SCRIPT = Path(__file__).with_name("sdk.mjs")
STEP = ["session.next.step.started", "session.next.text.started", "session.next.text.ended"]

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def node() -> str:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return "node"


@pytest.fixture(scope="module")
def modules(node: str) -> Path:
    """A node_modules folder with the SDK, outside the source tree and kept between runs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast" / "acceptance"
    place = cache / f"sdk-{VERSION}"
    if not place.is_dir():
        fresh = cache / f"installing-{os.getpid()}"
        fresh.mkdir(parents=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(fresh), f"{SDK}@{VERSION}"]
        installed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert installed.returncode == 0, installed.stderr
        fresh.rename(place)
    return place / "node_modules"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello world\n", encoding="utf-8")
    (folder / "opencode.json").write_text('{"model": "demo/echo"}', encoding="utf-8")
    return folder


@pytest.fixture
def server(tmp_path: Path, project: Path) -> Iterator[str]:
    """The address of a server of its own."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--no-auth", "--port", "0"]
    with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture
def checks(tmp_path: Path, project: Path, modules: Path, server: str) -> dict[str, dict[str, Any]]:
    """What the script saw, by the name of each check."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    command = ["node", str(tmp_path / SCRIPT.name), server, str(project)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"{lines[-1:]} {run.stderr}"
    return {line["check"]: line for line in lines}


def test_the_sdk_works_unchanged(checks: dict[str, dict[str, Any]]) -> None:
    """API-003, API-100, API-101, API-111, API-117, API-122, API-202, API-210, API-221, API-223: every operation of the
    SDK that the server implements, as the SDK itself sends and reads it."""
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
        "interrupt",
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
    assert checks["errors"]["tags"] == [
        "404 SessionNotFoundError",
        "404 SessionNotFoundError",
        "404 SessionNotFoundError",
        "404 MessageNotFoundError",
        "409 ConflictError",
        "400 InvalidCursorError",
        "400 InvalidRequestError",
    ]
