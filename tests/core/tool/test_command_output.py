"""The output of a command: whole, or head and tail with the rest in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.tool.command_output import (
    BINARY_OUTPUT,
    CAPTURE_LIMIT,
    KEPT_BYTES,
    LEFT_OUT,
    NO_OUTPUT,
    SHOWN_BYTES,
    CommandOutput,
    clean,
)
from holdfast.core.tool.output import OutputStore


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "tool-output", Ids(SystemClock()), SystemClock())


def fed(output: CommandOutput, data: bytes, size: int = 60_000) -> CommandOutput:
    for start in range(0, len(data), size):
        output(data[start : start + size])
    return output


def test_small_command_output_is_kept_whole(store: OutputStore) -> None:
    """TOL-211, TOL-216: up to the limit nothing is cut and no file is written."""
    assert CommandOutput(store).finish() == (NO_OUTPUT, False, None)
    data = b"line\n" * (KEPT_BYTES // 5) + b"x" * (KEPT_BYTES % 5)
    assert fed(CommandOutput(store), data).finish() == (data.decode(), False, None)
    assert not store.directory.exists()


def test_large_output_keeps_head_and_tail_and_a_file(store: OutputStore) -> None:
    """TOL-211, TOL-216: one byte more; every byte is in the file, both ends are in the text, which stays small."""
    data = b"first\n" + b"middle\n" * (KEPT_BYTES // 7) + b"the error at the end\n"
    shown = fed(CommandOutput(store), data).finish()
    assert shown.truncated
    assert shown.path is not None
    assert Path(shown.path).read_bytes() == data
    assert shown.text.startswith("first\nmiddle\n")
    assert shown.text.endswith("middle\nthe error at the end\n")
    assert shown.path in shown.text
    assert CAPTURE_LIMIT not in shown.text
    assert len(shown.text.encode()) < SHOWN_BYTES + 1000
    assert shown.text.count("\n") < 2000


@pytest.mark.parametrize("line", [b"y\n", b"x" * 99 + b"\n"])
def test_omitted_output_is_counted(store: OutputStore, line: bytes) -> None:
    """TOL-216: whether the lines or the bytes of a preview are used up first."""
    data = line * (2 * KEPT_BYTES // len(line))
    shown = fed(CommandOutput(store), data).finish()
    head, marker, tail = shown.text.split("\n\n")
    assert marker == LEFT_OUT.format(size=len(data) - len(head) - len(tail), path=shown.path)


@pytest.mark.parametrize("largest", [None, KEPT_BYTES])
def test_lost_output_is_stated_at_the_end_of_the_text(tmp_path: Path, largest: int | None) -> None:
    """TOL-211, TOL-335: without a file, or with one that reached its own limit, the text ends with that fact."""
    store = None
    if largest is not None:
        store = OutputStore(tmp_path / "tool-output", Ids(SystemClock()), SystemClock(), largest=largest)
    shown = fed(CommandOutput(store), b"a" * KEPT_BYTES + b"lost" * 100_000 + b"the end").finish()
    assert shown.truncated
    assert shown.text.endswith(f"the end\n\n{CAPTURE_LIMIT}")


def test_a_store_that_cannot_write_loses_no_call(tmp_path: Path) -> None:
    """TOL-054, TOL-216: the managed directory is a file; both ends are still there."""
    (tmp_path / "tool-output").write_text("in the way", encoding="utf-8")
    store = OutputStore(tmp_path / "tool-output", Ids(SystemClock()), SystemClock())
    shown = fed(CommandOutput(store), b"begin" + b"x" * 2 * KEPT_BYTES + b"end").finish()
    assert shown.path is None
    assert shown.text.startswith("begin")
    assert shown.text.endswith(f"end\n\n{CAPTURE_LIMIT}")


def test_binary_output_is_summed_up(store: OutputStore) -> None:
    """TOL-217: a zero byte near the beginning; the bytes are in the file. A late one does not count."""
    data = b"\x7fELF\0\1\2" + bytes(range(256))
    shown = fed(CommandOutput(store), data).finish()
    assert shown.text == BINARY_OUTPUT.format(size=len(data))
    assert shown.path is not None
    assert Path(shown.path).read_bytes() == data
    assert fed(CommandOutput(store), b"x" * 9000 + b"\0").finish().path is None


def test_characters_split_between_reads_are_whole(store: OutputStore) -> None:
    """TOL-217: and what is no UTF-8 is replaced, not fatal."""
    text = "héllo wörld 漢字 🙂\n" * 10
    assert fed(CommandOutput(store), text.encode(), size=1).finish().text == text
    assert fed(CommandOutput(store), b"a\xff\xfeb").finish().text == "a��b"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["é", "漢", "🙂", "a漢é🙂"]), st.integers(0, 7))
def test_no_cut_splits_a_character(unit: str, shift: int) -> None:
    """TOL-217: head and tail of a long line are valid wherever the cuts fall."""
    data = b"x" * shift + (unit * (3 * KEPT_BYTES // len(unit.encode()))).encode()
    shown = fed(CommandOutput(), data, size=65_521).finish()
    assert "�" not in shown.text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[1;31mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "xlink\n"),
        ("\x1b[2K\x1b[1Gdone\x1b(B\x1b", "done"),
        ("10%\r50%\r100%\nnext\n", "100%\nnext\n"),
        ("10%\r", "10%"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b[", ""),
        ("\x1b]unfinished\nkept", "unfinished\nkept"),
    ],
)
def test_terminal_codes_are_for_terminals(raw: str, text: str) -> None:
    """TOL-217: escapes go, an overwritten line shows its last state."""
    assert clean(raw) == text


def test_the_newest_output_is_the_last_bytes_in_whole_characters(store: OutputStore) -> None:
    """TOL-227: the last bytes, whatever was before; nothing of a broken character."""
    output = fed(CommandOutput(store), b"x" * 100 + "漢".encode() * 5)
    assert output.last(4) == "漢"
    fed(output, b"y" * 3 * KEPT_BYTES + b"newest")
    assert output.last(8) == "yynewest"
