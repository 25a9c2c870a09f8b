"""Roots of nodes and their labels: which Locations they serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.session.roots import label_at, label_of, labelled, serve, usable_roots
from holdfast.schema.location import Location


def at(directory: str, label: str | None = None) -> Location:
    return Location(directory=directory, workspace_id=None if label is None else f"wrk:{label}")


def test_the_innermost_labelled_root_decides() -> None:
    """STO-221, STO-222: volumes may be mounted below each other."""
    roots = ("a=/srv", "b=/srv/b", "/srv/b/plain")
    found = {path: label_at(path, roots) for path in ("/srv", "/srv/x", "/srv/b", "/srv/b/x", "/srv/bc", "/sr", "/")}
    assert found == {"/srv": "a", "/srv/x": "a", "/srv/b": "b", "/srv/b/x": "b", "/srv/bc": "a", "/sr": None, "/": None}
    assert labelled(at("/srv/b/x"), roots) == at("/srv/b/x", "b")
    assert serve(roots, at("/srv/b/x", "b"))
    assert not serve(roots, at("/srv/b/x", "a"))
    assert not serve(roots, at("/srv/x"))


def test_a_location_without_a_label_needs_a_root_without_one() -> None:
    """STO-222: both may be announced for one directory; new Sessions have the label."""
    both = ("/srv", "a=/srv")
    assert serve(both, at("/srv/x"))
    assert serve(both, at("/srv/x", "a"))
    assert not serve(("/srv",), at("/srv/x", "a"))
    assert not serve(("a=/srv",), at("/srv/x"))
    assert labelled(at("/srv/x"), both) == at("/srv/x", "a")
    assert serve(("a=/",), at("/srv/x", "a"))


@pytest.mark.parametrize("workspace", ["wrk_01h2", "wrk", "wrk:", "wrk:a b", "wrk:\x1b[2J", f"wrk:{'x' * 65}", None])
def test_any_other_workspace_is_no_label(workspace: str | None) -> None:
    """STO-221: it is kept, and says nothing about nodes."""
    location = Location(directory="/srv/x", workspace_id=workspace)
    assert label_of(location) is None
    assert serve(("/srv",), location)
    assert labelled(location, ("/srv",)) == location


def test_roots_are_real_paths_and_each_is_there_once(tmp_path: Path) -> None:
    """STO-225"""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    there = tmp_path / "there"
    given = [f"{tmp_path}/link", f"{there}/", f"a={tmp_path}/link", f"a={there}", f"{tmp_path}/x=y"]
    assert usable_roots(given) == (str(there), f"a={there}", f"{tmp_path}/x=y")
    assert usable_roots(["b=~/x", "~/y"], expand=lambda text: tmp_path / text[2:]) == (
        f"b={tmp_path}/x",
        f"{tmp_path}/y",
    )
    assert usable_roots(["./a=b"], relative=True) == (str(Path.cwd() / "a=b"),)
    for wrong in ("here", "\0", "/srv\0", "a=/srv\0"):
        with pytest.raises(ValueError, match=r"absolute|null"):
            usable_roots([wrong])
