"""The `read` tool: whole files and pages, images, directories, and nothing that is not a file."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image
from tests.core.tool.authorizers import AllowAll
from tests.core.tool.tool_support import CONTEXT, Asked, FileTools, Recorder, run

from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.filesystem.page import LINE_CUT
from holdfast.core.tool.builtin import read
from holdfast.core.tool.builtin.read import FRAME_LINES, PAGE_LINES, WHOLE_BYTES, read_tool
from holdfast.core.tool.tool import ToolContext

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


async def page(tools: FileTools, path: str = "f", **options: Any) -> dict[str, Any]:
    return (await tools.call("read", path=path, **options)).structured


async def shown(tools: FileTools, path: str = "f", **options: Any) -> str:
    return (await tools.call("read", path=path, **options)).text


async def refusal(tools: FileTools, path: str = "f", **options: Any) -> str:
    return await tools.refusal("read", path=path, **options)


def png(width: int = 4, height: int = 3) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(buffer, "PNG")
    return buffer.getvalue()


async def test_a_small_file_comes_whole(tools: FileTools) -> None:
    """TOL-146: with its address, name, encoding and type; line ends untouched."""
    (tools.root / "a.py").write_bytes(b"x = 1\r\ny = 2\n")
    whole = {
        "uri": (tools.root / "a.py").as_uri(),
        "name": "a.py",
        "content": "x = 1\r\ny = 2\n",
        "encoding": "utf8",
        "mime": "text/x-python",
    }
    for path in ("a.py", str(tools.root / "a.py"), "./a.py", "sub/../a.py"):
        assert await page(tools, path) == whole


@pytest.mark.parametrize("size", [0, 1, WHOLE_BYTES])
async def test_a_file_up_to_the_limit_is_returned_whole(tools: FileTools, size: int) -> None:
    """TOL-146: an empty file too."""
    (tools.root / "f").write_bytes(b"x" * size)
    assert (await page(tools))["content"] == "x" * size


async def test_a_file_above_the_limit_is_returned_by_page(tools: FileTools) -> None:
    """TOL-146, TOL-147, TOL-148: one byte more, and long lines are cut."""
    (tools.root / "f").write_bytes(b"x" * (WHOLE_BYTES + 1))
    assert await page(tools) == {
        "type": "text-page",
        "mime": "text/plain",
        "content": "x" * 2000 + "... (line truncated to 2000 chars)",
        "offset": 1,
        "truncated": False,
    }


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
@pytest.mark.parametrize("size", ["small", "large"])
async def test_a_page_of_lines_has_a_next_offset_only_when_lines_are_left(
    tools: FileTools, options: dict[str, Any], content: str, following: int | None, ending: bytes, size: str
) -> None:
    """TOL-136, TOL-147, TOL-150: from a line on, so many; `next` exactly when something is left; a last line end adds
    no line."""
    lines = b"one\ntwo\r\nthree\n\nfive" + ending
    if size == "large":
        lines = lines.replace(b"five", b"five" + b"x" * 60_000)
        content = content.replace("five", "five" + "x" * 1996 + LINE_CUT)
    (tools.root / "f").write_bytes(lines)
    expected = {
        "type": "text-page",
        "mime": "text/plain",
        "content": content,
        "offset": options.get("offset", 1),
        "truncated": following is not None,
    }
    assert await page(tools, **options) == (expected if following is None else {**expected, "next": following})


async def test_pages_join_to_the_whole(tools: FileTools) -> None:
    """TOL-147, TOL-154: following `next` gives every line once, and no page is larger than the output may be."""
    lines = [f"{number} " + "é" * (number % 60) for number in range(5000)]
    (tools.root / "f").write_text("\n".join(lines), encoding="utf-8")
    found: list[str] = []
    following: int | None = 1
    while following is not None:
        outcome = await tools.call("read", path="f", offset=following)
        part = outcome.structured
        assert len(outcome.text.encode()) <= WHOLE_BYTES
        assert outcome.text.count("\n") + 1 <= 2000
        found += part["content"].split("\n")
        assert len(found) - following < PAGE_LINES
        following = part.get("next")
    assert found == lines


async def test_a_line_longer_than_a_page_is_still_delivered(tools: FileTools) -> None:
    """TOL-147, TOL-148: cut, with its suffix; reading goes on after it."""
    (tools.root / "f").write_text("a\n" + "ż" * 60_000 + "\nb\n", encoding="utf-8")
    assert (await page(tools))["content"].split("\n") == ["a", "ż" * 2000 + LINE_CUT, "b"]
    assert (await page(tools, offset=2, limit=1))["next"] == 3


@pytest.mark.parametrize("length", [1999, 2000, 2001])
async def test_a_line_is_cut_after_two_thousand_characters(tools: FileTools, length: int) -> None:
    """TOL-148, TOL-344: two thousand code points pass, whatever they weigh."""
    (tools.root / "f").write_text("🦀" * length, encoding="utf-8")
    expected = "🦀" * length if length <= 2000 else "🦀" * 2000 + LINE_CUT
    assert (await page(tools, offset=1))["content"] == expected


@pytest.mark.parametrize(("content", "lines"), [(b"one\ntwo\n", "2 lines"), (b"one", "1 line"), (b"", "0 lines")])
async def test_an_offset_behind_the_end(tools: FileTools, content: bytes, lines: str) -> None:
    """TOL-139, TOL-150: says how many lines there are."""
    (tools.root / "f").write_bytes(content)
    assert await refusal(tools, offset=3) == f"Offset 3 is out of range (f has {lines})"


async def test_an_empty_file_by_page(tools: FileTools) -> None:
    """TOL-150: offset 1 is no error there."""
    (tools.root / "f").write_bytes(b"")
    expected = {"type": "text-page", "mime": "text/plain", "content": "", "offset": 1, "truncated": False}
    assert await page(tools, offset=1) == expected
    assert await shown(tools) == "f is empty"


async def test_a_page_of_two_gigabytes_reads_only_its_part(tools: FileTools) -> None:
    """TOL-149, TOL-148: only what the page needs is looked at."""
    with (tools.root / "f").open("wb") as file:
        file.write(b"first\nsecond\n" * 6000)
        file.truncate(2 << 30)
    part = await page(tools, limit=2)
    assert (part["content"], part["next"]) == ("first\nsecond", 3)


async def test_a_page_with_numbered_lines_says_where_to_go_on(tools: FileTools) -> None:
    """TOL-153, TOL-154: a header with path, range and total, and where to go on."""
    (tools.root / "f").write_bytes(b"one\r\ntwo\n\nfour")
    assert await shown(tools) == "f, lines 1-4 of 4\n1: one\n2: two\n3: \n4: four"
    assert await shown(tools, offset=2, limit=2) == "f, lines 2-3 and more\n2: two\n3: \n(next offset: 4)"


async def test_a_whole_file_may_be_shown_in_part(tools: FileTools) -> None:
    """TOL-154, TOL-146: consumers get all of it; the model's text fits the limits and says how to go on."""
    (tools.root / "f").write_text("x\n" * 10_000)
    outcome = await tools.call("read", path="f")
    assert outcome.structured["content"] == "x\n" * 10_000
    last = 2000 - FRAME_LINES
    assert outcome.text.startswith(f"f, lines 1-{last} and more\n1: x\n")
    assert outcome.text.endswith(f"\n{last}: x\n(next offset: {last + 1})")


