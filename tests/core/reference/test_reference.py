"""How references are declared, and where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core.reference.reference import GitSource, LocalSource, Reference, References
from holdfast.core.reference.repository import parse_repository, remote

BASE, HOME, REPOS = Path("/repo/conf"), Path("/home/me"), Path("/data/repos")


def declared(value: Any, name: str = "docs") -> Reference | None:
    references = References()
    problems = references.declare({name: value}, BASE, HOME)
    found = references.resolve(REPOS)
    assert len(problems) + len(found) == 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("./x", "/repo/conf/x"),
        ("../x", "/repo/conf/../x"),
        ("/abs", "/abs"),
        ("~/x", "/home/me/x"),
        ({"path": "rel"}, "/repo/conf/rel"),
        ("owner/name", "/data/repos/github.com/owner/name"),
        ("example.com/group/sub/name", "/data/repos/example.com/group/sub/name"),
        ("https://Example.com/a/b.git", "/data/repos/example.com/a/b"),
        ("https://example.com:8443/a/b/", "/data/repos/example.com/a/b"),
        ("git@example.com:a/b.git", "/data/repos/example.com/a/b"),
        ("ssh://git@example.com/a/b", "/data/repos/example.com/a/b"),
        ({"repository": "owner/name", "branch": "v1/x"}, "/data/repos/github.com/owner/name@v1%2Fx"),
    ],
)
def test_the_directory_of_a_reference_follows_from_its_declaration(value: Any, path: str) -> None:
    """CTX-190, CTX-191: by the form of its declaration."""
    reference = declared(value)
    assert reference is not None
    assert reference.path == path


def test_a_reference_keeps_its_description_and_source() -> None:
    """CTX-190, CTX-191: description and hidden, and the source itself."""
    assert declared({"path": "/x", "description": "d", "hidden": True}) == Reference(
        name="docs",
        path="/x",
        description="d",
        hidden=True,
        source=LocalSource(path="/x", description="d", hidden=True),
    )
    git = declared({"repository": "a/b", "branch": "main"})
    assert git is not None
    assert git.source == GitSource(repository="a/b", branch="main")


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\tb", "a`b", "a,b"])
def test_a_name_that_cannot_be_mentioned_is_ignored(name: str) -> None:
    """CTX-191: with a word on why."""
    assert declared("/x", name) is None


@pytest.mark.parametrize(
    "value",
    [
        "file:///etc",
        "file:x/y",
        "ext::sh -c id",
        "--upload-pack=x/y",
        "-x/y",
        "name",
        "https://example.com",
        "https://example.com/../../x",
        "https://example.com/a/-b",
        "https://user:pw@example.com/a/b",
        "git@example.com:../../x",
        "git@example.com:-x/y",
        "owner/..",
        "a\nb/c",
        "",
        3,
        {},
        {"repository": 1},
        {"repository": "a/b", "branch": "-x"},
        {"repository": "a/b", "branch": "a..b"},
        {"repository": "a/b", "branch": "a b"},
        {"repository": "a/b", "branch": ""},
        {"repository": "a/b", "branch": "x\n"},
    ],
)
def test_a_repository_address_that_git_might_misread_is_dropped(value: Any) -> None:
    """CTX-192: no local files, programs, options, or ways out of the folder."""
    assert declared(value) is None


@pytest.mark.parametrize("field", ["path", "repository", "description"])
def test_a_reference_that_is_no_text_is_dropped(field: str) -> None:
    """CTX-191, CTX-193: it could not be told to a model."""
    assert declared({"path": "/x", field: "a\ud800"}) is None
    assert declared("/x", "a\ud800") is None


def test_a_later_document_overrides_by_name() -> None:
    """CTX-191: and a copy does not change with its original."""
    references = References()
    references.declare({"a": "/low", "b": "/b"}, BASE, HOME)
    copy = references.copy()
    references.declare({"a": "/high"}, BASE, HOME)
    assert [(item.name, item.path) for item in references.resolve(REPOS)] == [("a", "/high"), ("b", "/b")]
    assert [item.path for item in copy.resolve(REPOS)] == ["/low", "/b"]


def test_the_address_that_git_is_given() -> None:
    """CTX-190: GitHub's own may be configured, any other is as written."""
    assert remote(parse_repository("a/b"), "https://mirror.test/") == "https://mirror.test/a/b.git"
    assert remote(parse_repository("git@h.test:a/b"), "https://mirror.test") == "git@h.test:a/b"
    assert remote(parse_repository("h.test/a/b"), "https://mirror.test") == "https://h.test/a/b"
