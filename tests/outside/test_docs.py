"""The pages in `docs/` say nothing that does not work: their code blocks are run, in order, in a project of their own.

A `sh` block must succeed (`sh fails`: must not), a `python` block runs as a program, and `json file=NAME` is written to
that file of the project. Everything else is only read by people."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_work(page: str, holdfast: Machine) -> None:
    environment = {**holdfast.environment, "PATH": f"{Path(HOLDFAST).parent}:{holdfast.environment['PATH']}"}
    ran = 0
    for language, options, code in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language == "json" and options.startswith("file="):
            (holdfast.project / options.removeprefix("file=")).write_text(code, encoding="utf-8")
        elif language in ("sh", "python"):
            command = ["sh", "-e"] if language == "sh" else [sys.executable, "-"]
            done = subprocess.run(
                command,
                input=code,
                cwd=holdfast.project,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert (done.returncode != 0) == (options == "fails"), f"{code}\n{done.stdout}\n{done.stderr}"
            ran += 1
    assert ran, "a page without a single example that runs"
