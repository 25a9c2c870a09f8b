"""File diffs: unified, counted, bounded."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.filesystem.diff import MAX_PATCH_BYTES, FileDiff, file_diff


def test_a_diff_names_the_resource_in_both_headers() -> None:
    """TOL-134: both headers are the resource; the counts are lines."""
    before = b"".join(b"line %d\n" % number for number in range(1, 21))
    after = before.replace(b"line 2\n", b"line two\nline 2.5\n").replace(b"line 19\n", b"")
    assert file_diff("src/a b.py", before, after) == FileDiff(
        file="src/a b.py",
        patch="--- src/a b.py\n+++ src/a b.py\n"
        "@@ -1,5 +1,6 @@\n line 1\n-line 2\n+line two\n+line 2.5\n line 3\n line 4\n line 5\n"
        "@@ -16,5 +17,4 @@\n line 16\n line 17\n line 18\n-line 19\n line 20\n",
        additions=2,
        deletions=2,
        status="modified",
    )


@pytest.mark.parametrize(
    ("before", "after", "status", "patch"),
    [
        (None, b"a\nb\n", "added", "@@ -0,0 +1,2 @@\n+a\n+b\n"),
        (b"a\nb\n", None, "deleted", "@@ -1,2 +0,0 @@\n-a\n-b\n"),
        (b"a", b"a\n", "modified", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (b"a\r\n", b"b\r\n", "modified", "@@ -1 +1 @@\n-a\r\n+b\r\n"),
        (b"a\fb\n", b"a\fc\n", "modified", "@@ -1 +1 @@\n-a\fb\n+a\fc\n"),
        (None, b"", "added", ""),
        (b"x\n", b"x\n", "modified", ""),
    ],
)
def test_only_a_line_feed_ends_a_line_of_a_diff(
    before: bytes | None, after: bytes | None, status: str, patch: str
) -> None:
    """TOL-134, TOL-340: a line ends at a line feed and nowhere else."""
    diff = file_diff("f", before, after)
    assert (diff.status, diff.patch) == (status, "--- f\n+++ f\n" + patch)


def test_bytes_that_are_no_text_have_no_patch() -> None:
    """TOL-134: the record says only what happened."""
    assert msgspec.to_builtins(file_diff("f", b"\0\xff", b"x")) == {
        "file": "f",
        "additions": 0,
        "deletions": 0,
        "status": "modified",
    }


def test_a_patch_that_is_too_large_is_left_out() -> None:
    """TOL-135: the counts stay."""
    line = b"x" * 1023 + b"\n"
    diff = file_diff("f", None, line * 256)
    assert (diff.patch, diff.additions) == (None, 256)
    assert len(file_diff("f", None, line * 255).patch or "") < MAX_PATCH_BYTES + 100


def test_large_files_are_compared_in_time() -> None:
    """TOL-135, TOL-176: many equal lines, all changed; without a bound this takes minutes."""
    before = b"same\n" * 100_000 + b"a\n" * 100_000
    started = time.process_time()
    diff = file_diff("f", before, b"b\n" * 100_000 + b"same\n" * 100_000)
    assert time.process_time() - started < 20
    assert (diff.additions, diff.deletions) == (200_000, 200_000)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n"]), max_size=30)


@settings(max_examples=40, deadline=None)
@given(LINES, LINES, st.booleans(), st.booleans())
def test_git_can_apply_a_diff(
    tmp_path_factory: pytest.TempPathFactory, a: list[bytes], b: list[bytes], x: bool, y: bool
) -> None:
    """TOL-134: the patch turns the one file into the other."""
    before, after = b"".join(a) + b"end" * x, b"".join(b) + b"end" * y
    diff = file_diff("f", before, after)
    if before == after or not before or not after:
        return
    folder: Path = tmp_path_factory.mktemp("apply")
    (folder / "f").write_bytes(before)
    assert diff.patch is not None
    subprocess.run(
        ["git", "apply", "-p0", "--whitespace=nowarn", "-"], input=diff.patch.encode(), cwd=folder, check=True
    )
    assert (folder / "f").read_bytes() == after
