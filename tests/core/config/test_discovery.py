"""Which files count, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.core.config.conftest import Place

from holdfast.core.config.config import load_config
from holdfast.core.config.document import Directory, Document
from holdfast.core.config.trust import TRUST_NOTHING


def test_a_nearer_configuration_file_wins(place: Place) -> None:
    """CAT-020, CAT-021, CAT-029: global, OPENCODE_CONFIG, the project downwards, its folders downwards, inline."""
    named = place.tmp / "named.json"
    order = [
        place.home / "opencode.json",
        place.home / "opencode.jsonc",
        named,
        place.root / "opencode.json",
        place.root / "opencode.jsonc",
        place.root / "packages" / "opencode.json",
        place.inner / "opencode.json",
        place.root / ".opencode" / "opencode.json",
        place.root / ".opencode" / "opencode.jsonc",
        place.inner / ".opencode" / "opencode.json",
    ]
    for number, path in enumerate(order):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"model": "p/{number}", // said last\n}}')
        found = place.load(place.inner, OPENCODE_CONFIG=str(named))
        assert found.latest("model") == f"p/{number}"
    inline = place.load(place.inner, OPENCODE_CONFIG=str(named), OPENCODE_CONFIG_CONTENT='{"model": "p/inline"}')
    assert inline.latest("model") == "p/inline"
    assert inline.documents()[-1].directory == place.inner
    assert inline.diagnostics() == ()


def test_entries_interleave_documents_and_folders(place: Place) -> None:
    """CAT-022, CAT-023: each folder follows its own documents; the global one is there even if it does not exist."""
    for path in ("opencode.json", "packages/opencode.json", "packages/core/opencode.json"):
        place.write(path, {})
    place.write(".opencode/opencode.json", {})
    place.write("packages/core/.opencode/opencode.json", {})
    place.user_config({})
    found = place.load(place.inner, trust=TRUST_NOTHING).entries()
    root, dot, leaf = place.root, place.root / ".opencode", place.inner / ".opencode"
    assert [(type(entry), entry.path, entry.trusted) for entry in found] == [
        (Document, place.home / "opencode.json", True),
        (Directory, place.home, True),
        (Document, root / "opencode.json", False),
        (Document, root / "packages" / "opencode.json", False),
        (Document, place.inner / "opencode.json", False),
        (Document, dot / "opencode.json", False),
        (Directory, dot, False),
        (Document, leaf / "opencode.json", False),
        (Directory, leaf, False),
    ]
    nowhere = place.load(OPENCODE_CONFIG_DIR=str(place.tmp / "nowhere")).entries()
    assert nowhere[0] == Directory(place.tmp / "nowhere", "user")


def test_paths_in_a_document_start_at_its_folder(place: Place) -> None:
    """CTX-143: instruction paths of a `.opencode` document start at the folder around it."""
    place.user_config({})
    place.write("packages/opencode.json", {})
    place.write("packages/.opencode/opencode.json", {})
    found = place.load(place.root / "packages").documents()
    assert [document.base for document in found] == [place.home, place.root / "packages", place.root / "packages"]
    assert found[-1].directory == place.root / "packages" / ".opencode"


def test_instructions_keep_their_order_and_their_document(place: Place) -> None:
    """CTX-142: all documents speak, low to high; nothing is merged away before identities are known."""
    place.user_config({"instructions": ["a.md", "b.md"]})
    place.write("opencode.json", {"instructions": ["b.md", "https://example.com/c.md"]})
    found = [
        (entry, document.origin) for document in place.load().documents() for entry in document.data["instructions"]
    ]
    assert found == [("a.md", "user"), ("b.md", "user"), ("b.md", "project"), ("https://example.com/c.md", "project")]


def test_other_names_and_files_above_the_project_are_not_read(place: Place) -> None:
    """CAT-020, CAT-021: `config.json` never; nothing above the root."""
    (place.tmp / "opencode.json").write_text('{"model": "p/above"}')
    place.write("config.json", {"model": "p/config"})
    assert place.load().documents() == ()


def test_a_location_that_is_the_global_folder_reads_it_once(place: Place) -> None:
    """CAT-023."""
    place.user_config({"model": "p/x"})
    (place.home / ".opencode").mkdir()
    for root in (place.home, place.user, Path("/")):
        found = load_config(place.home, root, place.environment())
        assert [entry.path for entry in found.entries()] == [place.home / "opencode.json", place.home]


def test_a_global_folder_inside_the_project_is_read_once(place: Place) -> None:
    """CAT-023: and is the user's, by whatever way it is named."""
    place.write(".opencode/opencode.json", {"model": "p/m"})
    link = place.tmp / "link"
    link.symlink_to(place.root / ".opencode")
    found = place.load(OPENCODE_CONFIG_DIR=str(link))
    assert [(document.path, document.trusted) for document in found.documents()] == [(link / "opencode.json", True)]


