"""Directories outside that a command names."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.shell.grammar import parse
from holdfast.core.shell.references import MOST_DIRECTORIES, external_directories


@pytest.mark.parametrize(
    ("command", "directories"),
    [
        ("ls", ()),
        ("cat /work/a /work", ()),
        ("cat /work-evil/a", ("/work-evil",)),
        ("cat /etc/passwd /etc/hosts;", ("/etc",)),
        ("cat \"/etc/x y\" '/opt/z'", ("/etc", "/opt")),
        ("cat /etc/passwd/x", ("/etc/passwd",)),
        ("echo x > /var/log/a", ("/var/log",)),
        ("sort < /var/lib/a", ("/var/lib",)),
        ("cat <<E > /srv/a\nE", ("/srv",)),
        ("cd /tmp/a && ls", ("/tmp/a",)),
        ("cat ~/.ssh/id", ("/home/me/.ssh",)),
        ('cat $HOME/a ${HOME}/b/c "$HOME/d/e"', ("/home/me", "/home/me/b", "/home/me/d")),
        ("tool --file=/etc/a", ("/etc",)),
        ("echo $(cat /etc/a)", ("/etc",)),
        ("cat '/etc/a", ("/etc",)),
        ("eval cat /etc/a;", ("/etc",)),
        ("cat /work/../etc/a", ("/etc",)),
        ("cat /$X/a", ()),
        ("ls /", ("/",)),
        ("cat /" + "x" * 5000, ()),
        ("cat \\\0/etc", ()),
    ],
)
def test_path_references_of_a_command_are_found_once(command: str, directories: tuple[str, ...]) -> None:
    """TOL-207, TOL-208, TOL-209: parents of absolute arguments, redirections, `cd`, home; once; never a failure."""
    assert external_directories(parse(command), Path("/work"), "/home/me") == directories


def test_the_list_of_path_references_is_bounded() -> None:
    """TOL-208: advice has an end."""
    command = "cat " + " ".join(f"/d{number}/x" for number in range(100))
    assert len(external_directories(parse(command), Path("/work"), "/home/me")) == MOST_DIRECTORIES
