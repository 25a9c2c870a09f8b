"""The `apply_patch` tool: parsed, approved and rehearsed as a whole, then applied in order."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.cases.edits import EDITS
from tests.core.tool.cases.patches import PATCHES, Files, Patch
from tests.core.tool.tool_support import Asked, FileTools, Recorder, tree

from holdfast.core.tool.builtin import apply_patch
from holdfast.core.tool.builtin.apply_patch import MAX_CHUNKS, MAX_OPERATIONS, MAX_PATCH_BYTES, NO_MOVES, REQUIRED

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def lay(root: Path, files: Files) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def found(root: Path) -> Files:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("atomic", [False, True], ids=["in order", "together"])
@pytest.mark.parametrize("case", PATCHES, ids=[case.name for case in PATCHES])
async def test_every_patch_of_the_corpus_gives_its_expected_bytes(root: Path, case: Patch, atomic: bool) -> None:
    """TOL-178 … 190, TOL-193, TOL-194, TOL-195, TOL-200, TOL-201, TOL-350: byte for byte, in both modes."""
    tools = FileTools(root, patch_atomic=atomic)
    lay(root, case.before)
    if isinstance(case.after, str):
        assert case.after in await tools.refusal("apply_patch", patchText=case.text)
        assert found(root) == case.before
    else:
        await tools.call("apply_patch", patchText=case.text)
        assert found(root) == case.after


def test_the_corpora_are_large() -> None:
    """TOL-173, TOL-185: hundreds of cases, each with its own name."""
    names = [case.name for case in EDITS], [case.name for case in PATCHES]
    assert len(names[0]) + len(names[1]) >= 150
    assert all(len(set(part)) == len(part) for part in names)


async def test_a_patch_reports_every_operation_with_its_diff(tools: FileTools) -> None:
    """TOL-198, TOL-193, TOL-134: every operation with its diff; one line each for the model."""
    lay(tools.root, {"m": b"a\nb\n", "d": b"d\n", "old": b"x\n"})
    body = ["*** Add File: a", "+a", "*** Update File: m", "@@", "-b", "+B", "*** Delete File: d"]
    outcome = await tools.call(
        "apply_patch", patchText=patch(*body, "*** Update File: old", "*** Move to: sub/new", "@@", "-x", "+y")
    )
    assert outcome.structured["applied"] == [
        {"type": "add", "resource": "a", "target": str(tools.root / "a")},
        {"type": "update", "resource": "m", "target": str(tools.root / "m")},
        {"type": "delete", "resource": "d", "target": str(tools.root / "d")},
        {"type": "move", "resource": "sub/new", "target": str(tools.root / "sub/new"), "from": "old"},
    ]
    assert [
        (diff["file"], diff["status"], diff["additions"], diff["deletions"]) for diff in outcome.structured["files"]
    ] == [
        ("a", "added", 1, 0),
        ("m", "modified", 1, 1),
        ("d", "deleted", 0, 1),
        ("sub/new", "modified", 1, 1),
    ]
    assert outcome.text == "Applied patch sequentially:\nA a\nM m\nD d\nR old -> sub/new"


async def test_a_patch_asks_once_for_all_its_files(tools: FileTools) -> None:
    """TOL-191, TOL-158, TOL-505: each outside directory once, `read` for what moves, one `edit` with every resource."""
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"a\n")
    (tools.root / "g").write_bytes(b"a\n")
    (tools.root / "link").symlink_to("g")
    text = patch(
        f"*** Update File: {outside}/f", "@@", "-a", "+b",
        f"*** Add File: {outside}/new", "+x",
        "*** Update File: link", "*** Move to: h", "@@", "-a", "+b",
        "*** Add File: ./h2/../g2", "+x",
    )  # fmt: skip
    await tools.call("apply_patch", patchText=text)
    assert tools.recorder.asked == [
        Asked("external_directory", (f"{outside}/*",), (f"{outside}/*",)),
        Asked("read", ("g",), ("g", "*")),
        Asked("edit", edited := (f"{outside}/f", f"{outside}/new", "g", "h", "g2"), (*edited, "*")),
    ]
    assert tools.tool("apply_patch").action == "edit"


async def test_one_escaping_path_stops_everything(tools: FileTools) -> None:
    """TOL-317, TOL-191: nobody is asked, nothing is read, nothing is applied; move destinations count as well."""
    (tools.root / "f").write_bytes(b"a\n")
    (tools.root / "out").symlink_to(tools.root.parent)
    for bad in (
        ["*** Add File: ../x", "+x"],
        ["*** Delete File: ../x"],
        ["*** Update File: out/x", "@@", "-a", "+b"],
        ["*** Update File: f", "*** Move to: ../x", "@@", "-a", "+b"],
        ["*** Update File: f", "*** Move to: out/x", "@@", "-a", "+b"],
        ["*** Add File: /proc/self/x", "+x"],
    ):
        refusal = await tools.refusal("apply_patch", patchText=patch("*** Update File: f", "@@", "-a", "+b", *bad))
        assert refusal.startswith("Unable to apply patch at ")
    assert tools.recorder.asked == []
    assert found(tools.root) == {"f": b"a\n"}
    assert sorted(os.listdir(tools.root.parent)) == ["work"]


@pytest.mark.parametrize("denied", ["edit", "external_directory"])
async def test_a_denied_patch_does_not_tell_whether_it_would_fit(
    tools: FileTools, denied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-191, TOL-329: fitting and unfitting patches look alike."""
    outside = tools.root.parent / "f"
    outside.write_bytes(b"a\n")
    tools.recorder = Recorder(denied)
    monkeypatch.setattr(apply_patch, "read_file", lambda *arguments: pytest.fail("it was read"))
    refusals = {
        await tools.refusal("apply_patch", patchText=patch(f"*** Update File: {outside}", "@@", f"-{line}", "+b"))
        for line in ("a", "z")
    }
    assert len(refusals) == 1
    assert "Permission denied" in refusals.pop()