def test_a_location_reached_through_a_link_does_not_climb_out(place: Place) -> None:
    """CAT-028: boundaries are real paths."""
    outside = place.tmp / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "opencode.json").write_text('{"model": "p/outside"}')
    (place.root / "link").symlink_to(outside / "deep")
    assert place.load(place.root / "link").documents() == ()
    (place.tmp / "alias").symlink_to(place.root)
    place.write("opencode.json", {"model": "p/root"})
    found = load_config(place.tmp / "alias" / "packages", place.root, place.environment())
    assert found.latest("model") == "p/root"


@pytest.mark.parametrize(("value", "off"), [("1", True), ("True", True), ("0", False), ("yes", False)])
def test_the_project_can_be_left_out(place: Place, value: str, off: bool) -> None:
    """CAT-013, CAT-028: files and folders alike; read when used."""
    place.write("opencode.json", {"model": "p/project"})
    place.write(".opencode/opencode.json", {"username": "x"})
    found = place.load(OPENCODE_DISABLE_PROJECT_CONFIG=value)
    assert [entry.path for entry in found.entries() if entry.origin != "user"] == (
        []
        if off
        else [place.root / "opencode.json", place.root / ".opencode" / "opencode.json", place.root / ".opencode"]
    )


def test_a_file_that_was_named_must_exist(place: Place) -> None:
    """CAT-027, CAT-029."""
    (problem,) = place.load(OPENCODE_CONFIG="/no/such.json").diagnostics()
    assert (problem.path, problem.message) == ("/no/such.json", "does not exist; ignored")


def test_a_named_file_may_lie_at_home(place: Place) -> None:
    """CAT-029: at the home that everything else goes by; what is no path is only a problem of that document."""
    place.write("~/extra.json", {"model": "p/extra"})
    assert place.load(OPENCODE_CONFIG="~/extra.json").latest("model") == "p/extra"
    found = place.load(OPENCODE_CONFIG="~nobody-of-that-name/extra.json")
    assert [problem.message for problem in found.diagnostics()] == ["does not exist; ignored"]


def test_managed_documents_come_last_of_all(place: Place) -> None:
    """CAT-029."""
    found = load_config(
        place.root,
        place.root,
        place.environment(OPENCODE_CONFIG_CONTENT='{"model": "p/inline"}'),
        managed=[(Path("/etc/policy.json"), {"model": "p/managed"})],
    )
    assert found.latest("model") == "p/managed"
    assert [document.managed for document in found.documents()] == [False, True]


def test_reading_never_writes_and_reads_once(place: Place) -> None:
    """CAT-024: no file appears, none is touched, and a later edit is not seen."""
    file = place.write("opencode.json", {"model": "p/x"})
    before = {path: os.stat(path).st_mtime_ns for path in place.tmp.rglob("*")}
    found = place.load()
    assert {path: os.stat(path).st_mtime_ns for path in place.tmp.rglob("*")} == before
    file.write_text('{"model": "p/y"}')
    assert found.latest("model") == "p/x"
