"""The `edit` tool: exact first, then careful, and every other byte as it was."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.tool.cases.edits import EDITS, Edit
from tests.core.tool.tool_support import Asked, FileTools, Recorder

from holdfast.core.tool.builtin import replacement
from holdfast.core.tool.builtin.edit import EMPTY, SAME, STALE
from holdfast.core.tool.builtin.replacement import TextNotMatched, replace
from holdfast.core.tool.tool import ToolFailure

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


@pytest.mark.parametrize("case", EDITS, ids=[case.name for case in EDITS])
async def test_every_edit_of_the_corpus_gives_its_expected_bytes(tools: FileTools, case: Edit) -> None:
    """TOL-163, TOL-166, TOL-167, TOL-168, TOL-171, TOL-172, TOL-173, TOL-174, TOL-321: byte for byte."""
    (tools.root / "f").write_bytes(case.before)
    arguments: dict[str, Any] = {"path": "f", "oldString": case.old, "newString": case.new, **case.options}
    if isinstance(case.after, bytes):
        await tools.call("edit", **arguments)
        assert (tools.root / "f").read_bytes() == case.after
    else:
        assert case.after in await tools.refusal("edit", **arguments)
        assert (tools.root / "f").read_bytes() == case.before
    assert os.listdir(tools.root) == ["f"]


async def test_an_edit_reports_its_diff_and_number_of_replacements(tools: FileTools) -> None:
    """TOL-170, TOL-158: diff and count for consumers, a short preview for the model; the action is `edit`."""
    (tools.root / "sub").mkdir()
    (tools.root / "sub/f").write_bytes(b"a\nb\na\n")
    outcome = await tools.call("edit", path="sub/../sub/f", oldString="a", newString="x", replaceAll=True)
    assert outcome.structured == {
        "files": [
            {
                "file": "sub/f",
                "patch": "--- sub/f\n+++ sub/f\n@@ -1,3 +1,3 @@\n-a\n+x\n b\n-a\n+x\n",
                "additions": 2,
                "deletions": 2,
                "status": "modified",
            }
        ],
        "replacements": 2,
    }
    assert outcome.text == "Edited file successfully: sub/f\nReplacements: 2\n```diff\n-a\n+x\n```"
    assert tools.recorder.asked == [Asked("edit", ("sub/f",), ("sub/f", "*"))]
    assert tools.tool("edit").action == "edit"


async def test_the_preview_of_an_edit_is_short(tools: FileTools) -> None:
    """TOL-170: six lines of each, 240 characters a line."""
    old = "".join(f"{number}\n" for number in range(8)) + "x" * 241
    (tools.root / "f").write_text(old)
    outcome = await tools.call("edit", path="f", oldString=old, newString="y" * 241 + "\nz")
    assert outcome.text.split("\n")[3:] == [
        *(f"-{number}" for number in range(6)),
        "-...",
        "+" + "y" * 240 + "...",
        "+z",
        "```",
    ]


async def test_an_edit_by_approximate_match_says_so(tools: FileTools) -> None:
    """TOL-174: the model learns that its text was not there as such."""
    (tools.root / "f").write_text("    a = 1\n")
    outcome = await tools.call("edit", path="f", oldString="a  = 1", newString="a = 2")
    assert "ignoring the amount of whitespace" in outcome.text
    assert outcome.structured["matched"] == "ignoring the amount of whitespace"


async def test_a_failed_edit_shows_at_most_three_closest_lines(tools: FileTools) -> None:
    """TOL-175: at most three, with their numbers, and only after the approval."""
    (tools.root / "f").write_text("".join(f"value_{number} = compute(x)\n" for number in range(9)))
    refusal = await tools.refusal("edit", path="f", oldString="value_3 = comptue(x)", newString="y")
    assert re.findall(r"^(\d+): (.*)$", refusal, re.M)[0] == ("4", "value_3 = compute(x)")
    assert refusal.count("\n") == 3
    tools.recorder = Recorder("edit")
    assert "value" not in await tools.refusal("edit", path="f", oldString="value_3 = comptue(x)", newString="y")


async def test_several_approximate_matches_are_listed(tools: FileTools) -> None:
    """TOL-174: up to five lines."""
    (tools.root / "f").write_text("  a\n\n" * 8)
    assert "at lines 1, 3, 5, 7, 9;" in await tools.refusal("edit", path="f", oldString="\ta\n", newString="b")


async def test_an_invalid_edit_is_refused_before_anybody_is_asked(tools: FileTools) -> None:
    """TOL-164: nobody is asked, and the path is not even looked at."""
    assert await tools.refusal("edit", path="../x", oldString="a", newString="a") == SAME
    assert await tools.refusal("edit", path="../x", oldString="", newString="a") == EMPTY
    assert tools.recorder.asked == []


async def test_the_edit_tool_has_these_parameters(tools: FileTools) -> None:
    """TOL-163."""
    schema = msgspec.json.schema(tools.tool("edit").input)["$defs"]["EditInput"]
    assert set(schema["properties"]) == {"path", "oldString", "newString", "replaceAll"}
    assert schema["required"] == ["path", "oldString", "newString"]


async def test_a_denied_edit_reads_nothing(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-165, TOL-329, TOL-104: outside first, then the edit; a denied agent learns nothing, for nothing is read."""
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    await tools.call("edit", path=str(outside / "f"), oldString="secret", newString="x")
    assert tools.recorder.asked == [
        Asked("external_directory", (f"{outside}/*",), (f"{outside}/*",)),
        Asked("edit", (str(outside / "f"),), (str(outside / "f"), "*")),
    ]
    monkeypatch.setattr("holdfast.core.tool.builtin.edit.read_file", lambda *arguments: pytest.fail("it was read"))
    (tools.root / "f").write_text("text")
    for denied, path in (("edit", "f"), ("edit", "missing"), ("external_directory", str(outside / "f"))):
        tools.recorder = Recorder(denied)
        texts = {await tools.refusal("edit", path=path, oldString=old, newString="y") for old in ("text", "nothing")}
        assert len(texts) == 1
        assert "Permission denied" in texts.pop()
        assert tools.recorder.actions == [denied, denied]


