"""Model Tool Output: what fits, what a preview is, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import Clock, Ids
from holdfast.core.config.config import load_config
from holdfast.core.location.settings import output_limits
from holdfast.core.tool.output import (
    FILE_CUT,
    RETENTION_SECONDS,
    SWEEP_SECONDS,
    ManagedFile,
    OutputNotSaved,
    OutputStore,
    SavedOutput,
    bound,
)
from holdfast.core.tool.preview import (
    BLOCK,
    LOST,
    PARTLY_SAVED,
    SAVED,
    OutputLimits,
    Sample,
    blocks,
    bounded_text,
    fits,
    pretty,
    preview,
    sample,
)
from holdfast.core.tool.tool import CallOutput
from holdfast.schema.session_message import FileContent, TextContent

pytestmark = pytest.mark.anyio

SMALL = OutputLimits(max_lines=8, max_bytes=400)


@pytest.fixture
def store(tmp_path: Path, ids: Ids, clock: Clock) -> OutputStore:
    return OutputStore(tmp_path / "data" / "tool-output", ids, clock)


def text(*parts: str) -> CallOutput:
    return CallOutput({}, tuple(TextContent(text=part) for part in parts))


def shown(output: CallOutput) -> str:
    assert isinstance(output.content[0], TextContent)
    return output.content[0].text


def cut(whole: str, limits: OutputLimits, marker: str = LOST) -> str:
    return preview(sample([whole], limits), limits, marker)


def names(store: OutputStore) -> list[str]:
    return sorted(os.listdir(store.directory)) if store.directory.exists() else []


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("globally", "here", "expected"),
    [
        ("{}", "{}", (2000, 51200)),
        ('{"tool_output": {"max_lines": 5}}', "{}", (5, 51200)),
        ('{"tool_output": {"max_lines": 5, "max_bytes": 9}}', '{"tool_output": {"max_bytes": 7}}', (5, 7)),
        ("{}", '{"tool_output": {"max_lines": 0, "max_bytes": -1}}', (2000, 51200)),
        ("{}", '{"tool_output": {"max_lines": true, "max_bytes": "many"}}', (2000, 51200)),
        ("{}", '{"tool_output": "lots"}', (2000, 51200)),
        ("{}", '{"tool_output": {"max_words": 3}}', (2000, 51200)),
        ("{", '{"tool_output": {"max_lines": 5}', (2000, 51200)),
    ],
)
def test_limits_come_from_the_last_document_that_sets_them(
    tmp_path: Path, globally: str, here: str, expected: tuple[int, int]
) -> None:
    """TOL-041: each key for itself, positive integers only, defaults for what cannot be read."""
    project, home = tmp_path / "project", tmp_path / "config"
    project.mkdir()
    home.mkdir()
    (home / "opencode.json").write_text(globally)
    (project / "opencode.json").write_text(here)
    config = load_config(project, project, {"OPENCODE_CONFIG_DIR": str(home), "HOME": str(tmp_path)})
    assert output_limits(config) == OutputLimits(*expected)


@pytest.mark.parametrize(
    ("output", "whole"),
    [
        (text(""), True),
        (text("a\n" * 7), True),
        (text("a\n" * 8), False),
        (text("x" * 400), True),
        (text("x" * 401), False),
        (text("é" * 200), True),
        (text("é" * 200 + "x"), False),
        (text("x" * 200, "x" * 200), True),
        (text("a\n" * 4, "b\n" * 3), True),
        (text("a\n" * 4, "b\n" * 4), False),
        (CallOutput({"a": "x" * 383}), True),
        (CallOutput({"a": "x" * 388}), False),
        (CallOutput({"a": "é" * 190}), True),
        (CallOutput({"a": [1, 2, 3]}), True),
        (CallOutput({"a": [1, 2, 3, 4, 5]}), False),
    ],
)
async def test_at_exactly_a_limit_nothing_changes(output: CallOutput, whole: bool) -> None:
    """TOL-042, TOL-043, TOL-044, TOL-337, TOL-345: text parts count as one text without separators, a value without
    content as its JSON, indented by two and not escaped; the first limit reached applies."""
    bounded = await bound(output, SMALL, None)
    assert (bounded == output) is whole
    assert fits([shown(bounded)] if bounded.content else pretty(bounded.structured), SMALL)


async def test_structured_is_not_counted_beside_content() -> None:
    """TOL-043: not even looked at, so it may be anything."""
    output = CallOutput({"value": object(), "copy": "x" * 1000}, (TextContent(text="short"),))
    assert await bound(output, SMALL, None) == output


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    )
)
@example(list(range(600)))
@example({str(number): number if number % 7 else [number] for number in range(600)})
@example(["x" * 2000, {"a\nb": "\n" * 70_000}, [], {}, [[]]])
def test_json_is_printed_as_two_spaces_and_unescaped(value: Any) -> None:
    """TOL-345, TOL-056: the same as a printer that holds the whole."""
    assert "".join(pretty(value)) == msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


# -- the preview -----------------------------------------------------------------------------------------------------

ALPHABET = st.sampled_from(
    [*"ab\n\n\r", "é", "漢", "😀", "\u0301", "\u200d", "🇩", "\x1b[31m", "\x1b", "[", "\ud800", "... "]
)
TEXTS = st.lists(ALPHABET, min_size=20, max_size=300).map("".join)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 40), st.integers(1, 260), st.sampled_from([LOST, SAVED.format(path="/d/tool_1")]))
def test_the_laws_of_a_preview(whole: str, max_lines: int, max_bytes: int, marker: str) -> None:
    """TOL-050, TOL-051, TOL-052: both limits are kept, it is valid UTF-8, and except for a bare marker it begins with
    a prefix and ends with a suffix of the text."""
    limits = OutputLimits(max_lines, max_bytes)
    scrubbed = whole.replace("\ud800", "\ufffd")
    if fits([whole], limits):
        assert bounded_text(whole, limits) == scrubbed
        return
    result = cut(whole, limits, marker)
    assert len(result.encode()) <= max_bytes
    assert result.count("\n") + 1 <= max_lines
    if max_lines <= 4 or max_bytes <= len(marker) + 4:
        assert marker.startswith(result)
        return
    head, _, tail = result.partition(f"\n\n{marker}")
    assert scrubbed.startswith(head)
    assert scrubbed.endswith(tail.removeprefix("\n\n"))


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.sampled_from("ab\n漢"), min_size=60, max_size=400),
    st.integers(5, 30),
    st.integers(len(LOST) + 5, 200),
)
def test_head_and_tail_are_the_longest_that_fit(whole: str, max_lines: int, max_bytes: int) -> None:
    """TOL-048, TOL-049: the larger half of lines and bytes goes to the head; bytes count only when the lines that were
    taken are still too long."""
    limits = OutputLimits(max_lines, max_bytes)
    if fits([whole], limits):
        assert bounded_text(whole, limits) == whole
        return
    lines, room = max_lines - 4, max_bytes - len(LOST) - 4
    split = whole.split("\n")
    head = tail = whole
    if len(split) > lines:
        head, tail = "\n".join(split[: (lines + 1) // 2]), "\n".join(split[len(split) - lines // 2 :])
    if len(split) <= lines or len(head.encode()) + len(tail.encode()) > room:
        head = next(head[:at] for at in range(len(head), -1, -1) if len(head[:at].encode()) <= (room + 1) // 2)
        tail = next(tail[at:] for at in range(len(tail) + 1) if len(tail[at:].encode()) <= room // 2)
    assert cut(whole, limits) == (f"{head}\n\n{LOST}\n\n{tail}" if tail else f"{head}\n\n{LOST}")


def test_a_preview_has_head_marker_and_tail() -> None:
    """TOL-048, TOL-049: head, blank line, marker, blank line, tail; and without a tail when there is room for none."""
    numbers = "\n".join(map(str, range(100)))
    assert cut(numbers, OutputLimits(9, 400), "M") == "0\n1\n2\n\nM\n\n98\n99"
    assert cut(numbers, OutputLimits(5, 400), "M") == "0\n\nM"
    assert cut("x" * 500, OutputLimits(9, 20), "M") == "xxxxxxxx\n\nM\n\nxxxxxxx"
    assert cut(numbers, OutputLimits(4, 400), "M") == "M"
    assert cut(numbers, OutputLimits(9, 3), "MARK") == "MAR"


# room: max_bytes - 4 - one byte of marker, half of it for the head
@pytest.mark.parametrize(
    ("whole", "max_bytes", "head", "tail"),
    [
        ("a" * 7 + "\r\n" + "b" * 50, 21, "a" * 7, "b" * 8),
        ("b" * 50 + "\r\n" + "a" * 7, 21, "b" * 8, "a" * 7),
        ("aaaaa" + "e\u0301" + "b" * 50, 17, "aaaaa", "b" * 6),
        ("b" * 50 + "e\u0301" + "aaaaa", 19, "b" * 7, "aaaaa"),
        ("👩\u200d👩\u200d👧" + "b" * 50, 41, "👩\u200d👩\u200d👧", "b" * 18),
        ("a👩\u200d👩\u200d👧" + "b" * 50, 37, "a", "b" * 16),
        ("🇩🇪🇫🇷" + "b" * 50, 29, "🇩🇪", "b" * 12),
        ("👍🏽" + "b" * 50, 17, "", "b" * 6),
        ("red\x1b[31mtext" + "b" * 50, 17, "red", "b" * 6),
        ("b" * 50 + "\x1b[31mtext", 19, "b" * 7, "text"),
        ("red\x1b]0;title\x07" + "b" * 50, 21, "red", "b" * 8),
        ("漢" * 50, 17, "漢漢", "漢漢"),
        ("😀" * 50, 12, "😀", ""),
    ],
)
def test_a_preview_cuts_no_character_cluster_or_escape(whole: str, max_bytes: int, head: str, tail: str) -> None:
    """TOL-051, TOL-052: line ends, accents, emoji of several code points, flags and terminal escapes."""
    expected = f"{head}\n\nM\n\n{tail}" if tail else f"{head}\n\nM"
    assert cut(whole, OutputLimits(100, max_bytes), "M") == expected


def test_an_endless_cluster_is_cut_all_the_same() -> None:
    """TOL-052: only as far as it is avoidable; a text of accents alone still has a head."""
    assert len(cut("e" + "\u0301" * 5000, OutputLimits(100, 2000), "M")) > 900


def test_a_line_cut_takes_the_whole_line_end() -> None:
    """TOL-052: no half of a CRLF stays at the end of the head."""
    assert cut("a\r\nb\r\n" * 20, OutputLimits(6, 400), "M") == "a\n\nM"


async def test_lone_surrogates_become_replacement_characters() -> None:
    """TOL-052: in what fits and in what does not, so that encoding cannot fail."""
    assert shown(await bound(text("a\ud800b"), SMALL, None)) == "a\ufffdb"
    assert shown(await bound(text("\udfff" * 1000), SMALL, None)).startswith("\ufffd")
    assert shown(await bound(CallOutput({"a": "\ud800" * 1000}), SMALL, None)).startswith('{\n  "a": "\ufffd')


def test_blocks_are_the_same_text() -> None:
    """TOL-053: whatever the pieces, blocks are neither tiny nor huge."""
    pieces = ["x" * 200_000, "", *("yz" * 10 for _ in range(20_000)), "é" * 70_000, "end"]
    found = list(blocks(pieces))
    assert "".join(found) == "".join(pieces)
    assert all(64 * 1024 <= len(block) < 128 * 1024 for block in found[:-1])


@pytest.mark.parametrize("unit", ["x" * 1000, "\n" * 1000, "漢字\n" * 200])
async def test_memory_does_not_grow_with_the_output(store: OutputStore, unit: str) -> None:
    """TOL-053, TOL-323: a long line, empty lines, wide characters: a few blocks and no copy of the text."""
    output = text(unit * 8000)
    tracemalloc.start()
    try:
        bounded = await bound(output, OutputLimits(), store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 1024 * 1024
    assert fits([shown(bounded)], OutputLimits())
    assert Path(bounded.output_paths[0]).stat().st_size == len(unit.encode()) * 8000


@pytest.mark.parametrize("value", [{f"key{index}": index for index in range(30_000)}, {"long": ["x" * 8_000_000]}])
async def test_a_large_value_is_streamed(store: OutputStore, value: dict[str, Any]) -> None:
    """TOL-323, TOL-056: the model sees a preview, consumers all of it, and the file is the same value."""
    tracemalloc.start()
    try:
        bounded = await bound(CallOutput(value), OutputLimits(), store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 1024 * 1024
    assert bounded.structured is value
    assert msgspec.json.decode(Path(bounded.output_paths[0]).read_bytes()) == value
    assert fits([shown(bounded)], OutputLimits())


@pytest.mark.parametrize("rest", [1, 100, 30_000])
def test_a_long_text_whose_last_block_is_short_has_a_whole_tail(rest: int) -> None:
    """TOL-048, TOL-049: texts are read in blocks; the tail may begin in one and end in the next."""
    whole = "".join(f"{number:09} " for number in range((2 * BLOCK + rest) // 10 + 1))[: 2 * BLOCK + rest]
    limits = OutputLimits()
    room = limits.max_bytes - 4 - len(LOST)
    assert len(list(blocks([whole]))[-1]) == rest
    head, tail = cut(whole, limits).split(f"\n\n{LOST}\n\n")
    assert (len(head), len(tail)) == ((room + 1) // 2, room // 2)
    assert whole.startswith(head)
    assert whole.endswith(tail)


# -- managed files ---------------------------------------------------------------------------------------------------


async def test_text_that_did_not_fit_is_in_a_managed_file(store: OutputStore) -> None:
    """TOL-045, TOL-046, TOL-058, TOL-059, TOL-336: the whole text without separators; media untouched and unmeasured;
    structured as it was, without any path."""
    media = FileContent(uri="data:image/png;base64," + "A" * 8_000_000, mime="image/png")
    parts = (TextContent(text="one\n" * 5), media, TextContent(text="two\n" * 5))
    first = await bound(CallOutput({"rows": 10}, parts, ("/own",)), SMALL, store)
    second = await bound(CallOutput({"rows": 10}, parts), SMALL, store)
    [name, other] = names(store)
    path = store.directory / name
    assert name.startswith("tool_")
    assert name < other
    assert path.is_absolute()
    assert path.read_text() == "one\n" * 5 + "two\n" * 5
    expected = f"one\none\n\n{SAVED.format(path=path)}\n\ntwo\n"
    assert first == CallOutput({"rows": 10}, (TextContent(text=expected), media), ("/own", str(path)))
    assert second.output_paths == (str(store.directory / other),)


async def test_a_path_is_listed_once(store: OutputStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-058: the tool's own paths first, duplicates removed."""
    known = str(store.directory / "tool_known")
    monkeypatch.setattr(store._ids, "of", lambda prefix: "tool_known")
    bounded = await bound(CallOutput({}, text("x" * 500).content, ("/own", known, "/own")), SMALL, store)
    assert bounded.output_paths == ("/own", known)


