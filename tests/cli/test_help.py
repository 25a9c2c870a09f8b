"""What the command line costs before it does anything, and what it says about itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast import __version__
from holdfast.cli.main import COMMANDS, cli

HEAVY = ("asyncio", "msgspec", "rich", "apsw", "yaml", "aiohttp", "httpx2", "PIL", "holdfast.core", "holdfast.client")


def test_help_loads_click_only() -> None:
    """CLI-001: neither the runtime nor anything it stands on."""
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


def test_commands_are_grouped_by_use() -> None:
    """CLI-001: each once, with examples; `-h` is the same."""
    shown = CliRunner().invoke(cli, ["--help"], prog_name="holdfast").output
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert headings == ["Options:", "Work:", "Look:", "Set up:", "Serve:", "Maintain:", "Examples:"]
    assert all(sum(line.startswith(f"  {name} ") for line in shown.splitlines()) == 1 for name in COMMANDS)
    assert shown.count("  holdfast run ") == 1
    assert shown == CliRunner().invoke(cli, ["-h"], prog_name="holdfast").output


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["rnu"], "`holdfast run`"),
        (["session"], "`holdfast sessions`"),
        (["sessions", "shwo"], "`holdfast sessions show`"),
        (["config", "chekc"], "`holdfast config check`"),
        (["fix the test"], "`holdfast run "),
        (["run", "--contniue"], "--continue"),
        (["\x1b[2J"], "holdfast --help"),
    ],
)
def test_a_mistyped_word_suggests_the_nearest(line: list[str], meant: str) -> None:
    """CLI-002: exit code 2; nothing that a terminal would obey."""
    result = CliRunner().invoke(cli, line, prog_name="holdfast")

    assert result.exit_code == 2
    assert meant in result.output
    assert "\x1b" not in result.output


def test_a_user_without_a_home_is_told() -> None:
    """CLI-005: one line, no traceback."""
    program = """
import os, pwd, sys
from holdfast.cli.main import main
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
sys.argv = ["holdfast", "sessions"]
main()
"""
    environment = {"PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment, cwd="/"
    )

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("holdfast: HOME is not set")
    assert len(ran.stderr.splitlines()) == 1


def test_the_package_runs_as_a_module() -> None:
    """CLI-005: `python -m holdfast` is the same program as `holdfast`."""
    ran = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)

    assert ran.stdout == f"holdfast, version {__version__}\n"
