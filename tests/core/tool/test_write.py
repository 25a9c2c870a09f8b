"""The `write` tool: one file, whole, with one write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.tool.tool_support import CONTEXT, Asked, FileTools, Recorder, tree

from holdfast.core.tool.builtin.write import CHANGED_SINCE_READ, ENDINGS_CHANGED

pytestmark = pytest.mark.anyio

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


async def test_a_write_creates_parents_and_reports_its_diff(tools: FileTools) -> None:
    """TOL-158, TOL-159, TOL-160, TOL-162: parents are created; the result has the diff; the action is `edit`."""
    outcome = await tools.call("write", path="a/b/f", content="one\n")
    target = str(tools.root / "a/b/f")
    added = {"file": "a/b/f", "patch": "--- a/b/f\n+++ a/b/f\n@@ -0,0 +1 @@\n+one\n", "additions": 1, "deletions": 0}
    assert outcome.structured == {
        "operation": "write",
        "target": target,
        "resource": "a/b/f",
        "existed": False,
        "files": [{**added, "status": "added"}],
    }
    assert outcome.text == "Created file successfully: a/b/f"
    outcome = await tools.call("write", path=target, content="two\n")
    assert outcome.structured["existed"] is True
    assert outcome.structured["files"][0]["status"] == "modified"
    assert outcome.text == "Wrote file successfully: a/b/f"
    assert (tools.root / "a/b/f").read_bytes() == b"two\n"
    assert tools.recorder.asked == [Asked("edit", ("a/b/f",), ("a/b/f", "*"))] * 2
    assert tools.tool("write").action == "edit"


async def test_the_write_tool_has_these_parameters(tools: FileTools) -> None:
    """TOL-158: these two and no other."""
    schema = msgspec.json.schema(tools.tool("write").input)["$defs"]["WriteInput"]
    assert set(schema["properties"]) == set(schema["required"]) == {"path", "content"}


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (None, "", b""),
        (None, "no newline", b"no newline"),
        (None, "a\r\nb\n\x0cé🦀", "a\r\nb\n\x0cé🦀".encode()),
        (BOM + b"old", "new", BOM + b"new"),
        (BOM + b"old", "\ufeff\ufeffnew", BOM + b"new"),
        (b"old", "\ufeffnew", BOM + b"new"),
        (b"\xff\xfe" + "old".encode("utf-16-le"), "néw", b"\xff\xfe" + "néw".encode("utf-16-le")),
        ("Größe, Prüfung\n".encode("latin-1"), "Maß\n", "Maß\n".encode("latin-1")),
        (b"\0\1\2", "text", b"text"),
    ],
)
async def test_a_write_keeps_byte_order_mark_and_encoding(
    tools: FileTools, before: bytes | None, content: str, after: bytes
) -> None:
    """TOL-160, TOL-128, TOL-155, TOL-340: what was given and nothing else; mark and encoding stay."""
    if before is not None:
        (tools.root / "f").write_bytes(before)
    await tools.call("write", path="f", content=content)
    assert (tools.root / "f").read_bytes() == after


async def test_content_that_the_encoding_cannot_hold_is_refused(tools: FileTools) -> None:
    """TOL-155: refused, and the old content stays."""
    (tools.root / "f").write_bytes("Größe, Prüfung\n".encode("latin-1"))
    assert "cp1252" in await tools.refusal("write", path="f", content="日本")
    assert (tools.root / "f").read_bytes() == "Größe, Prüfung\n".encode("latin-1")


@pytest.mark.parametrize(
    ("before", "content", "noted"),
    [(b"a\r\nb\r\n", "x\ny\n", True), (b"a\r\nb\n", "x\n", False), (b"a\r\n", "x\r\n", False), (b"a\r\n", "x", False)],
)
async def test_line_endings_are_written_as_given_unless_a_setting_converts_them(
    root: Path, before: bytes, content: str, noted: bool
) -> None:
    """TOL-161: written as given, with a note when CRLF is lost; converted only by setting."""
    (root / "f").write_bytes(before)
    outcome = await FileTools(root).call("write", path="f", content=content)
    assert (root / "f").read_bytes() == content.encode()
    assert (ENDINGS_CHANGED in outcome.text) is noted
    (root / "f").write_bytes(before)
    outcome = await FileTools(root, line_endings="as_before").call("write", path="f", content=content)
    assert (root / "f").read_bytes() == (content.replace("\n", "\r\n") if noted else content).encode()
    assert ENDINGS_CHANGED not in outcome.text


async def test_half_a_character_is_refused(root: Path) -> None:
    """TOL-161, TOL-340: whatever the setting for line endings; the file stays."""
    (root / "f").write_bytes(b"a\r\n")
    for setting in ("as_given", "as_before"):
        tools = FileTools(root, line_endings=setting)
        assert "has no" in await tools.refusal("write", path="f", content="x\n\ud800")
    assert (root / "f").read_bytes() == b"a\r\n"


async def test_a_write_that_cannot_be_done_fails_with_its_reason(tools: FileTools) -> None:
    """TOL-159, TOL-161: each with its reason; nothing blocks and nothing changes."""
    (tools.root / "folder").mkdir()
    os.mkfifo(tools.root / "pipe")
    (tools.root / "file").write_bytes(b"x")
    (tools.root / "locked").write_bytes(b"x")
    (tools.root / "locked").chmod(0o400)
    before = tree(tools.root)
    for path, why in {
        "folder": "directory",
        ".": "directory",
        "pipe": "pipe",
        "file/below": "not a directory",
        "locked": "read-only",
    }.items():
        refusal = await tools.refusal("write", path=path, content="x")
        assert refusal.startswith(f"Unable to write {path}: ")
        assert why in refusal
    assert "larger than 10485760" in await tools.refusal("write", path="big", content="é" * (5 * 1024 * 1024 + 1))
    assert tree(tools.root) == before


async def test_a_denied_write_writes_nothing_and_tells_nothing(tools: FileTools) -> None:
    """TOL-158, TOL-160, TOL-104, TOL-095: outside first; a denied write neither writes nor tells."""
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (tools.root / "f").write_bytes(b"kept")
    for denied, path, asked in (
        ("edit", "f", ["edit"]),
        ("edit", "new", ["edit"]),
        ("external_directory", str(outside / "new"), ["external_directory"]),
        ("edit", str(outside / "new"), ["external_directory", "edit"]),
    ):
        tools.recorder = Recorder(denied)
        assert "Permission denied" in await tools.refusal("write", path=path, content="x")
        assert tools.recorder.actions == asked
    assert (tools.root / "f").read_bytes() == b"kept"
    assert os.listdir(outside) == []
    tools.recorder = Recorder()
    await tools.call("write", path=str(outside / "sub/new"), content="x")
    assert tools.recorder.asked == [
        Asked("external_directory", (f"{outside}/*",), (f"{outside}/*",)),
        Asked("edit", (f"{outside}/sub/new",), (f"{outside}/sub/new", "*")),
    ]


async def test_the_stale_guard_refuses_a_file_changed_since_it_was_read(root: Path) -> None:
    """TOL-162: what this Session read and somebody changed is not overwritten; off by default."""
    (root / "f").write_text("one")
    for guarded in (False, True):
        tools = FileTools(root, stale_guard=guarded)
        await tools.call("write", path="f", content="unread is free")
        await tools.call("read", path="f")
        (root / "f").write_text("somebody else wrote this")
        if not guarded:
            await tools.call("write", path="f", content="mine")
            continue
        assert await tools.refusal("write", path="f", content="mine") == CHANGED_SINCE_READ
        assert (root / "f").read_text() == "somebody else wrote this"
        await tools.call("write", CONTEXT.replace(session_id="ses_2"), path="f", content="another Session's")
        await tools.call("read", path="f")
        await tools.call("write", path="f", content="mine")
        await tools.call("write", path="f", content="mine again")


async def test_a_write_is_put_in_place_by_one_rename(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-160, TOL-129: one rename puts it in place."""
    (tools.root / "f").write_text("old")
    renamed: list[str] = []
    real = os.rename

    def rename(source: str, name: str, **options: Any) -> None:
        renamed.append(name)
        real(source, name, **options)

    monkeypatch.setattr(os, "rename", rename)
    await tools.call("write", path="f", content="new")
    assert renamed == ["f"]


async def test_every_changed_file_is_announced(tools: FileTools) -> None:
    """TOL-132: for every file that changed, and for none that did not."""
    edited: list[Path] = []
    tools.files.mutations._on_edit = edited.append
    await tools.call("write", path="f", content="x")
    await tools.refusal("write", path=".", content="x")
    assert edited == [tools.root / "f"]
