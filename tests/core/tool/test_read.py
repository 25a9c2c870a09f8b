"""The `read` tool: whole files and pages, and nothing outside the Location."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.scope import Scope
from holdfast.core.tool.builtin.read import LINE_CUT, PAGE_LINES, WHOLE_BYTES, ReadInput, read, read_tool
from holdfast.core.tool.registry import Materialized, ToolRegistry
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure

CONTEXT = ToolContext("ses_1", "build", "msg_1", "c1")


def shown(tools: dict[str, Tool[Any, Any]]) -> Materialized:
    registry = ToolRegistry()
    registry.register(tools, Scope())
    return registry.materialize(())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def page(root: Path, path: str, **options: int) -> dict[str, Any]:
    return read(root, ReadInput(path=path, **options))


def refusal(root: Path, path: str, **options: int) -> str:
    with pytest.raises(ToolFailure) as refused:
        page(root, path, **options)
    return str(refused.value)


# -- whole files ---------------------------------------------------------------------------------------------------


def test_a_small_file_comes_whole(root: Path) -> None:
    """TOL-146: with its address, name, encoding and type; line ends untouched."""
    (root / "a.py").write_bytes(b"x = 1\r\ny = 2\n")
    assert page(root, "a.py") == {
        "uri": (root / "a.py").as_uri(),
        "name": "a.py",
        "content": "x = 1\r\ny = 2\n",
        "encoding": "utf8",
        "mime": "text/x-python",
    }
    assert page(root, str(root / "a.py")) == page(root, "./a.py") == page(root, "sub/../a.py")


@pytest.mark.parametrize("size", [0, 1, WHOLE_BYTES])
def test_up_to_the_limit_it_is_whole(root: Path, size: int) -> None:
    """TOL-146: an empty file too."""
    (root / "f").write_bytes(b"x" * size)
    assert page(root, "f")["content"] == "x" * size


def test_above_the_limit_it_is_a_page(root: Path) -> None:
    """TOL-146, TOL-147, TOL-148: one byte more, and long lines are cut."""
    (root / "f").write_bytes(b"x" * (WHOLE_BYTES + 1))
    assert page(root, "f") == {
        "type": "text-page",
        "mime": "text/plain",
        "content": "x" * 2000 + "... (line truncated to 2000 chars)",
        "offset": 1,
        "truncated": False,
    }


# -- pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "content", "following"),
    [
        ({"offset": 1}, "one\ntwo\nthree\n\nfive", None),
        ({"limit": 2}, "one\ntwo", 3),
        ({"offset": 2, "limit": 2}, "two\nthree", 4),
        ({"offset": 4, "limit": 1}, "", 5),
        ({"offset": 5, "limit": 1}, "five", None),
        ({"offset": 4, "limit": 2000}, "\nfive", None),
    ],
)
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_pages_of_lines(
    root: Path, options: dict[str, int], content: str, following: int | None, ending: bytes
) -> None:
    """TOL-136, TOL-147: from a line on, so many; `next` exactly when something is left; a last line end adds none."""
    (root / "f").write_bytes(b"one\ntwo\r\nthree\n\nfive" + ending)
    expected = {
        "type": "text-page",
        "mime": "text/plain",
        "content": content,
        "offset": options.get("offset", 1),
        "truncated": following is not None,
    }
    assert page(root, "f", **options) == (expected if following is None else {**expected, "next": following})


def test_pages_join_to_the_whole(root: Path) -> None:
    """TOL-147: following `next` gives every line once, and no page is larger than its bound."""
    lines = [f"{number} " + "é" * (number % 60) for number in range(5000)]
    (root / "f").write_text("\n".join(lines), encoding="utf-8")
    found: list[str] = []
    following: int | None = 1
    while following is not None:
        part = page(root, "f", offset=following)
        assert len(part["content"].encode()) <= WHOLE_BYTES
        found += part["content"].split("\n")
        assert len(found) - following < PAGE_LINES
        following = part.get("next")
    assert found == lines


def test_a_line_longer_than_a_page_is_still_delivered(root: Path) -> None:
    """TOL-147, TOL-148: cut, with its suffix; reading goes on after it."""
    (root / "f").write_text("a\n" + "ż" * 60_000 + "\nb\n", encoding="utf-8")
    assert page(root, "f")["content"].split("\n") == ["a", "ż" * 2000 + LINE_CUT, "b"]
    assert page(root, "f", offset=2, limit=1)["next"] == 3


@pytest.mark.parametrize("length", [1999, 2000, 2001])
def test_where_a_line_is_cut(root: Path, length: int) -> None:
    """TOL-148: two thousand characters pass, whatever they weigh."""
    (root / "f").write_text("🦀" * length, encoding="utf-8")
    expected = "🦀" * length if length <= 2000 else "🦀" * 2000 + LINE_CUT
    assert page(root, "f", offset=1)["content"] == expected


@pytest.mark.parametrize(("content", "lines"), [(b"one\ntwo\n", 2), (b"one\ntwo", 2), (b"", 0)])
def test_an_offset_behind_the_end(root: Path, content: bytes, lines: int) -> None:
    """TOL-139: says how many lines there are."""
    (root / "f").write_bytes(content)
    message = refusal(root, "f", offset=9)
    assert "Offset 9 is out of range" in message
    assert f"{lines} lines" in message


def test_an_empty_file_by_page(root: Path) -> None:
    """TOL-147."""
    (root / "f").write_bytes(b"")
    assert page(root, "f", offset=1) == {
        "type": "text-page",
        "mime": "text/plain",
        "content": "",
        "offset": 1,
        "truncated": False,
    }


# -- what is no text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"\x00", b"text\x00text", b"%PDF-1.7 text", bytes(range(1, 9)) * 4],
    ids=["nul", "nul inside", "pdf", "controls"],
)
@pytest.mark.parametrize("options", [{}, {"offset": 1}])
def test_a_binary_file_is_refused(root: Path, content: bytes, options: dict[str, int]) -> None:
    """TOL-145: by what is in it, however it is asked for."""
    (root / "f").write_bytes(content)
    assert refusal(root, "f", **options) == "Cannot read binary file: f"


def test_a_nul_far_into_a_large_file_is_seen_when_it_is_reached(root: Path) -> None:
    """TOL-149, TOL-145: binary detection runs on what is read, not only on the beginning."""
    (root / "f").write_bytes(b"line\n" * 20_000 + b"bi\x00nary\n")
    assert page(root, "f")["truncated"]
    assert refusal(root, "f", offset=19_990) == "Cannot read binary file: f"


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff", b"a\n\xffab\nb", b"\xed\xa0\x80 surrogate", b"\xf0\x9f\xa6"])
@pytest.mark.parametrize("options", [{}, {"offset": 1}], ids=["whole", "page"])
def test_what_is_not_utf8_is_refused(root: Path, content: bytes, options: dict[str, int]) -> None:
    """TOL-139, TOL-146: anywhere in the file, in both modes; nothing is dropped silently."""
    (root / "f").write_bytes(content)
    assert refusal(root, "f", **options) == "File is not valid UTF-8: f"


def test_bad_bytes_behind_the_page_do_not_matter(root: Path) -> None:
    """TOL-149: reading stops once the page is full."""
    (root / "f").write_bytes(b"one\ntwo\n" + b"\xff" + b"x" * 50 + b"\nfour\n")
    assert page(root, "f", limit=2)["content"] == "one\ntwo"
    assert page(root, "f", limit=2)["next"] == 3


# -- where it may look ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../secret", "sub/../../secret", "/etc/hostname", "../work-evil/secret", ".."])
def test_paths_outside_are_refused(root: Path, path: str) -> None:
    """TOL-112, TOL-115, TOL-120: relative or absolute, also a neighbour whose name begins the same."""
    (root.parent / "secret").write_text("secret")
    (root.parent / "work-evil").mkdir()
    (root.parent / "work-evil" / "secret").write_text("secret")
    assert "outside" in refusal(root, path)


def test_links_are_followed_inside_and_not_out(root: Path) -> None:
    """TOL-113, TOL-114, TOL-117: a link to a file, to a folder on the way, and one that dangles."""
    (root.parent / "secret").write_text("secret")
    (root / "real").mkdir()
    (root / "real" / "f").write_text("inside")
    (root / "folder").symlink_to("real")
    (root / "file").symlink_to("real/f")
    (root / "out").symlink_to(root.parent / "secret")
    (root / "up").symlink_to("..")
    (root / "dangling").symlink_to(root.parent / "nothing")
    assert page(root, "folder/f")["content"] == page(root, "file")["content"] == "inside"
    assert page(root, "file")["uri"] == (root / "real" / "f").as_uri()
    for path in ("out", "up/secret", "dangling"):
        assert "outside" in refusal(root, path)


@pytest.mark.anyio
async def test_a_location_behind_a_link_is_a_location(tmp_path: Path, root: Path) -> None:
    """TOL-113: its own files are inside, by either name."""
    (root / "f").write_text("x")
    linked = tmp_path / "linked"
    linked.symlink_to(root)
    toolbox = shown({"read": read_tool(linked)})
    for path in ("f", str(linked / "f"), str(root / "f")):
        assert (await toolbox.execute("read", {"path": path}, CONTEXT)).structured["content"] == "x"


def test_links_in_a_circle_are_a_failure_to_read(root: Path) -> None:
    """TOL-138: an expected failure, not a defect of the tool."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert "a" in refusal(root, "a")


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "x" * 300], ids=["empty", "nul", "endless", "name too long"])
def test_paths_that_are_none(root: Path, path: str) -> None:
    """TOL-121: refused, never an error of the operating system."""
    assert refusal(root, path)