async def test_pages_fit_the_configured_output_limits(root: Path) -> None:
    """TOL-154, TOL-041: whatever the output may be."""
    (root / "f").write_text("some words\n" * 500)
    for lines, size in ((10, 50_000), (2000, 1000), (50, 700)):
        text = await shown(FileTools(root, output_lines=lines, output_bytes=size))
        assert text.count("\n") + 1 <= lines
        assert len(text.encode()) <= size


@pytest.mark.parametrize("repeat", [1, 4000], ids=["small", "large"])
@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("cp1252", b""), ("utf-8", b"\xef\xbb\xbf")],
)
async def test_text_in_another_encoding_is_decoded_and_its_encoding_stated(
    tools: FileTools, encoding: str, mark: bytes, repeat: int
) -> None:
    """TOL-155: shown decoded, and the encoding is stated."""
    (tools.root / "f").write_bytes(mark + ("Größe, naïve café\r\nzwei\n" * repeat).encode(encoding))
    outcome = await tools.call("read", path="f")
    assert outcome.text.split("\n")[1:3] == ["1: Größe, naïve café", "2: zwei"]
    assert outcome.text.startswith(f"f [{encoding}{', marked' if mark else ''}], lines 1-")
    assert outcome.structured.get("charset") == (None if encoding == "utf-8" else encoding)
    assert outcome.structured["content"].startswith("Größe, naïve café")


