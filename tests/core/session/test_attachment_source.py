"""Lines of a file, and listings of directories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.filesystem.content import MEDIA_BYTES, TEXT_BYTES, Content, Unusable
from holdfast.core.session.attachment_source import ENTRIES, LineRange, Source, parse_address, read_address


def lines(path: Path, query: str) -> str:
    source = read_address(f"{path.as_uri()}?{query}", path.parent, "text/plain")
    assert isinstance(source, Source)
    return source.data.decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree")
    return path


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("start=2&end=2", "two\n"),
        ("start=2", "two\nthree"),
        ("end=2", "one\ntwo\n"),
        ("start=3&end=9", "three\n[the file has 3 lines]"),
        ("start=1&end=3", "one\ntwo\nthree"),
    ],
)
def test_lines_are_counted_from_one_and_inclusive(file: Path, query: str, expected: str) -> None:
    """SES-277."""
    assert lines(file, query) == expected


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("start=4&end=5", "it has 3 lines"),
        ("start=0", "0- is not a range of lines"),
        ("start=3&end=2", "3-2 is not a range of lines"),
        ("start=x", "'x' is not the number of a line"),
        ("start=", "'' is not the number of a line"),
        ("end=" + "9" * 400, "is not the number of a line"),
    ],
)
def test_lines_that_a_file_does_not_have(file: Path, query: str, reason: str) -> None:
    """SES-277."""
    with pytest.raises(Unusable, match=reason):
        lines(file, query)


def test_lines_are_chosen_from_text_only(tmp_path: Path) -> None:
    """SES-277: not from an image, a binary or a directory."""
    binary = tmp_path / "b"
    binary.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\n")
    with pytest.raises(Unusable, match="only from a text file"):
        lines(binary, "start=1")
    with pytest.raises(Unusable, match="it is a directory"):
        lines(tmp_path, "start=1")


def test_lines_far_into_a_large_file(tmp_path: Path) -> None:
    """SES-277: beyond what is attached of a whole file, in any encoding, and no more than that."""
    path = tmp_path / "large.txt"
    path.write_text("".join(f"line {number} ä\n" for number in range(1, 60_001)), encoding="utf-16")
    assert lines(path, "start=59999&end=60000") == "line 59999 ä\nline 60000 ä\n"
    cut = lines(path, "start=2")
    assert TEXT_BYTES - 200 <= len(cut.encode()) <= TEXT_BYTES
    assert cut.splitlines()[-1].startswith("[cut here, in line ")
    path.write_text("ä" * TEXT_BYTES)
    assert len(lines(path, "start=1").encode()) <= TEXT_BYTES


def test_other_queries_and_plain_paths_choose_nothing(tmp_path: Path) -> None:
    """SES-277: a path that is not an address may contain a question mark."""
    assert parse_address("file:///a?b=1", tmp_path).lines is None
    assert parse_address("a?start=1", tmp_path).path == tmp_path / "a?start=1"
    assert parse_address("file:///a?start=1&end=2", tmp_path).lines == LineRange(1, 2)


def test_a_listing_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-275: a directory without end is read no further."""
    read = 0

    class Endless:
        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return self._entries()

        def __exit__(self, *_: object) -> None:
            pass

        def _entries(self) -> Iterator[os.DirEntry[str]]:
            nonlocal read
            (tmp_path / "x").touch()
            with real(tmp_path) as found:
                entry = next(found)
            while True:
                read += 1
                yield entry

    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda handle: Endless())
    listing = read_address(tmp_path.as_uri(), tmp_path, "")
    assert isinstance(listing, Content)
    assert listing.value.splitlines() == ["x"] * ENTRIES + ["[more entries are not shown]"]
    assert read <= ENTRIES + 2


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    """SES-233: its size is enough to refuse it."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(Unusable, match=f"more than {MEDIA_BYTES} bytes"):
        read_address(path.as_uri(), tmp_path, "")
