"""What `holdfast doctor` says beside the comparison of rows: findings that a person can act on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import ColdMachine, Machine, Provider, Server, finish
from tests.outside.test_left_behind import in_turn
from tests.prove.clock_shift import shifted

MACHINE = ColdMachine


def findings(holdfast: Machine, **environment: str) -> dict[str, dict[str, Any]]:
    """By what was looked at."""
    ran = holdfast("doctor", "--json", **environment)
    assert ran.code == 0, ran.err
    return {finding["check"]: finding for finding in json.loads(ran.out)["findings"]}


def test_a_healthy_installation_has_no_findings(holdfast: Machine, provider: Provider) -> None:
    """WEB-332, WEB-333: with a provider; without one it says how to connect one, and exits with 0."""
    assert holdfast("run", "--model", "demo/echo", "x").code == 0
    assert "`holdfast auth login PROVIDER` connects one" in findings(holdfast)["models"]["fix"]
    assert "warning: no provider is connected" in holdfast("doctor").err
    holdfast.use_provider(provider.url)
    assert findings(holdfast) == {}
    ran = holdfast("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "no problems with disk, processes, files, clock, models and MCP servers" in ran.out


def test_files_that_others_can_read_and_a_wrong_clock_are_told(holdfast: Machine) -> None:
    """WEB-332: with the command that mends it."""
    ahead = shifted(holdfast.home / "ahead", 7200)
    assert holdfast("run", "--model", "demo/echo", "x", **ahead).code == 0
    holdfast.data.mkdir(parents=True, exist_ok=True)  # a database on a server needs none
    file = holdfast.data / "holdfast.db"
    file.touch()
    os.chmod(file, 0o644)
    found = findings(holdfast)
    assert found["files"]["fix"] == f"`chmod 600 {file}`"
    assert "120 minutes after the present time" in found["clock"]["what"]
    os.chmod(file, 0o600)
    assert "files" not in findings(holdfast)
    assert "clock" not in findings(holdfast, **ahead)


def test_work_of_a_process_that_ended_is_told(
    holdfast: Machine, serve: Callable[..., Server], provider: Provider
) -> None:
    """WEB-332: with what goes on with it."""
    holdfast.use_provider(provider.url, settings={"titles": False})
    in_turn(provider, provider.hang)
    running = holdfast.start("run", "--standalone", "what is it?")
    assert provider.asked.acquire(timeout=30)
    running.send_signal(signal.SIGKILL)
    finish(running)
    assert "ended with work on 1 Session" in findings(holdfast)["processes"]["what"]
