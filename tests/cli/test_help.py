"""What the command line costs before it does anything, and what it says about itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast import __version__
from holdfast.cli.main import COMMANDS, cli

HEAVY = ("asyncio", "msgspec", "rich", "apsw", "yaml", "aiohttp", "httpx2", "PIL", "holdfast.core", "holdfast.client")


def test_help_loads_click_only() -> None:
    """Neither the runtime nor anything it stands on."""
    program = f"""
import sys
from holdfast.cli.main import cli
try:
    cli(["--help"])
except SystemExit:
    pass
print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stderr.split() == []
    assert all(name in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(name: str) -> None:
    """Also what it is part of."""
    result = CliRunner().invoke(cli, [name, "--help"], prog_name="holdfast")

    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: holdfast {name}")


def test_an_unknown_command_is_said() -> None:
    """Exit code 2, as for any mistake in the line."""
    result = CliRunner().invoke(cli, ["nonsense"], prog_name="holdfast")

    assert result.exit_code == 2
    assert "nonsense" in result.output


def test_the_package_runs_as_a_module() -> None:
    """`python -m holdfast` is the same program as `holdfast`."""
    ran = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)

    assert ran.stdout == f"holdfast, version {__version__}\n"