@pytest.mark.parametrize("content", ["ääää".encode() + b"\xff", "é".encode()[:1] + "éé".encode(), b"\xf0\x9f\xa6"])
@pytest.mark.parametrize("options", [{}, {"offset": 1}], ids=["whole", "page"])
async def test_broken_text_is_refused(tools: FileTools, content: bytes, options: dict[str, Any]) -> None:
    """TOL-139, TOL-146: nothing is dropped silently."""
    (tools.root / "f").write_bytes(content)
    assert await refusal(tools, **options) == "File is not valid UTF-8: f"


async def test_broken_text_behind_the_sample(tools: FileTools) -> None:
    """TOL-146, TOL-149: seen when the page reaches it, not before."""
    (tools.root / "f").write_bytes(b"line\n" * 20_000 + b"\xff\xff\n" + b"line\n")
    assert (await page(tools))["truncated"]
    assert await refusal(tools, offset=19_990) == "File is not valid UTF-8: f"
    assert (await page(tools, offset=19_990, limit=11))["next"] == 20_001


@pytest.mark.parametrize(
    "content",
    [b"\x00", b"text\x00text", b"%PDF-1.7 text", bytes(range(1, 9)) * 4],
    ids=["nul", "nul inside", "pdf", "controls"],
)
@pytest.mark.parametrize("options", [{}, {"offset": 1}])
async def test_a_binary_file_is_refused(tools: FileTools, content: bytes, options: dict[str, Any]) -> None:
    """TOL-145, TOL-138: by what is in it, however it is asked for."""
    (tools.root / "f").write_bytes(content)
    assert await refusal(tools, **options) == "Cannot read binary file: f"


@pytest.mark.parametrize("name", ["a.zip", "a.TAR", "b.so", "c.dat", "d.pyc", "e.Bin"])
async def test_a_file_with_a_binary_extension_is_refused_whatever_its_content(tools: FileTools, name: str) -> None:
    """TOL-145, TOL-351: even if its content is text; but an image is an image."""
    (tools.root / name).write_text("only text")
    assert await refusal(tools, name) == f"Cannot read binary file: {name}"
    (tools.root / name).write_bytes(png())
    assert (await page(tools, name))["mime"] == "image/png"


async def test_a_nul_far_into_a_large_file_is_seen_when_it_is_reached(tools: FileTools) -> None:
    """TOL-149, TOL-145: binary detection runs on what is read, not only on the beginning."""
    (tools.root / "f").write_bytes(b"line\n" * 20_000 + b"bi\x00nary\n")
    assert (await page(tools))["truncated"]
    assert await refusal(tools, offset=19_990) == "Cannot read binary file: f"


@pytest.mark.parametrize("size", [10, WHOLE_BYTES, WHOLE_BYTES + 1])
async def test_a_setting_returns_binary_files_as_base64(root: Path, size: int) -> None:
    """TOL-355, TOL-353: base64 for consumers, one line for the model, up to 50 KiB."""
    tools = FileTools(root, binary_files="base64")
    data = bytes(size)
    (root / "a.wasm").write_bytes(data)
    if size > WHOLE_BYTES:
        assert await refusal(tools, "a.wasm") == "Cannot read binary file: a.wasm"
        return
    outcome = await tools.call("read", path="a.wasm")
    assert outcome.structured == {
        "uri": (root / "a.wasm").as_uri(),
        "name": "a.wasm",
        "content": base64.b64encode(data).decode(),
        "encoding": "base64",
        "mime": "application/wasm",
    }
    assert outcome.text == f"a.wasm is a binary file: application/wasm, {size} bytes"


