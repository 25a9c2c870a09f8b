"""Rules for Landlock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.process.sandbox import landlock
from holdfast.core.process.sandbox.confinement import Confinement


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "home"
    for name in (".ssh", ".config/gh", ".config/other", "project/src", "project/.git/objects", "t"):
        (folder / name).mkdir(parents=True)
    (folder / "project" / "file").write_text("", encoding="utf-8")
    (folder / "project" / "opencode.json").write_text("", encoding="utf-8")
    return folder


def confined(home: Path, network: str = "off") -> Confinement:
    project = home / "project"
    return Confinement(
        "workspace",
        network,  # type: ignore[arg-type]
        home / "t",
        writable=(project, project / ".git"),
        protected=(project / "opencode.json", project / ".git" / "hooks"),
        hidden=(home / ".ssh", home / ".config" / "gh"),
        readable=(),
    )


def rights(ruleset: landlock.Ruleset, path: Path) -> int:
    """What the rules at the path and above it allow."""
    rules = dict(ruleset.rules)
    return sum({bit for place in (path, *path.parents) for bit in _bits(rules.get(str(place), 0))})


def _bits(rights: int) -> list[int]:
    return [1 << bit for bit in range(16) if rights & (1 << bit)]


def test_alone_it_allows_the_paths_beside_the_closed_ones(home: Path) -> None:
    """TOL-371, TOL-374: files of hidden directories are not readable, those beside them are."""
    found = landlock.alone(confined(home), 7)
    project = home / "project"
    assert rights(found, project / "src") & landlock.WRITE == landlock.WRITE
    assert rights(found, project / "file") & landlock.WRITE_FILE
    for closed in (project / "opencode.json", project, home, project / ".git" / "hooks"):
        assert not rights(found, closed) & landlock.WRITE, closed
    assert not rights(found, home / ".ssh" / "id_rsa") & landlock.READ_FILE
    assert not rights(found, home / ".config" / "gh" / "hosts.yml") & landlock.READ_FILE
    assert rights(found, Path("/usr/bin/env")) & landlock.READ == landlock.READ
    assert not rights(found, Path("/dev/mem")) & landlock.READ_FILE
    assert rights(found, Path("/dev/null")) & landlock.WRITE_FILE


@pytest.mark.parametrize(("abi", "handled"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (6, 16), (7, 16), (9, 16)])
def test_every_version_of_the_interface_gets_rights_that_it_knows(home: Path, abi: int, handled: int) -> None:
    """TOL-374: never more, which the kernel would refuse; what is missing is said."""
    found = landlock.alone(confined(home), abi)
    assert found.filesystem == (1 << handled) - 1
    assert all(rights & ~found.filesystem == 0 for _, rights in found.rules)
    assert found.network == (3 if abi >= 4 else 0)
    assert found.scoped == (3 if abi >= 6 else 0)
    assert len(landlock.missing(abi)) == sum(abi < since for since in (3, 5, 6))
    assert landlock.alone(confined(home, "on"), abi).network == 0


def test_behind_mounts_it_only_guards_writing(home: Path) -> None:
    """TOL-374."""
    found = landlock.within_namespaces(confined(home), 7)
    assert not found.filesystem & landlock.READ_FILE
    assert dict(found.rules)[str(home / "project")] == found.filesystem


def test_a_nested_repository_closes_only_the_way_to_it(home: Path) -> None:
    """TOL-550, TOL-374: nothing new directly in the directories that lead to it; everything beside them is writable."""
    project = home / "project"
    for name in ("vendor/sub/.git/objects", "vendor/sub/lib", "vendor/other"):
        (project / name).mkdir(parents=True)
    nested = project / "vendor" / "sub" / ".git"
    found = landlock.alone(confined(home).replace(protected=(nested / "config", nested / "hooks")), 7)
    for open in ("vendor/other", "vendor/sub/lib", "src"):
        assert rights(found, project / open) & landlock.WRITE == landlock.WRITE, open
    for closed in ("vendor", "vendor/sub", "vendor/sub/.git", "vendor/sub/.git/objects"):
        assert not rights(found, project / closed) & landlock.WRITE, closed