def test_a_tilde_is_a_name(root: Path) -> None:
    """TOL-121: no home directory is looked up."""
    (root / "~").mkdir()
    (root / "~" / "f").write_text("here")
    assert page(root, "~/f")["content"] == "here"


def test_what_is_not_there(root: Path) -> None:
    """TOL-139."""
    (root / "f").write_text("x")
    assert refusal(root, "missing") == "File not found: missing"
    assert "f/below" in refusal(root, "f/below")


def test_directories_pipes_and_locked_files(root: Path) -> None:
    """TOL-139: each is seen for what it is, and a pipe without a writer does not block."""
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for path in ("folder", ".", "pipe"):
        assert "not a regular file" in refusal(root, path)
    if os.geteuid() != 0:
        (root / "locked").write_text("x")
        (root / "locked").chmod(0)
        assert "Unable to read locked" in refusal(root, "locked")


# -- as a tool -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 7}, {"path": "f", "offset": 0}, {"path": "f", "limit": 0}, {"path": "f", "limit": 2001}],
)
async def test_arguments_are_checked(root: Path, arguments: dict[str, Any]) -> None:
    """TOL-136: an offset from 1, a limit from 1 to 2000; anything else is a failure the model can read."""
    with pytest.raises(ToolFailure, match="Invalid tool input"):
        await shown({"read": read_tool(root)}).execute("read", arguments, CONTEXT)


@pytest.mark.anyio
async def test_the_toolbox_runs_it_and_knows_no_other(root: Path) -> None:
    """TOL-014, SES-120: the same definition each time; an unknown name is an expected failure."""
    (root / "f").write_text("x")
    toolbox = shown({"read": read_tool(root)})
    output = await toolbox.execute("read", {"path": "f", "more": "ignored"}, CONTEXT)
    assert output.structured["content"] == "x"
    with pytest.raises(ToolFailure, match="Unknown tool: write"):
        await toolbox.execute("write", {}, CONTEXT)
    (definition,) = toolbox.definitions
    assert toolbox.definitions is toolbox.definitions
    assert definition.name == "read"
    assert definition.input_schema["type"] == "object"
    assert set(definition.input_schema["properties"]) == {"path", "offset", "limit"}
    assert definition.input_schema["required"] == ["path"]