async def test_an_image_is_returned_with_its_name(tools: FileTools) -> None:
    """TOL-141, TOL-140: words and the image itself, named as it was asked for."""
    (tools.root / "sub").mkdir()
    (tools.root / "sub/x.txt").write_bytes(png())
    outcome = await tools.call("read", path="./sub/x.txt")
    content = base64.b64encode(png()).decode()
    assert outcome.text == "Image read successfully"
    uri = f"data:image/png;base64,{content}"
    assert outcome.media == [{"type": "file", "uri": uri, "mime": "image/png", "name": "./sub/x.txt"}]
    assert outcome.structured == {
        "uri": (tools.root / "sub/x.txt").as_uri(),
        "name": "x.txt",
        "content": content,
        "encoding": "base64",
        "mime": "image/png",
    }


async def test_images_that_do_not_fit(root: Path) -> None:
    """TOL-141, TOL-142, TOL-138: too many bytes, too large, broken; each says so itself."""
    tools = FileTools(root, image=ImageLimits(max_width=2, max_height=2, auto_resize=False))
    (root / "wide").write_bytes(png())
    assert (await refusal(tools, "wide")).startswith("Image wide is 4x3 with base64 size ")
    (root / "broken").write_bytes(b"\xff\xd8\xffnothing")
    assert await refusal(tools, "broken") == "Image could not be decoded: broken"
    with (root / "huge").open("wb") as file:
        file.write(png())
        file.truncate(20 * 1024 * 1024 + 1)
    assert await refusal(tools, "huge") == "Media exceeds 20971520 byte ingestion limit: huge"