async def test_only_the_owner_can_read(store: OutputStore) -> None:
    """TOL-047, TOL-328: whatever the mask says."""
    before = os.umask(0)
    try:
        bounded = await bound(text("x" * 500), SMALL, store)
    finally:
        os.umask(before)
    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert Path(bounded.output_paths[0]).stat().st_mode & 0o777 == 0o600


def test_a_file_has_its_name_only_when_it_is_complete(store: OutputStore) -> None:
    """TOL-047: until then it is no managed file, and leaving it half done removes it."""
    with store.open_managed() as file:
        file.write(b"half")
        assert not file.path.exists()
        [unfinished] = names(store)
        assert not store.is_managed(store.directory / unfinished)
    assert names(store) == []
    with store.open_managed() as file:
        file.write(b"whole")
        assert file.keep() == SavedOutput(file.path, True)
    assert file.path.read_bytes() == b"whole"
    assert names(store) == [file.path.name]


def test_an_existing_name_is_never_overwritten(store: OutputStore, caplog: pytest.LogCaptureFixture) -> None:
    """TOL-046, TOL-055: the older file stays, the newer output is lost with a diagnostic."""
    with store.open_managed() as file:
        file.write(b"new")
        file.path.write_bytes(b"old")
        assert file.keep() is None
    assert file.path.read_bytes() == b"old"
    assert names(store) == [file.path.name]
    assert "Failed to write tool output" in caplog.text


