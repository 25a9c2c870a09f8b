"""Which trees are compared, and how the changes of single calls become those of files."""

from __future__ import annotations

from holdfast.core.filesystem.diff import FileDiff
from holdfast.core.inspect.changes import ChangePlan, ToolStep, _Diffs, joined, plan_of
from holdfast.core.snapshot.snapshot import PATCH_LIMIT
from holdfast.schema.session_message import StepSnapshot


def step(seq: int, start: str | None, end: str | None, *files: str) -> ToolStep:
    return ToolStep(seq, StepSnapshot(start=start, end=end, files=files), ("write",))


def test_the_first_tree_is_compared_with_the_last() -> None:
    """WEB-220: only at paths that steps changed."""
    steps = [step(1, "a", None), step(2, "b", "c", "x"), step(3, "c", "d", "y", "x"), ToolStep(4, None, ("bash",))]
    assert plan_of(steps) == ChangePlan("b", "d", ("x", "y"))
    assert plan_of(steps[:1]) is None


def diff(file: str, status: str, patch: str | None = "+", additions: int = 1) -> FileDiff:
    return FileDiff(file=file, status=status, patch=patch, additions=additions, deletions=0)  # type: ignore[arg-type]


def test_changes_of_one_file_are_added_up() -> None:
    """WEB-221."""
    made, edited, gone = diff("a", "added"), diff("a", "modified", None, 2), diff("b", "deleted")
    files = joined([made, edited, gone, diff("b", "added")])
    assert [(file.path, file.status, file.additions, file.patch) for file in files] == [
        ("a", "added", 3, "+"),
        ("b", "added", 2, "++"),
    ]
    long = diff("a", "modified", "+" * (PATCH_LIMIT - 1))
    assert [len(file.patch) for file in joined([long])] == [PATCH_LIMIT - 1]
    assert [len(file.patch) for file in joined([long, diff("a", "modified", "++")])] == [0]


def test_what_another_tool_of_the_same_name_reports_is_left_out() -> None:
    """WEB-221."""
    assert [_Diffs(text).decoded() for text in ('["a"]', '[{"file": 1}]', "[]")] == [(), (), ()]