async def test_an_image_takes_its_time_elsewhere(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-144: decoding has a deadline, and it is the tool that fails."""
    (tools.root / "f").write_bytes(png())
    monkeypatch.setattr(read, "DECODING_DEADLINE", 0.01)
    monkeypatch.setattr(read, "normalize", lambda *arguments: time.sleep(0.2))
    assert await refusal(tools) == "Unable to read f: it took too long"


async def test_a_directory_lists_directories_first_and_hides_links_that_leave_it(tools: FileTools) -> None:
    """TOL-151, TOL-152, TOL-352: directories first, by name whatever its case or form; links that lead out of this
    directory are left out, also those inside the Location, and so is what is neither file nor directory."""
    folder = tools.root / "dir"
    for name in ("Zeta", "alpha", "inner"):
        (folder / name).mkdir(parents=True)
    for name in ("b.txt", "A.txt", "a.txt", "é", "z"):
        (folder / name).write_text("")
    (folder / "e\u0301b").write_text("")
    (folder / os.fsdecode(b"\xff")).write_text("")
    (tools.root / "elsewhere").write_text("")
    os.mkfifo(folder / "pipe")
    for name, leads_to in {
        "to-file": "a.txt",
        "to-inner": "inner",
        "out": "/etc/hostname",
        "up": "../elsewhere",
        "broken": "nothing",
        "loop": "loop",
        "to-pipe": "pipe",
    }.items():
        (folder / name).symlink_to(leads_to)
    files = ["A.txt", "a.txt", "b.txt", "to-file", "z", "é", "e\u0301b"]
    expected = [
        *({"path": f"dir/{name}/", "type": "directory"} for name in ("alpha", "inner", "to-inner", "Zeta")),
        *({"path": f"dir/{name}", "type": "file"} for name in files),
    ]
    outcome = await tools.call("read", path="dir")
    assert outcome.structured == {"entries": expected, "truncated": False}
    assert outcome.text == "\n".join(["dir has 11 entries", *(entry["path"] for entry in expected)])


async def test_a_directory_is_read_by_page_with_offset_and_limit(tools: FileTools) -> None:
    """TOL-136, TOL-151, TOL-152: the same offset and limit; an offset behind the last entry is an error."""
    for number in range(5):
        (tools.root / f"f{number}").write_text("")
    part = await page(tools, ".", offset=2, limit=2)
    entries = [{"path": "f1", "type": "file"}, {"path": "f2", "type": "file"}]
    assert part == {"entries": entries, "truncated": True, "next": 4}
    assert (await shown(tools, ".", offset=2, limit=2)).endswith("f1\nf2\n(next offset: 4)")
    assert (await page(tools, ".", offset=5))["truncated"] is False
    assert await refusal(tools, ".", offset=6) == "Offset 6 is out of range (. has 5 entries)"
    (tools.root / "empty").mkdir()
    assert await page(tools, "empty") == {"entries": [], "truncated": False}


async def test_a_large_directory_is_listed_a_page_at_a_time(tools: FileTools) -> None:
    """TOL-151, TOL-154: a page of it at a time."""
    for number in range(2100):
        (tools.root / f"{number:04}").touch()
    outcome = await tools.call("read", path=".")
    assert outcome.text.count("\n") < 2000
    assert outcome.structured["next"] == len(outcome.structured["entries"]) + 1 == 2000 - FRAME_LINES + 1


async def test_reading_outside_asks_for_the_directory_and_then_for_the_file(tools: FileTools) -> None:
    """TOL-137, TOL-104, TOL-114: outside first, then `read` of the canonical resource."""
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("x")
    (tools.root / "real").write_text("x")
    (tools.root / "link").symlink_to("real")
    await tools.call("read", path="link")
    await tools.call("read", path=str(outside / "f"))
    await tools.call("read", path=str(outside))
    external = Asked("external_directory", (f"{outside}/*",), (f"{outside}/*",))
    assert tools.recorder.asked == [
        Asked("read", ("real",), ("real", "*")),
        external,
        Asked("read", (f"{outside}/f",), (f"{outside}/f", "*")),
        external,
        Asked("read", (str(outside),), (str(outside), "*")),
    ]


@pytest.mark.parametrize("denied", ["read", "external_directory"])
async def test_a_denied_read_does_not_tell_whether_the_file_exists(
    tools: FileTools, denied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-137, TOL-139, TOL-095, TOL-329: what is there and what is not look alike."""
    monkeypatch.setattr(read, "open_file", lambda *arguments: pytest.fail("it was opened"))
    tools.recorder = Recorder(denied)
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (outside / "there").write_text("secret")
    refusals = {name: await refusal(tools, str(outside / name)) for name in ("there", "gone")}
    assert refusals["there"].replace("there", "gone") == refusals["gone"]
    assert "Permission denied" in refusals["gone"]
    assert tools.recorder.actions[-1] == denied


async def test_a_missing_file_is_named_with_similar_names(tools: FileTools) -> None:
    """TOL-139, TOL-138: with up to three similar names."""
    (tools.root / "src").mkdir()
    for name in ("main.py", "main_test.py", "mian.py", "mann.py", "other.txt"):
        (tools.root / "src" / name).write_text("x")
    assert await refusal(tools, "missing") == "File not found: missing"
    similar = "src/mian.py, src/main.py, src/mann.py"
    assert await refusal(tools, "src/mein.py") == f"File not found: src/mein.py. Similar: {similar}"
    assert await refusal(tools, "gone/away") == "File not found: gone/away"
    assert (await refusal(tools, "src/main.py/x")).startswith("Unable to read src/main.py/x: ")


async def test_a_special_file_is_refused_without_blocking(tools: FileTools) -> None:
    """TOL-139, TOL-156: seen for what it is; a pipe without a writer does not block."""
    os.mkfifo(tools.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tools.root / "s"))
        for path in ("pipe", "s"):
            assert await refusal(tools, path) == f"Path is not a file or directory: {path}"


