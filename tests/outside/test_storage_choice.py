"""Where Sessions are stored, chosen by the user and never by a project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Ran, Server

from holdfast import Holdfast, HoldfastSync

SECRET = "hunter2"
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("sqlite", reason="what is chosen without HOLDFAST_DATABASE"),
]
NOWHERE = f"postgresql://u:{SECRET}@127.0.0.1:1/db"
"""Nobody listens there."""


def test_doctor_names_the_store(holdfast: Machine, here: Callable[..., Ran]) -> None:
    """STO-067: the file, where nothing else was chosen."""
    ran = here("doctor")
    assert ran.code == 0
    assert f"at {holdfast.data}/holdfast.db" in ran.out.splitlines()[0]


def test_a_store_that_cannot_be_used_is_an_error_without_its_password(holdfast: Machine) -> None:
    """STO-060, STO-062, STO-063: from the environment and from configuration; nothing is stored in a file instead."""
    holdfast.configure_user(holdfast={"storage": {"url": NOWHERE}})
    by_configuration = holdfast("sessions")
    by_environment = holdfast("sessions", HOLDFAST_DATABASE=f"mysql://u:{SECRET}@h/db")
    for ran in (by_configuration, by_environment):
        assert ran.code == 1
        assert SECRET not in ran.complaint + ran.out + ran.err
    assert not holdfast.data.exists() or not list(holdfast.data.glob("*.db"))
    assert "HOLDFAST_DATABASE: '***' is no address of a database" in by_environment.complaint
    assert holdfast("sessions", HOLDFAST_DATABASE="sqlite").code == 0


def test_an_argument_comes_first_wherever_it_stands(holdfast: Machine) -> None:
    """STO-060, STO-064."""
    holdfast.environment["HOLDFAST_DATABASE"] = NOWHERE
    for arguments in (("--database", "sqlite", "sessions"), ("sessions", "--database=sqlite")):
        assert holdfast(*arguments).code == 0
    refused = holdfast("sessions", "--database", NOWHERE)
    assert "other users see the arguments of a process" in refused.complaint
    assert SECRET not in refused.err


def test_a_project_cannot_choose_where_sessions_are_stored(holdfast: Machine) -> None:
    """STO-061: trusted or not."""
    holdfast.configure(holdfast={"storage": {"url": NOWHERE}})
    doctor = holdfast("doctor")
    assert "changes how this runtime works; ignored, because this project is not trusted" in doctor.err
    assert holdfast("trust", "--yes").code == 0
    trusted = holdfast("doctor")
    assert trusted.code == 0
    assert "holdfast.storage: only the user's own configuration can set this; ignored" in trusted.err
    assert "at " + str(holdfast.data) in trusted.out
    assert SECRET not in doctor.err + doctor.out + trusted.err + trusted.out


def test_the_shown_configuration_has_no_password(holdfast: Machine) -> None:
    """STO-063."""
    holdfast.configure_user(holdfast={"storage": {"url": NOWHERE}})
    shown = holdfast("config", "show", HOLDFAST_DATABASE="sqlite")
    assert shown.code == 0
    assert "127.0.0.1:1" in shown.out
    assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize("variable", ["HOLDFAST_DATABASE", "PGPASSWORD"])
def test_commands_of_agents_do_not_see_the_password(tmp_path: Path, variable: str) -> None:
    """STO-063: neither in their environment nor in that of the runtime."""
    program = """
import asyncio, os, sys
from holdfast.testing import ScriptedModel, ToolCall

PARENT = "$(awk '/PPid/ {print $2}' /proc/$p/status)"
LOOK = f"p=$$; while [ $p -gt 1 ]; do cat /proc/$p/environ /proc/$p/cmdline; p={PARENT}; done"

async def main():
    model = ScriptedModel(ToolCall("bash", command="(env; " + LOOK + ") | grep -a -c 'hunter[2]'"), "ok")
    settings = {"database": "sqlite", "protect": True, "unattended": "allow", "environment": dict(os.environ)}
    async with model.host(sys.argv[1], **settings) as hf:
        await hf.run("go")
        print(model.requests[1].body["messages"][-1]["content"])

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env={**os.environ, variable: NOWHERE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("0\n"), ran.stdout


def test_a_run_is_not_sent_to_a_server_with_another_store(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """STO-066: the data directory is the same."""
    server = serve()
    try:
        assert f"using the server at {server.url}" in holdfast("run", "--model", "demo/echo", "hi").err
        elsewhere = holdfast("run", "--model", "demo/echo", "hi", HOLDFAST_DATABASE=NOWHERE)
        assert elsewhere.code == 1
        assert "using the server" not in elsewhere.err
        assert SECRET not in elsewhere.err
    finally:
        server.process.send_signal(signal.SIGTERM)


async def test_a_host_program_chooses_by_an_argument(tmp_path: Path, project: Path) -> None:
    """STO-060: an argument comes before the environment."""
    data = tmp_path / "data"
    environment = {"HOME": str(tmp_path), "HOLDFAST_DATABASE": NOWHERE}
    async with Holdfast(project, data=data, environment=environment, database="sqlite") as hf:
        assert (await hf.describe_store()).endswith(f" at {data}/holdfast.db")


def test_a_blocking_host_tells_where_sessions_are_stored(tmp_path: Path, project: Path) -> None:
    """STO-067."""
    with HoldfastSync(project, data=tmp_path / "data", environment={"HOME": str(tmp_path)}) as hf:
        assert hf.describe_store().startswith("SQLite 3.")


def test_postgresql_is_not_imported_for_a_file(tmp_path: Path) -> None:
    """STO-065."""
    program = """
import json, sys, asyncio
from holdfast import Holdfast
async def main():
    async with Holdfast(database="sqlite") as hf:
        await hf.sessions.list()
asyncio.run(main())
print(json.dumps([name for name in sys.modules if "psycopg" in name or "database.postgres" in name]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(ran.stdout) == []
