"""The promises about paths, tried against every tool that takes one, with a neighbourhood that must stay untouched."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.tool_support import FileTools, Recorder, tree

from holdfast.core.tool.tool import ToolFailure

pytestmark = pytest.mark.anyio

SECRET = "canary-content"

ARGUMENTS: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "read": lambda path: ("read", {"path": path}),
    "write": lambda path: ("write", {"path": path, "content": "overwritten"}),
    "edit": lambda path: ("edit", {"path": path, "oldString": SECRET, "newString": "overwritten"}),
    "patch add": lambda path: ("apply_patch", {"patchText": patch(f"*** Add File: {path}", "+overwritten")}),
    "patch update": lambda path: ("apply_patch", {"patchText": patch(f"*** Update File: {path}", "@@", f"-{SECRET}")}),
    "patch delete": lambda path: ("apply_patch", {"patchText": patch(f"*** Delete File: {path}")}),
    "patch move to": lambda path: (
        "apply_patch",
        {"patchText": patch("*** Update File: own", f"*** Move to: {path}", "@@", "-own", "+overwritten")},
    ),
    "patch move from": lambda path: (
        "apply_patch",
        {"patchText": patch(f"*** Update File: {path}", "*** Move to: stolen", "@@", f" {SECRET}")},
    ),
}

HOSTILE = [
    "../outside/secret",
    "sub/../../outside/secret",
    "./../outside/secret",
    "sub/./../.././outside/secret",
    "..",
    "../",
    "../work-evil/secret",
    "{outside}/secret",
    "{outside}//secret",
    "{work}/../outside/secret",
    "/{outside}/secret",
    "{evil}/secret",
    "link-file",
    "link-folder/secret",
    "link-folder/new",
    "link-up/outside/secret",
    "link-chain/secret",
    "link-dangling",
    "sub/link-deep/secret",
    "link-root{outside}/secret",
    "link-cwd/../outside/secret",
    "/proc/self/cwd/../outside/secret",
    "/proc/self/root{outside}/secret",
    "/proc/self/environ",
    "/dev/fd/0",
    "/dev/null",
    "/sys/kernel/notes",
    "%2e%2e/outside/secret",
    "..%2foutside%2fsecret",
    "..\\outside\\secret",
    "..\\../outside/secret",
    "~/secret",
    "~root/.profile",
    "$HOME/secret",
    "${HOME}/secret",
    "`pwd`/../outside/secret",
    "...",
    ".../outside/secret",
    ". ./outside/secret",
    ".. /outside/secret",
    "\u2024\u2024/outside/secret",
    "．．/outside/secret",
    "file:///{outside}/secret",
    "@outside/secret",
    "-rf",
    "--help",
    "x" * 5000,
    "a/" * 3000 + "b",
    "x" * 256,
]
UNWRITABLE = ["", "\0", "../outside/secret\0.txt", "own\0/../../outside/secret", "\ud800"]


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.fixture
def tools(root: Path) -> FileTools:
    """A Location full of traps, whose user denies every outside directory."""
    outside, evil = root.parent / "outside", root.parent / "work-evil"
    for folder in (outside, evil):
        folder.mkdir()
        (folder / "secret").write_text(SECRET + "\n")
    (root / "sub").mkdir()
    (root / "own").write_text("own\n")
    (root / "link-file").symlink_to(outside / "secret")
    (root / "link-folder").symlink_to(outside)
    (root / "link-up").symlink_to("..")
    (root / "link-chain").symlink_to("link-folder")
    (root / "link-dangling").symlink_to(outside / "new")
    (root / "sub/link-deep").symlink_to("../../outside")
    (root / "link-root").symlink_to("/")
    (root / "link-cwd").symlink_to("/proc/self/cwd")
    tools = FileTools(root)
    tools.recorder = Recorder("external_directory")
    return tools


def neighbourhood(root: Path) -> dict[str, object]:
    return {name: found for name, found in tree(root.parent).items() if not name.startswith("work/")}


@pytest.mark.parametrize("tool", ARGUMENTS)
async def test_no_path_reaches_the_outside(tools: FileTools, tool: str) -> None:
    """TOL-314, TOL-316, TOL-112, TOL-113, TOL-117, TOL-121: nothing is shown, nothing touched, whatever the path."""
    before = neighbourhood(tools.root)
    places = {"{outside}": "outside", "{work}": "work", "{evil}": "work-evil"}
    for pattern in [*HOSTILE, *UNWRITABLE]:
        path = pattern
        for name, folder in places.items():
            path = path.replace(name, str(tools.root.parent / folder))
        name, arguments = ARGUMENTS[tool](path)
        try:
            shown = str(await tools.call(name, **arguments))
        except ToolFailure as failure:
            # A patch that does not fit is quoted back, so the words may come from the call itself.
            shown = str(failure).replace(f":\n{SECRET}", "")
        assert SECRET not in shown
        assert neighbourhood(tools.root) == before, pattern
        (tools.root / "own").write_text("own\n")


@pytest.mark.parametrize("tool", ["read", "write", "edit", "patch add", "patch update", "patch delete"])
@pytest.mark.parametrize("path", ["../outside/secret", "link-folder/secret", "{outside}/secret"])
async def test_a_hostile_path_is_refused_before_anybody_is_asked(tools: FileTools, tool: str, path: str) -> None:
    """TOL-314, TOL-115, TOL-353: nobody is asked in the strict mode; otherwise only about an absolute path."""
    name, arguments = ARGUMENTS[tool](path.replace("{outside}", str(tools.root.parent / "outside")))
    await tools.refusal(name, **arguments)
    assert tools.recorder.actions == (["external_directory"] if path.startswith("{") else [])
    strict = FileTools(tools.root, external_paths="deny")
    assert "outside the working directory" in await strict.refusal(name, **arguments)
    assert strict.recorder.actions == []


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("swapped", ["folder", "file"])
async def test_a_swap_during_the_approval(root: Path, tool: str, swapped: str) -> None:
    """TOL-315, TOL-131: the approved path became a link to the outside while the user thought."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text(SECRET + "\n")
    (root / "own").write_text("own\n")
    (root / "folder").mkdir()
    if tool not in ("patch add", "patch move to"):
        (root / "folder/f").write_text(SECRET.upper() + "\n")

    def swap() -> None:
        if (root / "was").exists():
            return  # a move asks twice
        if swapped == "folder":
            (root / "folder").rename(root / "was")
            (root / "folder").symlink_to(outside)
        else:
            (root / "folder/f").unlink(missing_ok=True)
            (root / "folder/f").symlink_to(outside / "f")

    tools = FileTools(root)
    tools.recorder = Recorder(meanwhile=swap)
    before = tree(outside)
    name, arguments = ARGUMENTS[tool]("folder/f")
    if (tool, swapped) == ("patch delete", "file"):
        await tools.call(name, **arguments)
    else:
        assert SECRET not in (await tools.refusal(name, **arguments)).replace(str(arguments), "").split(":", 1)[0]
    assert tree(outside) == before