@pytest.mark.parametrize(("kind", "why"), [("pipe", "Path is not a file or directory"), ("link", "through a link")])
async def test_a_file_swapped_before_opening_neither_blocks_nor_leads_out(
    tools: FileTools, monkeypatch: pytest.MonkeyPatch, kind: str, why: str
) -> None:
    """TOL-156, TOL-131, TOL-315: after the look and before the opening; it neither blocks nor leads out."""
    (tools.root / "f").write_text("x")
    real = os.stat(tools.root / "f")
    target = tools.files.resolve("f")
    (tools.root / "f").unlink()
    if kind == "pipe":
        os.mkfifo(tools.root / "f")
    else:
        (tools.root.parent / "secret").write_text("secret")
        (tools.root / "f").symlink_to(tools.root.parent / "secret")
    monkeypatch.setattr(tools.files, "resolve", lambda *arguments, **options: target)
    monkeypatch.setattr("holdfast.core.filesystem.descriptor.stat_entry", lambda *arguments: real)
    assert why in await refusal(tools)


async def test_a_file_that_may_not_be_opened(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-138: an expected failure with its reason."""
    (tools.root / "f").write_text("x")

    def refuse(*arguments: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(read, "open_file", refuse)
    assert await refusal(tools) == "Unable to read f: Permission denied"


async def test_a_hanging_read_ends_at_its_deadline(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-156: has a deadline."""
    (tools.root / "f").write_bytes(b"x" * (WHOLE_BYTES + 1))
    monkeypatch.setattr(read, "DEADLINE", 0.01)
    monkeypatch.setattr(read, "_read_any", lambda reading: time.sleep(0.2))
    assert await refusal(tools) == "Unable to read f: it took too long"


async def test_managed_files_are_readable(root: Path) -> None:
    """TOL-065, TOL-353: without asking about the directory, also where outside paths are closed."""
    managed = root.parent / "tool-output"
    managed.mkdir()
    (managed / "tool_1").write_text("kept output")
    files = LocationFiles(
        root, settings=lambda: FileSettings(external_paths="deny"), managed=lambda path: path.parent == managed
    )
    recorder = Recorder()
    outcome = await run(read_tool(files, recorder), path=str(managed / "tool_1"))
    assert "kept output" in outcome.text
    assert recorder.asked == [Asked("read", (str(managed / "tool_1"),), (str(managed / "tool_1"), "*"))]


async def test_a_reference_is_read_by_name_without_an_approval_for_its_directory(root: Path) -> None:
    """TOL-122: by name, without an approval for the directory."""
    docs = root.parent / "docs"
    docs.mkdir()
    (docs / "intro.md").write_text("welcome")
    files = LocationFiles(root, references=lambda: {"docs": docs})
    assert "welcome" in (await run(read_tool(files, AllowAll()), path="@docs/intro.md")).text


async def test_a_successful_read_is_announced_with_its_canonical_path(root: Path) -> None:
    """TOL-157: after it, with the canonical path; a failed or denied one is not told."""
    heard: list[tuple[ToolContext, Path]] = []

    async def on_read(context: ToolContext, path: Path) -> None:
        heard.append((context, path))

    (root / "f").write_text("x")
    (root / "link").symlink_to("f")
    tools = FileTools(root)
    tool = read_tool(tools.files, tools.recorder, on_read=on_read)
    outcome = await run(tool, path="link")
    assert outcome == await tools.call("read", path="link")
    for path in ("missing", "../x"):
        with pytest.raises(Exception, match=path):
            await run(tool, path=path)
    assert heard == [(CONTEXT, root / "f")]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 7}, {"path": "f", "offset": 0}, {"path": "f", "limit": 0}, {"path": "f", "limit": 2001}],
)
async def test_offset_and_limit_of_a_read_are_checked(tools: FileTools, arguments: dict[str, Any]) -> None:
    """TOL-136: an offset from 1, a limit from 1 to 2000."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(arguments, tools.tool("read").input)


async def test_a_small_file_is_read_at_once(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-156: no thread for what takes microseconds; everything else goes to one."""
    (tools.root / "small").write_text("x")
    (tools.root / "large").write_bytes(b"x\n" * WHOLE_BYTES)
    hops: list[str] = []
    real = asyncio.to_thread

    async def counting(function: Any, *arguments: Any) -> Any:
        hops.append(function.__name__)
        return await real(function, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", counting)
    await tools.call("read", path="small")
    assert hops == []
    await tools.call("read", path="large")
    assert hops == ["_read_any"]