async def test_moves_may_be_switched_off(root: Path) -> None:
    """TOL-192: before anybody is asked."""
    tools = FileTools(root, patch_moves=False)
    (root / "f").write_bytes(b"a\n")
    text = patch("*** Update File: f", "*** Move to: g", "@@", "-a", "+b")
    assert await tools.refusal("apply_patch", patchText=text) == NO_MOVES
    assert tools.recorder.asked == []


async def test_text_that_is_no_patch(tools: FileTools) -> None:
    """TOL-177."""
    for blank in ("", " \n"):
        assert await tools.refusal("apply_patch", patchText=blank) == REQUIRED
    assert (await tools.refusal("apply_patch", patchText="x")).startswith("apply_patch verification failed: ")


async def test_a_patch_above_a_size_limit_is_refused(tools: FileTools) -> None:
    """TOL-202: of the text, of operations, of a file before and after."""
    assert "larger" in await tools.refusal(
        "apply_patch", patchText=patch("*** Add File: f", "+" + "x" * MAX_PATCH_BYTES)
    )
    many = [f"*** Delete File: f{number}" for number in range(MAX_OPERATIONS + 1)]
    assert "200 operations" in await tools.refusal("apply_patch", patchText=patch(*many))
    chunks = ["@@", "+x"] * (MAX_CHUNKS + 1)
    assert "2000 chunks" in await tools.refusal("apply_patch", patchText=patch("*** Update File: f", *chunks))
    with (tools.root / "big").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    text = patch("*** Update File: big", "@@", "-a", "+b")
    assert "larger than 10485760 bytes" in await tools.refusal("apply_patch", patchText=text)
    (tools.root / "big").write_bytes(b"x" * (10 * 1024 * 1024 - 1) + b"\n")
    assert "larger than" in await tools.refusal("apply_patch", patchText=patch("*** Update File: big", "@@", "+b"))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["*** Add File: f", "+x", "", ""] * 30_000, "200 operations"),
        (["*** Add File: f"] * 20_000 + [""] * 400_000, "200 operations"),
        (["*** Update File: f", "@@", "-missing", *["-"] * 20_000], "Failed to find"),
    ],
    ids=["blanks between", "blanks behind", "blanks to find"],
)
async def test_blank_lines_cost_no_more_than_others(tools: FileTools, lines: list[str], why: str) -> None:
    """TOL-176, TOL-323: each of these took a minute or more when it was looked at again and again."""
    lay(tools.root, {"f": b"a\n" * 200_000})
    started = time.process_time()
    assert why in await tools.refusal("apply_patch", patchText=patch(*lines))
    assert time.process_time() - started < 15


async def test_a_failed_rehearsal_applies_nothing(tools: FileTools) -> None:
    """TOL-194, TOL-195: the reason and the missing lines, ten at most; a directory is no file."""
    lay(tools.root, {"f": b"a\n"})
    (tools.root / "folder").mkdir()
    wanted = [f"-missing {number}" for number in range(12)]
    text = patch("*** Add File: new", "+x", "*** Update File: f", "@@", *wanted, "+b")
    refusal = await tools.refusal("apply_patch", patchText=text)
    assert refusal.startswith("Unable to apply patch at f: Failed to find expected lines in f:\nmissing 0\n")
    assert refusal.endswith("missing 9\n... (2 more lines)")
    for operation in (
        ["*** Delete File: folder"],
        ["*** Update File: folder", "@@", "-a", "+b"],
        ["*** Add File: folder"],
    ):
        assert "directory" in await tools.refusal("apply_patch", patchText=patch(*operation))
    assert found(tools.root) == {"f": b"a\n"}


