"""The documentation says nothing that does not work: its code blocks are run, page by page, in a project of their own.

- `sh` must succeed (`sh fails`: must fail), `python` runs as a program.
- `json` must parse; `json file=NAME` is also written to that file of the project.
- `text` is output, or commands that need a network or a key. There is no other kind of block.

The generated reference is checked by `make check`; the specification and the decisions have no examples."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine

ROOT = Path(__file__).parents[2]
FOLDERS = ("tutorial", "how-to", "explanation")
TREES = ("docs", "examples", "clients", ".github")
PAGES = [
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for name in FOLDERS for page in (ROOT / "docs" / name).iterdir()),
]
BLOCK = re.compile(r"^```(\w*)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?![a-z]+:)([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.fixture
def machine(holdfast: Machine) -> Iterator[Machine]:
    """A project with the command on its path. A server that a page started and did not end is killed."""
    holdfast.environment["PATH"] = f"{Path(HOLDFAST).parent}:{holdfast.environment['PATH']}"
    yield holdfast
    for file in holdfast.project.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_work(page: str, machine: Machine) -> None:
    kinds = set()
    for language, options, code in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        kinds.add(language)
        match language:
            case "sh":
                run(machine, ["sh", "-e"], code, fails=options == "fails")
            case "python":
                run(machine, [sys.executable, "-"], code)
            case "json":
                json.loads(code)
                if options.startswith("file="):
                    (machine.project / options.removeprefix("file=")).write_text(code, encoding="utf-8")
    assert kinds <= {"sh", "python", "json", "text"}
    assert kinds & {"sh", "python"}, "a page without a single example that runs"


def run(machine: Machine, command: list[str], code: str, *, fails: bool = False) -> None:
    done = subprocess.run(
        command,
        input=code,
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode != 0) == fails, f"{code}\n{done.stdout}\n{done.stderr}"


def test_every_link_leads_to_a_file() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (*ROOT.glob("*.md"), *(page for name in TREES for page in (ROOT / name).rglob("*.md")))
        for target in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
        if not page.parent.joinpath(target).exists()
    ]
    assert broken == []


def test_every_page_is_listed_on_the_first_one() -> None:
    listed = set(LINK.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    pages = {
        str(page.relative_to(ROOT / "docs"))
        for name in (*FOLDERS, "reference")
        for page in (ROOT / "docs" / name).iterdir()
    }
    assert pages - listed == set()


def test_every_path_that_contributing_names_exists() -> None:
    named = re.findall(
        r"`((?:src|tests|docs|examples|clients|\.ci)/[^`<>\s]*)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
