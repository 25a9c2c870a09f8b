"""A slice of the differential test: what is allowed unasked has no effect in real shells."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.shell.hostile import RUN, SHELLS, Yard, generated, runs_unasked

COUNT = 2_000


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    yard = Yard(tmp_path)
    monkeypatch.chdir(yard.directory)
    return yard


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("command", "effect"),
    [
        (RUN, True),
        (f"{RUN} &", True),
        ("echo a > made", True),
        ("PATH=./evil cat f", True),
        ("x=1 cat f", True),
        ("echo b > f", True),
        ("echo a; cat f", False),
        ("cat f | cat & echo a", False),
    ],
)
def test_the_harness_notices_effects_of_commands(yard: Yard, shell: str, command: str, effect: bool) -> None:
    """TOL-360: otherwise the test below would show nothing."""
    assert [yard.has_effect(command, shell), yard.has_effect("echo a", shell)] == [effect, False]


def test_commands_that_run_unasked_have_no_effect(yard: Yard) -> None:
    """TOL-360, TOL-224: with `cat *` and `echo *` allowed, in dash and in bash."""
    unasked = [command for command in dict.fromkeys(generated(0, COUNT)) if runs_unasked(command)]
    assert [(command, shell) for command in unasked for shell in SHELLS if yard.has_effect(command, shell)] == []
    assert len(unasked) > COUNT // 20