async def test_an_edit_keeps_changes_made_during_the_approval(tools: FileTools) -> None:
    """TOL-169, TOL-127: newer content stays, whether it came before the read or after it."""
    path = tools.root / "f"
    path.write_text("old text\n")
    tools.recorder = Recorder(meanwhile=lambda: path.write_text("newer text\n"))
    await tools.call("edit", path="f", oldString="text", newString="x")
    assert path.read_text() == "newer x\n"


async def test_an_edit_fails_if_the_file_changed_after_the_read(
    tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-169: conditional on every byte that was read."""
    path = tools.root / "f"
    path.write_text("old text\n")

    def racing(*arguments: Any, **options: Any) -> Any:
        path.write_text("someone else's text\n")
        return replace(*arguments, **options)

    monkeypatch.setattr(replacement, "replace", racing)
    assert await tools.refusal("edit", path="f", oldString="text", newString="x") == STALE
    assert path.read_text() == "someone else's text\n"


async def test_two_edits_of_one_file_at_once(tools: FileTools) -> None:
    """TOL-127, TOL-123: no change is lost: each either happened or says that it did not."""
    words = [f"word{number}" for number in range(8)]
    (tools.root / "f").write_text(" ".join(words))
    outcomes = await asyncio.gather(
        *(tools.call("edit", path="f", oldString=word, newString=word.upper()) for word in words),
        return_exceptions=True,
    )
    for word, outcome in zip(words, outcomes, strict=True):
        done = not isinstance(outcome, ToolFailure)
        assert (word.upper() if done else word) in (tools.root / "f").read_text().split()


@pytest.mark.parametrize(("path", "why"), [("missing", "does not exist"), ("folder", "directory"), ("pipe", "pipe")])
async def test_editing_what_is_no_file_fails_after_the_approval(tools: FileTools, path: str, why: str) -> None:
    """TOL-165: said after the approval."""
    (tools.root / "folder").mkdir()
    os.mkfifo(tools.root / "pipe")
    refusal = await tools.refusal("edit", path=path, oldString="a", newString="b")
    assert refusal.startswith(f"Unable to edit {path}: ")
    assert why in refusal
    assert tools.recorder.actions == ["edit"]


async def test_a_file_above_ten_mebibytes_is_not_edited(tools: FileTools) -> None:
    """TOL-176: refused above ten mebibytes; below, the worst text is searched in time."""
    with (tools.root / "f").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    assert "larger than 10485760 bytes" in await tools.refusal("edit", path="f", oldString="a", newString="b")


@pytest.mark.parametrize("old", ["a" * 3000 + "b", "a\n" * 3000 + "b\n", " a\n" * 3000 + "b", "a\nx\nb"])
def test_matching_takes_linear_time(old: str) -> None:
    """TOL-176: repetition in file and text; a quadratic search would take minutes here."""
    with pytest.raises(TextNotMatched):
        replace("a\n" * 150_000 + "a" * 300_000, old, "x")


LINES = st.lists(st.sampled_from(["a", "  b", "c  ", "", "\td", "é"]), min_size=1, max_size=8)
ENDS = st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8)


@settings(max_examples=100, deadline=None)
@given(LINES, ENDS, st.integers(0, 7), st.integers(1, 3))
def test_text_outside_the_edit_keeps_its_bytes(lines: list[str], ends: list[str], first: int, count: int) -> None:
    """TOL-171: whatever the mixture of line ends, and however the region was found."""
    lines = [f"{number}{line}" for number, line in enumerate(lines)]
    first = min(first, len(lines) - 1)
    last = min(first + count, len(lines))
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    old = "\n".join(lines[first:last])
    replaced = replace("".join(whole), old, "NEW\nLINES").content
    ending = ends[first]
    assert replaced == "".join(whole[:first]) + f"NEW{ending}LINES" + ends[last - 1] + "".join(whole[last:])


async def test_the_stale_guard_accepts_own_changes(root: Path) -> None:
    """TOL-162: what the Session itself edited is what it knows."""
    tools = FileTools(root, stale_guard=True)
    (root / "f").write_text("a")
    await tools.call("read", path="f")
    await tools.call("edit", path="f", oldString="a", newString="b")
    await tools.call("write", path="f", content="c")
    assert (root / "f").read_text() == "c"