async def test_a_failure_in_the_middle(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-197, TOL-196: what was applied stays and is listed; an addition never overwrites what appeared meanwhile."""
    lay(tools.root, {"a": b"a\n", "b": b"b\n"})
    real = apply_patch._plan

    def racing(located: Any) -> Any:
        steps = real(located)
        (tools.root / "new").write_bytes(b"somebody's\n")
        return steps

    monkeypatch.setattr(apply_patch, "_plan", racing)
    text = patch(
        "*** Update File: a", "@@", "-a", "+A", "*** Delete File: b", "*** Add File: new", "+x", "*** Add File: z"
    )
    refusal = await tools.refusal("apply_patch", patchText=text)
    assert refusal.startswith("Patch stopped at new; already applied: a, b")
    assert found(tools.root) == {"a": b"A\n", "new": b"somebody's\n"}
    (tools.root / "new").unlink()
    refusal = await tools.refusal("apply_patch", patchText=patch("*** Add File: new", "+x"))
    assert refusal == "Unable to apply patch at new: it already exists"


async def test_a_target_that_changed_while_the_user_thought(tools: FileTools) -> None:
    """TOL-196, TOL-195: an addition fails when something appeared during the approval; its content is kept."""
    tools.recorder = Recorder(meanwhile=lambda: (tools.root / "new").write_bytes(b"kept"))
    assert "already exists" in await tools.refusal("apply_patch", patchText=patch("*** Add File: new", "+x"))
    assert found(tools.root) == {"new": b"kept"}


async def test_together_or_not_at_all(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-201: the same failure, rolled back."""
    tools = FileTools(root, patch_atomic=True)
    lay(root, {"a": b"a\n", "b": b"b\n"})
    (root / "a").chmod(0o755)
    real = apply_patch._plan

    def racing(located: Any) -> Any:
        steps = real(located)
        (root / "b").write_bytes(b"somebody's\n")
        return steps

    with monkeypatch.context() as racing_now:
        racing_now.setattr(apply_patch, "_plan", racing)
        text = patch("*** Update File: a", "@@", "-a", "+A", "*** Add File: new", "+x", "*** Delete File: b")
        refusal = await tools.refusal("apply_patch", patchText=text)
    assert refusal == "Unable to apply patch at b: it changed in the meantime; rolled back, nothing was applied"
    assert found(root) == {"a": b"a\n", "b": b"somebody's\n"}
    await tools.call("apply_patch", patchText=patch("*** Update File: a", "*** Move to: c", "@@", "-a", "+A"))
    assert (root / "c").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_patched_file_keeps_its_mode(root: Path, atomic: bool) -> None:
    """TOL-130, TOL-193."""
    tools = FileTools(root, patch_atomic=atomic)
    lay(root, {"f": b"a\n", "g": b"a\n"})
    (root / "f").chmod(0o750)
    (root / "g").chmod(0o711)
    await tools.call(
        "apply_patch",
        patchText=patch(
            "*** Update File: f", "@@", "-a", "+b", "*** Update File: g", "*** Move to: h", "@@", "-a", "+b"
        ),
    )
    assert {name: mode for name, (mode, _) in tree(root).items()} == {"f": "0o100750", "h": "0o100711"}


async def test_deleting_a_link_deletes_the_link(tools: FileTools) -> None:
    """TOL-133, TOL-316: also one that leads out, to a directory, or nowhere; updating through it is refused."""
    secret = tools.root.parent / "secret"
    secret.write_bytes(b"kept\n")
    for name, leads_to in {"out": secret, "up": tools.root.parent, "dangling": Path("nowhere")}.items():
        (tools.root / name).symlink_to(leads_to)
        if name != "dangling":
            update = patch(f"*** Update File: {name}", "@@", "-kept", "+x")
            assert "Unable to apply" in await tools.refusal("apply_patch", patchText=update)
        await tools.call("apply_patch", patchText=patch(f"*** Delete File: {name}"))
    assert os.listdir(tools.root) == []
    assert secret.read_bytes() == b"kept\n"


async def test_an_interruption_lets_the_operation_finish(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-199: the file that is being written becomes whole; the next one is not begun."""
    lay(tools.root, {"a": b"a\n", "b": b"b\n"})
    tasks: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()
    real = os.rename

    def rename(*arguments: Any, **options: Any) -> None:
        loop.call_soon_threadsafe(tasks[0].cancel)
        real(*arguments, **options)

    monkeypatch.setattr(os, "rename", rename)
    text = patch("*** Update File: a", "@@", "-a", "+A", "*** Update File: b", "@@", "-b", "+B")
    tasks.append(asyncio.create_task(tools.call("apply_patch", patchText=text)))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert found(tools.root) == {"a": b"A\n", "b": b"b\n"}


async def test_a_defect_stays_a_defect(tools: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-199: what came before it stays in place."""
    lay(tools.root, {"a": b"a\n", "b": b"b\n"})

    async def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(tools.files.mutations, "remove", broken)
    text = patch("*** Update File: a", "@@", "-a", "+A", "*** Delete File: b")
    with pytest.raises(ZeroDivisionError):
        await tools.call("apply_patch", patchText=text)
    assert found(tools.root) == {"a": b"A\n", "b": b"b\n"}