SWAPPER = """
import ctypes, os, sys, time
root, outside = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
a, b = os.path.join(root, "folder").encode(), os.path.join(root, "decoy").encode()
print("ready", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    libc.renameat2(-100, a, -100, b, 2)
"""


async def test_a_racing_swap_never_wins(root: Path) -> None:
    """TOL-315: a directory and a link to the outside change places as fast as they can, under every tool."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text(SECRET + "\n")
    (root / "folder").mkdir()
    (root / "folder/f").write_text("harmless\n")
    (root / "decoy").symlink_to(outside)
    before = tree(outside)
    tools = FileTools(root)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SWAPPER, str(root), str(outside), stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        await child.stdout.readline()
        done = 0
        end = asyncio.get_running_loop().time() + 1.2
        while asyncio.get_running_loop().time() < end:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("read", {"path": "folder/f"}),
                ("write", {"path": "folder/f", "content": "harmless\n"}),
                ("edit", {"path": "folder/f", "oldString": "harmless", "newString": "harmless, edited"}),
                ("apply_patch", {"patchText": patch("*** Add File: folder/new", "+x")}),
                ("apply_patch", {"patchText": patch("*** Delete File: folder/new")}),
            ]
            for name, arguments in calls:
                try:
                    outcome = await tools.call(name, **arguments)
                except ToolFailure:
                    continue
                done += 1
                assert SECRET not in str(outcome)
    finally:
        child.kill()
        await child.wait()
    assert tree(outside) == before
    assert done > 0


async def test_links_inside_are_followed_and_stay_links(root: Path) -> None:
    """TOL-316, TOL-114: inside ones are followed by every tool, and the link stays a link."""
    tools = FileTools(root)
    (root / "real").mkdir()
    (root / "real/f").write_text("one\n")
    (root / "to-file").symlink_to("real/f")
    (root / "to-folder").symlink_to("real")
    os.link(root / "real/f", root / "hard")
    for path in ("to-file", "to-folder/f", "hard"):
        assert "one" in (await tools.call("read", path=path)).text
        await tools.call("write", path=path, content="two\n")
        await tools.call("edit", path=path, oldString="two", newString="three")
        await tools.call("apply_patch", patchText=patch(f"*** Update File: {path}", "@@", "-three", "+one"))
    assert {asked.resources for asked in tools.recorder.asked} == {("real/f",), ("hard",)}
    assert (root / "to-file").is_symlink()
    assert (root / "hard").samefile(root / "real/f")
    (root / "dangling").symlink_to("real/new")
    await tools.call("write", path="dangling", content="x")
    assert (root / "dangling").is_symlink()
    assert (root / "real/new").read_text() == "x"


async def test_odd_file_names_are_used_literally(root: Path) -> None:
    """TOL-321: odd names are read, written and shown as they are."""
    tools = FileTools(root)
    for name in ("-rf", "$(id)", "%s{}", "a'b\"c", "tab\there", "new\nline", "*", "é", "con", "a:b"):
        await tools.call("write", path=name, content="$& \\1 %s {}")
        assert (root / name).read_text() == "$& \\1 %s {}"
        await tools.call("edit", path=name, oldString="$&", newString="\\g<0>")
        assert "1: \\g<0> \\1 %s {}" in (await tools.call("read", path=name)).text
        assert {asked.resources for asked in tools.recorder.asked} == {(name,)}
        tools.recorder.asked.clear()
