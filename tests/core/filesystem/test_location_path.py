"""Where paths lead: inside, outside with an approval, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.filesystem.canonical import contains
from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_path import LocationPaths, Target


@pytest.fixture
def outside(root: Path) -> Path:
    folder = root.parent / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def reason(root: Path, path: str, *options: Any, **more: Any) -> str:
    with pytest.raises(PathError) as refused:
        LocationPaths(root).resolve(path, *options, **more)
    return refused.value.reason


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("a", "a"),
        ("./a", "a"),
        ("a/../a", "a"),
        ("sub//a", "sub/a"),
        ("sub/", "sub"),
        (".", "."),
        ("sub/..", "."),
        ("~", "~"),
    ],
)
def test_relative_paths_are_resolved_against_the_location(root: Path, path: str, resource: str) -> None:
    """TOL-112, TOL-118, TOL-121: against the Location; one form whatever the spelling; a tilde is a name."""
    (root / "sub").mkdir()
    expected = Target(Path(os.path.normpath(root / resource)), resource, None)
    assert LocationPaths(root).resolve(path).replace(exists=False) == expected


@pytest.mark.parametrize("path", ["..", "../x", "sub/../../x", "./..", "../work/a", "../work-evil/a"])
def test_relative_paths_never_lead_out(root: Path, path: str) -> None:
    """TOL-112, TOL-120: also not back in; no approval could help."""
    assert reason(root, path) == "relative_escape"


def test_absolute_paths_inside_need_no_approval(root: Path) -> None:
    """TOL-115, TOL-118: by the real name of the Location and by the one it was opened under."""
    linked = root.parent / "linked"
    linked.symlink_to(root)
    paths = LocationPaths(linked)
    for path in (root / "new/f", linked / "new/f"):
        assert paths.resolve(str(path)) == Target(root / "new/f", "new/f", None)
    assert paths.resolve(str(root)).resource == "."


def test_a_neighbour_with_the_same_beginning_is_outside(root: Path) -> None:
    """TOL-120."""
    evil = root.parent / "work-evil"
    evil.mkdir()
    assert LocationPaths(root).resolve(str(evil / "f")).boundary == f"{evil}/*"
    assert not contains("/a/proj", "/a/proj-evil")
    assert contains("/a/proj", "/a/proj")
    assert contains("/", "/x")


def test_links_inside_are_followed_to_their_real_place(root: Path) -> None:
    """TOL-114: also for a file that is not there yet."""
    (root / "actual").mkdir()
    (root / "linked").symlink_to("actual")
    (root / "deep").symlink_to(root / "linked")
    for path in ("linked/new.txt", "deep/new.txt", "actual/../linked/new.txt"):
        assert LocationPaths(root).resolve(path) == Target(root / "actual/new.txt", "actual/new.txt", None)


def test_a_link_that_leads_out_of_the_location_is_refused(root: Path, outside: Path) -> None:
    """TOL-113, TOL-117, TOL-316: to a file, to a directory with a new file below, by several, by a dangling one."""
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "chain").symlink_to("folder")
    (root / "dangling").symlink_to(outside / "nothing")
    (root / "dots").symlink_to("missing/../../outside/nothing")
    for path in ("file", "folder/new", "folder/new/deeper", "up/outside/secret", "chain/secret", "dangling", "dots"):
        assert reason(root, path) == "location_escape"
        assert reason(root, str(root / path)) == "location_escape"
    assert sorted(os.listdir(outside)) == ["secret"]


def test_a_dangling_link_inside_leads_to_the_missing_file(root: Path) -> None:
    """TOL-117: the target is where it points."""
    (root / "link").symlink_to("sub/new")
    assert LocationPaths(root).resolve("link") == Target(root / "sub/new", "sub/new", None)


def test_a_link_itself_can_be_the_target(root: Path, outside: Path) -> None:
    """TOL-133: for removal; its directory must still be inside."""
    (root / "link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    assert LocationPaths(root).resolve("link", follow=False).path == root / "link"
    assert reason(root, "folder/secret", follow=False) == "location_escape"


def test_missing_paths_hang_below_what_is_there(root: Path) -> None:
    """TOL-116, TOL-341: whether it exists and where it lies are two questions."""
    (root / "file").write_text("x")
    found = LocationPaths(root).resolve("a/b/c")
    assert (found.path, found.exists) == (root / "a/b/c", False)
    assert LocationPaths(root).resolve("file").exists
    for path in ("file/below", "file/below/deeper"):
        assert reason(root, path) == "non_directory_ancestor"


def test_a_loop_of_links_is_refused(root: Path) -> None:
    """TOL-341: a loop has no canonical form."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert reason(root, "a") == reason(root, "a/x") == "link_loop"


def test_the_boundary_of_an_approval(root: Path, outside: Path) -> None:
    """TOL-115, TOL-118, TOL-119: the directory itself where directories are meant, else the one that contains the
    target or, for a missing one, the nearest that is there."""
    paths = LocationPaths(root)
    (root.parent / "alias").symlink_to(outside)
    assert paths.resolve(str(outside), kind="directory").boundary == f"{outside}/*"
    assert paths.resolve(str(outside)).boundary == f"{root.parent}/*"
    assert paths.resolve(str(outside / "secret"), kind="directory").boundary == f"{outside}/*"
    assert paths.resolve(str(outside / "new/deep/f")).boundary == f"{outside}/*"
    through = paths.resolve(str(root.parent / "alias/secret"))
    assert through == Target(outside / "secret", str(outside / "secret"), f"{outside}/*", exists=True)
    assert paths.resolve("/", kind="directory").boundary == "/*"