async def test_without_a_file_the_success_stays(
    tmp_path: Path, ids: Ids, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-054, TOL-055: a lossy marker, no path, and a diagnostic that the model does not see."""
    (tmp_path / "data").write_text("in the way")
    store = OutputStore(tmp_path / "data" / "tool-output", ids, clock)
    bounded = await bound(CallOutput({"a": 1}, text("x" * 500).content, ("/own",)), SMALL, store)
    assert bounded.structured == {"a": 1}
    assert f"\n\n{LOST}\n\n" in shown(bounded)
    assert bounded.output_paths == ("/own",)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.args is not None
    [diagnostic] = record.args
    assert isinstance(diagnostic, OutputNotSaved)
    assert diagnostic.operation == "write"
    assert str(diagnostic) == f"Failed to write tool output: {diagnostic.cause}"
    assert str(diagnostic.cause) not in shown(bounded)


async def test_a_full_disk_is_a_lossy_success(store: OutputStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-054: also when it fills up in the middle; nothing half written stays."""
    written = 0
    real = os.write

    def write(handle: int, data: bytes) -> int:
        nonlocal written
        if written:
            raise OSError(28, "No space left on device")
        written += 1
        return real(handle, data[:100])

    monkeypatch.setattr("holdfast.core.tool.output.os.write", write)
    bounded = await bound(text("x" * 500_000), SMALL, store)
    monkeypatch.undo()
    assert LOST in shown(bounded)
    assert bounded.output_paths == ()
    assert names(store) == []


async def test_a_write_that_takes_too_long_is_given_up(
    tmp_path: Path, ids: Ids, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-062, TOL-054: the settlement does not wait for it, and it leaves nothing behind."""
    store = OutputStore(tmp_path / "out", ids, clock, deadline=0)
    bounded = await bound(text("x" * 500_000), SMALL, store)
    assert LOST in shown(bounded)
    assert bounded.output_paths == ()
    assert "not done after" in caplog.text
    await asyncio.wait(list(store._late))
    assert names(store) == []


async def test_a_write_that_was_given_up_stops(tmp_path: Path, ids: Ids, clock: Clock) -> None:
    """TOL-062: at its next block, and removes what it wrote."""
    store, go, taken = OutputStore(tmp_path / "out", ids, clock, deadline=0), threading.Event(), list[int]()

    def pieces() -> Iterator[str]:
        for number in range(10):
            taken.append(number)
            yield "x" * BLOCK
            go.wait(10)

    assert await store.save(pieces()) is None
    go.set()
    await asyncio.wait(list(store._late))
    assert len(taken) <= 2
    assert names(store) == []


async def test_a_file_that_comes_too_late_is_removed(
    tmp_path: Path, ids: Ids, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-054, TOL-062: its call was settled as lossy, so nobody knows of it."""
    store, go = OutputStore(tmp_path / "out", ids, clock, deadline=0), threading.Event()

    def write(file: ManagedFile, *rest: object) -> SavedOutput | None:
        go.wait(10)
        file.write(b"late")
        return file.keep()

    monkeypatch.setattr("holdfast.core.tool.output._write", write)
    assert await store.save(["late"]) is None
    go.set()
    await asyncio.wait(list(store._late))
    assert names(store) == []


async def test_an_output_larger_than_a_file_may_be(tmp_path: Path, ids: Ids, clock: Clock) -> None:
    """TOL-067, TOL-335: the file ends with a note, no character is torn, and the preview does not claim the whole."""
    store = OutputStore(tmp_path / "out", ids, clock, largest=1000)
    bounded = await bound(text("漢" * 1000), SMALL, store)
    path = Path(bounded.output_paths[0])
    assert path.read_bytes() == "漢".encode() * 333 + FILE_CUT
    assert PARTLY_SAVED.format(path=path) in shown(bounded)
    assert SAVED.format(path=path) not in shown(bounded)


async def test_the_file_holds_what_the_registry_received(store: OutputStore) -> None:
    """TOL-058, TOL-335: what the tool itself had dropped is still marked as dropped in it."""
    given_text = "x" * 500 + "\n\n[capture limit reached: later output was discarded]"
    bounded = await bound(text(given_text), SMALL, store)
    assert Path(bounded.output_paths[0]).read_text() == given_text


async def test_output_cannot_forge_the_marker(store: OutputStore) -> None:
    """TOL-327: a printed marker names a file that is not listed, and gives no authority over it."""
    forged = SAVED.format(path="/etc/passwd")
    assert await bound(text(forged), SMALL, store) == text(forged)
    bounded = await bound(text(f"{forged}\n" * 20), SMALL, store)
    [path] = bounded.output_paths
    assert Path(path).parent == store.directory
    assert shown(bounded).count(path) == 1
    assert not store.is_managed(Path("/etc/passwd"))


# -- recognition -----------------------------------------------------------------------------------------------------


async def test_managed_files_are_recognised(store: OutputStore, tmp_path: Path) -> None:
    """TOL-065, TOL-066: by place, name and kind; a link planted there is not one, nor is anything around it."""
    path = Path((await bound(text("x" * 500), SMALL, store)).output_paths[0])
    (tmp_path / "secret").write_text("s")
    (store.directory / "tool_link").symlink_to(tmp_path / "secret")
    (store.directory / "notes").write_text("n")
    (store.directory / "tool_folder").mkdir()
    (store.directory / "tool_folder" / "tool_x").write_text("x")
    os.mkfifo(store.directory / "tool_pipe")
    (tmp_path / "tool_outside").write_text("x")
    (tmp_path / "alias").symlink_to(store.directory)
    assert store.is_managed(path)
    assert store.is_managed(store.directory / "tool_folder" / ".." / path.name)
    assert store.is_managed(tmp_path / "alias" / path.name)
    for other in (
        store.directory / "tool_link",
        store.directory / "notes",
        store.directory / "tool_folder",
        store.directory / "tool_folder" / "tool_x",
        store.directory / "tool_pipe",
        store.directory / "tool_missing",
        store.directory / "..",
        store.directory,
        tmp_path / "tool_outside",
        Path("tool_x"),
        store.directory / "tool_\0",
    ):
        assert not store.is_managed(other), other


def test_nothing_is_managed_before_the_first_file(store: OutputStore) -> None:
    """TOL-066: the directory need not exist."""
    assert not store.is_managed(store.directory / "tool_1")


# -- retention -------------------------------------------------------------------------------------------------------


def put(store: OutputStore, name: str, *, age: float, size: int = 1) -> Path:
    """Age in seconds on the test's clock."""
    store.directory.mkdir(parents=True, exist_ok=True)
    path = store.directory / name
    path.write_bytes(b"x" * size)
    when = store._clock.now() / 1000 - age
    os.utime(path, (when, when))
    return path


def test_old_files_are_swept(store: OutputStore) -> None:
    """TOL-063: after seven days by modification time; only ours, also those that a dead process left unfinished."""
    put(store, "tool_old", age=RETENTION_SECONDS + 1)
    put(store, "tool_dead.part", age=RETENTION_SECONDS + 1)
    put(store, "tool_young", age=RETENTION_SECONDS - 1)
    put(store, "other", age=RETENTION_SECONDS + 1)
    (store.directory / "tool_folder").mkdir()
    os.utime(store.directory / "tool_folder", (0, 0))
    store.sweep()
    assert names(store) == ["other", "tool_folder", "tool_young"]
    assert RETENTION_SECONDS == 7 * 24 * 3600


def test_a_sweep_ignores_a_directory_that_cannot_be_read(store: OutputStore) -> None:
    """TOL-063: what cannot be read is ignored."""
    store.sweep()
    assert names(store) == []


async def test_the_sweep_runs_at_start_and_every_hour(store: OutputStore) -> None:
    """TOL-063."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        assert "tool_old" not in names(store)
        slept.append(seconds)
        if len(slept) == 2:
            raise asyncio.CancelledError
        put(store, "tool_old", age=RETENTION_SECONDS + 1)

    put(store, "tool_old", age=RETENTION_SECONDS + 1)
    with pytest.raises(asyncio.CancelledError):
        await store.sweep_hourly(sleep)
    assert slept == [SWEEP_SECONDS, SWEEP_SECONDS] == [3600, 3600]


async def test_over_the_quota_the_oldest_go_first(tmp_path: Path, ids: Ids, clock: Clock) -> None:
    """TOL-067: at each new file, and never the new one itself, nor one that somebody is still writing."""
    store = OutputStore(tmp_path / "out", ids, clock, quota=2500)
    put(store, "tool_a", age=-1, size=1000)
    put(store, "tool_b", age=100, size=1000)
    put(store, "other", age=1000, size=9000)
    put(store, "tool_c.part", age=1000, size=100)
    kept: list[str] = []
    for _ in range(2):
        [path] = (await bound(text("x" * 1000), SMALL, store)).output_paths
        os.utime(path, (clock.now() / 1000 + 10 + len(kept),) * 2)
        kept.append(Path(path).name)
    assert names(store) == sorted(["other", "tool_c.part", *kept])


async def test_the_record_outlives_its_file(store: OutputStore) -> None:
    """TOL-064: the preview does not need it, and a missing file is no managed one."""
    bounded = await bound(text("x" * 500), SMALL, store)
    path = Path(bounded.output_paths[0])
    path.unlink()
    assert shown(bounded).startswith("x")
    assert not store.is_managed(path)


def test_a_sample_is_two_windows() -> None:
    """TOL-053: whatever comes between them."""
    limits = OutputLimits(10, 5)
    assert sample(["abcdefg", "\n" * 100_000, "tuvwxyz"], limits) == Sample("abcde", "vwxyz", 100_001)
    assert sample(["abc", "d"], limits) == Sample("abcd", "abcd", 1)
