"""A real `holdfast serve` in a process of its own, and node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


def npm_package(name: str, version: str) -> Path:
    """The node_modules folder of an installation of one package, outside the source tree and kept between runs. Skips
    the test where npm is not installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast" / "acceptance"
    place = cache / f"{name.replace('/', '-')}-{version}"
    if not place.is_dir():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        fresh = cache / f"installing-{place.name}-{os.getpid()}"
        fresh.mkdir(parents=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(fresh), f"{name}@{version}"]
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
    (tmp_path / "outside.txt").write_text("from outside\n", encoding="utf-8")
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """What demo/scripted plays."""
    path = tmp_path / "script.json"
    path.write_text("[]", encoding="utf-8")
    return path


@pytest.fixture
def server(tmp_path: Path, project: Path, script: Path) -> Iterator[str]:
    """The address of a server of its own."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOLDFAST_SCRIPT": str(script),
    }
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--no-auth", "--port", "0"]
    with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            process.wait(timeout=40)
