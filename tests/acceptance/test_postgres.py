"""Parts of the suite on the oldest and the newest PostgreSQL, and through a pooler; `make test-postgres` runs all on
16."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.server import POOLER, VERSION, NoPostgres, pgbouncer, programs
from tests.stores.stores import POSTGRES, STORE

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[2]
STATEMENTS = (
    "tests/core/database/postgres/test_statements.py",
    "tests/core/database/postgres/test_equality.py",
    "tests/core/database/postgres/test_positions.py",
    "tests/core/database/postgres/test_listener.py",
)
"""Every statement is prepared, and stories leave the rows that they leave on SQLite."""
STORIES = (
    "tests/outside/test_forks.py",
    "tests/outside/test_inbox_story.py",
    "tests/outside/test_turn_story.py",
)
"""What uses most of the statements."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["14", "18"])
def test_the_statements_work_on_the_oldest_and_the_newest_version(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-046, STO-068, STO-200."""
    monkeypatch.setenv(VERSION, version)
    try:
        programs()
    except NoPostgres as error:
        pytest.skip(str(error))
    _run_part(STATEMENTS, {VERSION: version})


@pytest.mark.timeout(600)
def test_stories_pass_through_a_pooler() -> None:
    """STO-068: PgBouncer in transaction mode, for everything but listening and locks."""
    try:
        pgbouncer()
    except NoPostgres as error:
        pytest.skip(str(error))
    _run_part(STORIES, {POOLER: "1"})


def _run_part(part: tuple[str, ...], environment: dict[str, str]) -> None:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HOLDFAST_TEST_"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not prove and not acceptance", "-n", "2", *part],
        cwd=ROOT,
        env={**inherited, STORE: POSTGRES, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]