def test_outside_paths_may_be_closed_altogether(root: Path, outside: Path) -> None:
    """TOL-115, TOL-353: the strict mode."""
    assert reason(root, str(outside / "secret"), external="deny") == "external_denied"
    assert LocationPaths(root).resolve(str(root / "f"), external="deny").boundary is None


def test_an_outside_link_back_in_is_inside(root: Path) -> None:
    """TOL-114: what counts is where it ends."""
    (root.parent / "in").symlink_to(root)
    assert LocationPaths(root).resolve(str(root.parent / "in" / "f")) == Target(root / "f", "f", None)


@pytest.mark.parametrize("path", ["", "\0", "a\0b", "x" * 4097, "é" * 2049, "x" * 300, "\ud800"])
def test_an_impossible_path_is_refused(root: Path, path: str) -> None:
    """TOL-121."""
    assert reason(root, path) == "malformed"


@pytest.mark.parametrize(
    "path", ["/proc/self/cwd/..", "/proc/self/environ", "/sys", "/dev/null", "//dev/zero", "/x/../proc/1"]
)
def test_special_file_systems_are_neither_read_nor_written(root: Path, path: str) -> None:
    """TOL-121: neither read nor written, by name or through a link."""
    assert reason(root, path) == reason(root, path, "write") == "special_path"
    (root.parent / "door").symlink_to("/proc/self")
    assert reason(root, str(root.parent / "door/environ")) == "special_path"


@pytest.mark.parametrize("path", ["/proc/self/environ", "proc/self/environ", "/dev/null", "sys", "tmp/../proc"])
def test_special_file_systems_are_refused_inside_the_location_too(path: str) -> None:
    """TOL-121: also where the Location is the whole file system and contains them."""
    assert reason(Path("/"), path) == reason(Path("/"), path, "write") == "special_path"
    assert LocationPaths(Path("/")).resolve("processes").resource == "processes"


def test_a_location_may_be_in_shared_memory_but_not_show_processes(root: Path) -> None:
    """TOL-121."""
    assert reason(Path("/proc/self"), "environ") == "special_path"
    assert reason(Path("/dev"), "null") == reason(root, "/dev/shm/../null") == "special_path"
    assert LocationPaths(Path("/dev/shm/project")).resolve("notes.txt").resource == "notes.txt"
    assert LocationPaths(root).resolve("/dev/shm/notes.txt").boundary == "/dev/shm/*"


@pytest.mark.parametrize("path", ["con", "sub/NUL.txt", "Com1", "a.txt:stream", "aux .c"])
def test_names_that_windows_reserves_are_ordinary_names(root: Path, path: str) -> None:
    """TOL-121: the release supports POSIX systems only."""
    assert LocationPaths(root).resolve(path).resource == path


def test_a_name_that_is_no_text_stands_in_no_permission(root: Path) -> None:
    """TOL-121: reached through a link."""
    (root / os.fsdecode(b"\xff")).mkdir()
    (root / "link").symlink_to(os.fsdecode(b"\xff"))
    assert reason(root, "link/f") == "malformed"


def test_a_reference_path_resolves_for_reading_only(root: Path, outside: Path) -> None:
    """TOL-122: a configured name, for reading only, with the same rules of escape; any other name is a directory's."""
    (outside / "up").symlink_to("..")
    paths = LocationPaths(root, references=lambda: {"docs": outside})
    found = paths.resolve("@docs/secret")
    assert found == Target(outside / "secret", str(outside / "secret"), None, exists=True)
    assert paths.resolve("@docs").path == outside
    assert paths.resolve("@other/secret") == Target(root / "@other/secret", "@other/secret", None)
    for path, why in {
        "@docs/../x": "relative_escape",
        "@docs/up/work": "location_escape",
        "@docs//../x": "relative_escape",
    }.items():
        with pytest.raises(PathError) as refused:
            paths.resolve(path)
        assert refused.value.reason == why
    with pytest.raises(PathError) as refused:
        paths.resolve("@docs/new", "write")
    assert refused.value.reason == "read_only_reference"


def test_no_reference_leads_into_the_system_s_own_file_systems(root: Path) -> None:
    """TOL-421: by name, and by an absolute path through a link."""
    (root.parent / "link").symlink_to("/proc/self")
    paths = LocationPaths(root, references=lambda: {"all": Path("/"), "self": Path("/proc/self")})
    for path in ("@all/proc/self/environ", "@self/environ", str(root.parent / "link" / "environ")):
        with pytest.raises(PathError) as refused:
            paths.resolve(path)
        assert refused.value.reason == "special_path"


def test_an_absolute_path_into_a_reference_is_read_without_approval(root: Path, outside: Path) -> None:
    """CTX-213: as tools show it, also in the strict mode; writing there, and a link out of it, is outside."""
    (outside / "up").symlink_to("..")
    paths = LocationPaths(root, references=lambda: {"docs": outside})
    assert paths.resolve(str(outside / "secret"), external="deny") == paths.resolve("@docs/secret")
    assert paths.resolve(str(outside / "secret"), "write").boundary == f"{outside}/*"
    assert paths.resolve(str(outside / "up" / "missing")).boundary == f"{outside.parent}/*"


def test_managed_files_need_no_approval_to_read(root: Path, outside: Path) -> None:
    """TOL-065: judged by the canonical path, also in the strict mode; writing there is writing outside."""
    paths = LocationPaths(root, managed=lambda path: path == outside / "secret")
    assert paths.resolve(str(outside / "secret"), external="deny").boundary is None
    assert paths.resolve(str(outside / "other")).boundary == f"{outside}/*"
    assert paths.resolve(str(outside / "secret"), "write").boundary == f"{outside}/*"
