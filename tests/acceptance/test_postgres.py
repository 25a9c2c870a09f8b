"""A part of the suite on other versions of PostgreSQL, and through a pooler. `make test-postgres` runs all on 16."""

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
PART = (
    "tests/core/event",
    "tests/core/runtime",
    "tests/outside/test_budgets.py",
    "tests/outside/test_forks.py",
    "tests/outside/test_inbox_story.py",
    "tests/outside/test_restarted_server.py",
    "tests/outside/test_session_records_story.py",
    "tests/outside/test_turn_story.py",
)
"""What uses most of the statements: units of all kinds, forks, budgets, leases, several processes."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["15", "18"])
def test_the_suite_passes_on_other_versions(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-068."""
    monkeypatch.setenv(VERSION, version)
    try:
        programs()
    except NoPostgres as error:
        pytest.skip(str(error))
    _run_part({VERSION: version})


@pytest.mark.timeout(1200)
def test_the_suite_passes_through_a_pooler() -> None:
    """STO-068: PgBouncer in transaction mode, for everything but listening and locks."""
    try:
        pgbouncer()
    except NoPostgres as error:
        pytest.skip(str(error))
    _run_part({POOLER: "1"})


def _run_part(environment: dict[str, str]) -> None:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HOLDFAST_TEST_"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not prove and not acceptance", "-n", "3", *PART],
        cwd=ROOT,
        env={**inherited, STORE: POSTGRES, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]
