"""A hundred thousand hostile shell commands: what is allowed unasked has no effect in real shells."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.core.shell.hostile import POSIX_BASH, SHELLS, Yard, generated, runs_unasked

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1200)]

COUNT = 100_000
SEED = 11


def test_commands_that_run_unasked_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOL-360, TOL-224: with `cat *` and `echo *` allowed, no text has a side effect in dash or bash."""
    yard = Yard(tmp_path)
    monkeypatch.chdir(yard.directory)
    started = time.monotonic()
    unasked = [command for command in dict.fromkeys(generated(SEED, COUNT)) if runs_unasked(command)]
    judged = time.monotonic()
    shells = (*SHELLS, POSIX_BASH)
    for shell in shells:
        assert yard.has_effect("echo effect > effect", shell), f"an effect in {shell} is not noticed"
    yard.ran = 0
    effects = [(command, shell) for command in unasked for shell in shells if yard.has_effect(command, shell)]
    with capsys.disabled():
        print(
            f"\n{COUNT} commands judged in {judged - started:.0f} s, {len(unasked)} would run unasked; "
            f"{yard.ran} executions in {time.monotonic() - judged:.0f} s, {len(effects)} with an effect"
        )
    assert effects == []
    assert len(unasked) > COUNT // 20
    assert yard.ran == len(unasked) * len(shells)
