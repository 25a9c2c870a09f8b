"""Files of a Location over HTTP, and everything that must not be read that way."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from tests.server.conftest import Wire

from holdfast.server.handlers import files

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")
MISSING = (404, "NotFoundError")


@pytest.fixture(autouse=True)
def tree(project: Path) -> None:
    (project / "sub" / "deep").mkdir(parents=True)
    (project / "sub" / "a.txt").write_text("in sub\n", encoding="utf-8")
    (project / "sub" / "deep" / "notes.md").write_text("# notes\n", encoding="utf-8")
    (project / "page.html").write_text("<script>alert(1)</script>", encoding="utf-8")
    (project / "ünï cödé#1.txt").write_text("odd name", encoding="utf-8")
    (project / "raw.bin").write_bytes(bytes(range(256)))
    (project.parent / "secret.txt").write_text("classified", encoding="utf-8")
    (project / "out").symlink_to(project.parent)
    (project / "loop").symlink_to("loop")


async def test_a_directory_is_listed(wire: Wire) -> None:
    """API-003, API-150: the Location itself, or a directory below it; links that lead out are left out."""
    top = (await wire.get("/api/fs/list")).json
    below = await wire.get("/api/fs/list?path=sub")

    assert set(top) == {"location", "data"}
    assert {"path": "sub/", "type": "directory"} in top["data"]
    assert {"path": "hello.txt", "type": "file"} in top["data"]
    assert not any(entry["path"].startswith(("out", "loop")) for entry in top["data"])
    assert below.data == [{"path": "sub/deep/", "type": "directory"}, {"path": "sub/a.txt", "type": "file"}]
    assert (await wire.get("/api/fs/list?path=sub/")).data == below.data


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hello.txt", "text/plain"),
        ("sub/a.txt", "text/plain"),
        ("sub/deep/notes.md", "text/markdown"),
        ("ünï cödé#1.txt", "text/plain"),
        ("raw.bin", "application/octet-stream"),
    ],
)
async def test_a_file_is_read_as_it_is(wire: Wire, project: Path, name: str, kind: str) -> None:
    """API-003, API-150: bytes and media type; the path is percent-decoded."""
    answer = await wire.get(f"/api/fs/read/{quote(name)}")

    assert (answer.status, answer.body) == (200, (project / name).read_bytes())
    assert answer.content_type.startswith(kind)


async def test_a_page_of_a_project_runs_nothing(http: httpx2.AsyncClient) -> None:
    """API-150: shown as what it is, and sandboxed."""
    response = await http.get("/api/fs/read/page.html")

    assert response.headers["content-security-policy"] == "sandbox"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert (await http.head("/api/fs/read/page.html")).status_code == 200


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        ("nope.txt", MISSING),
        ("sub/nope/deeper", MISSING),
        ("sub", INVALID),
        ("", MISSING),
        ("../secret.txt", INVALID),
        ("..%2Fsecret.txt", INVALID),
        ("%2e%2e/secret.txt", INVALID),
        ("sub/../../secret.txt", INVALID),
        ("sub%2F..%2F..%2Fsecret.txt", INVALID),
        ("out/secret.txt", INVALID),
        ("loop", INVALID),
        ("hello.txt/more", INVALID),
        ("%2Fetc%2Fpasswd", INVALID),
        ("%2Fproc%2Fself%2Fenviron", INVALID),
        ("hello.txt%00.png", INVALID),
        ("%ff%fe", MISSING),
        ("a" * 5000, INVALID),
        ("sub%5C..%5C..%5Csecret.txt", MISSING),
    ],
)
async def test_no_file_outside_the_location_is_read(memory: Wire, path: str, failure: tuple[int, str]) -> None:
    """API-026, API-150: missing is 404, escaping 400; never 500 and never the file."""
    read = await memory.get(f"/api/fs/read/{path}")
    listed = await memory.get(f"/api/fs/list?path={path}")

    assert read.failure == failure
    assert b"classified" not in read.body
    if path not in ("", "sub"):
        assert listed.failure == failure


async def test_a_listed_file_and_an_unreadable_directory_are_no_defect(memory: Wire, project: Path) -> None:
    """API-026: a file is no directory."""
    assert (await memory.get("/api/fs/list?path=hello.txt")).failure == INVALID
    os.mkfifo(project / "pipe")
    assert (await memory.get("/api/fs/read/pipe")).failure == INVALID


async def test_a_huge_file_is_refused(memory: Wire, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-150: a written limit."""
    monkeypatch.setattr(files, "FILE_LIMIT", 100)
    (project / "just.txt").write_bytes(b"x" * 100)
    (project / "over.txt").write_bytes(b"x" * 101)

    assert (await memory.get("/api/fs/read/just.txt")).status == 200
    assert (await memory.get("/api/fs/read/over.txt")).failure == INVALID


async def test_paths_are_found_by_likeness(wire: Wire) -> None:
    """API-150: the name first, then the path, then letter by letter; directories when wanted."""

    async def found(query: str) -> list[tuple[str, str]]:
        return [(entry["path"], entry["type"]) for entry in (await wire.get(f"/api/fs/find?{query}")).data]

    assert await found("query=NOTES") == [("sub/deep/notes.md", "file")]
    assert await found("query=deep") == [("sub/deep/", "directory"), ("sub/deep/notes.md", "file")]
    assert await found("query=sdn&type=file") == [("sub/deep/notes.md", "file")]
    assert await found("query=sub&type=directory") == [("sub/", "directory"), ("sub/deep/", "directory")]
    assert len(await found("query=t&limit=2")) == 2
    assert await found("query=nothingatall") == []
    assert set((await wire.get("/api/fs/find?query=a")).json) == {"location", "data"}


@pytest.mark.parametrize(
    "query", ["", "query=a&type=pipe", "query=a&limit=0", "query=a&limit=x", f"query={'a' * 2000}"]
)
async def test_a_bad_search_is_refused(memory: Wire, query: str) -> None:
    """API-023, API-150: kind Query."""
    answer = await memory.get(f"/api/fs/find?{query}")

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Query"
