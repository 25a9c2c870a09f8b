"""The tools that read, find and change files, as a model uses them and as it is refused."""

from __future__ import annotations

import base64
import io
import os

import pytest
from PIL import Image
from tests.outside.world import World, hands

pytestmark = pytest.mark.anyio


async def test_read_gives_a_file_by_pages(world: World) -> None:
    """TOL-136, TOL-146, TOL-147, TOL-148, TOL-150, TOL-154: a small file whole, a long one in parts that say how to go
    on; long lines are cut; an offset past the end is refused with the length."""
    world.write("long.txt", "".join(f"line {number}\n" for number in range(1, 3001)))
    world.write("wide.txt", "x" * 2500 + "\nnext\n")
    async with world.host() as hf:
        use = await hands(world, hf)
        whole = await use("read", path="hello.txt")
        assert whole.structured["content"] == "hello world\n"
        assert (whole.structured["encoding"], whole.structured["mime"]) == ("utf8", "text/plain")
        assert use.reads == "hello.txt, lines 1-1 of 1\n1: hello world"
        page = await use("read", path="long.txt", offset=2999, limit=1)
        assert (page.structured["type"], page.structured["content"]) == ("text-page", "line 2999")
        assert (page.structured["offset"], page.structured["truncated"], page.structured["next"]) == (2999, True, 3000)
        assert "next offset: 3000" in use.reads
        last = await use("read", path="long.txt", offset=3000)
        assert (last.structured["truncated"], "next" in last.structured) == (False, False)
        assert "3000 lines" in await use.fails("read", path="long.txt", offset=3001)
        await use("read", path="wide.txt", limit=1)
        assert "x" * 2000 + "... (line truncated to 2000 chars)" in use.reads
        assert "x" * 2001 not in use.reads
        assert (await use.fails("read", path="hello.txt", limit=2001)).startswith("Invalid tool input: ")


async def test_read_lists_a_directory(world: World) -> None:
    """TOL-151, TOL-152, TOL-352: folders first, by name whatever the case; links that lead out are left out."""
    for path in ("b/x", "A/x", "z.txt", "Y.txt"):
        world.write(path, "")
    (world.project / "out").symlink_to("/etc")
    (world.project / "broken").symlink_to("nowhere")
    async with world.host() as hf:
        use = await hands(world, hf)
        listed = await use("read", path=".")
        assert [entry["path"] for entry in listed.structured["entries"]] == ["A/", "b/", "hello.txt", "Y.txt", "z.txt"]
        part = await use("read", path=".", offset=2, limit=2)
        assert [entry["path"] for entry in part.structured["entries"]] == ["b/", "hello.txt"]
        assert (part.structured["truncated"], part.structured["next"]) == (True, 4)
        await use.fails("read", path=".", offset=9)


async def test_read_tells_images_binaries_and_encodings_apart(world: World) -> None:
    """TOL-140, TOL-141, TOL-142, TOL-145, TOL-155, LLM-195, LLM-197: by their bytes; an image is shown as one and
    never as text; a binary file is refused; another encoding is named."""
    file = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(file, "PNG")
    (world.project / "picture.bin").write_bytes(file.getvalue())
    (world.project / "library.so").write_bytes(b"\x7fELF\x00")
    (world.project / "fake.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (world.project / "latin.txt").write_bytes("café\n".encode("latin-1") * 3)
    sees = world.provider(modalities={"input": ["text", "image"], "output": ["text"]})
    world.configure(provider={"mock": sees})
    async with world.host() as hf:
        use = await hands(world, hf)
        image = await use("read", path="picture.bin")
        text, picture = image.content
        assert getattr(text, "text", "") == "Image read successfully"
        assert getattr(picture, "mime", "") == "image/png"
        encoded = base64.b64encode(file.getvalue()).decode()
        assert getattr(picture, "uri", "") == f"data:image/png;base64,{encoded}"
        sent = world.model.last
        assert encoded not in "".join(sent.results)
        assert encoded in str(sent.body["messages"][-1]["content"])
        assert await use.fails("read", path="library.so") == "Cannot read binary file: library.so"
        assert "could not be decoded" in await use.fails("read", path="fake.png")
        latin = await use("read", path="latin.txt")
        assert latin.structured["content"] == "café\ncafé\ncafé\n"
        assert "[cp1252]" in use.reads


async def test_a_path_never_leads_out_of_the_project_unseen(world: World) -> None:
    """TOL-112, TOL-113, TOL-114, TOL-116, TOL-117, TOL-121, TOL-156, TOL-235, TOL-314, TOL-316, TOL-317: up, through
    links of every kind, into devices; for reading, searching and writing; nothing is made outside; a link inside is
    followed."""
    outside = world.home / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    (world.project / "out").symlink_to(outside)
    (world.project / "dangling").symlink_to(outside / "new")
    (world.project / "inside").symlink_to("actual")
    world.write("actual/a.txt", "inside\n")
    os.mkfifo(world.project / "pipe")
    async with world.host(unattended="allow") as hf:
        use = await hands(world, hf)
        hostile = ["../outside/canary", "out/canary", "actual/../../outside/canary", "./../outside/canary"]
        for path in hostile:
            assert "outside the working directory" in await use.fails("read", path=path)
            await use.fails("write", path=path, content="x")
            await use.fails("edit", path=path, oldString="untouched", newString="x")
            hunks = f"*** Add File: fine.txt\n+x\n*** Update File: {path}\n@@\n-untouched\n+x"
            await use.fails("apply_patch", patchText=f"*** Begin Patch\n{hunks}\n*** End Patch")
        for path in ("..", "out"):
            await use.fails("glob", pattern="*", path=path)
            await use.fails("grep", pattern="untouched", path=path)
        for path in ("dangling", "hello.txt/below", "a\x00b", "", "/proc/self/environ", "/dev/zero", "pipe"):
            await use.fails("write", path=path, content="x")
            await use.fails("read", path=path)
        assert (await use("write", path="inside/b.txt", content="b\n")).structured["resource"] == "actual/b.txt"
    assert sorted(path.name for path in outside.iterdir()) == ["canary"]
    assert (outside / "canary").read_text() == "untouched"
    assert not (world.project / "fine.txt").exists()


async def test_write_creates_and_replaces(world: World) -> None:
    """TOL-126, TOL-128, TOL-130, TOL-134, TOL-158, TOL-159, TOL-160, TOL-161, TOL-162: with missing folders; a
    mark at the front and the executable bit stay; a link stays a link; the change is told as a diff."""
    script = world.write("run.sh", "#!/bin/sh\n")
    script.chmod(0o755)
    world.write("marked.txt", "\ufeffold\n")
    (world.project / "link.txt").symlink_to("hello.txt")
    async with world.host() as hf:
        use = await hands(world, hf)
        made = await use("write", path="a/b/c.txt", content="one\n")
        assert use.reads == "Created file successfully: a/b/c.txt"
        assert (made.structured["operation"], made.structured["existed"]) == ("write", False)
        assert made.structured["target"] == str(world.project / "a/b/c.txt")
        (diff,) = made.structured["files"]
        assert (diff["file"], diff["status"], diff["additions"], diff["deletions"]) == ("a/b/c.txt", "added", 1, 0)
        assert (await use("write", path="a/b/c.txt", content="two\n")).structured["existed"] is True
        assert use.reads == "Wrote file successfully: a/b/c.txt"
        await use("write", path="run.sh", content="#!/bin/sh\ntrue\n")
        assert script.stat().st_mode & 0o777 == 0o755
        await use("write", path="marked.txt", content="\ufeff\ufeffnew\n")
        assert (world.project / "marked.txt").read_text(encoding="utf-8") == "\ufeffnew\n"
        await use("write", path="link.txt", content="through\n")
        assert (world.project / "link.txt").is_symlink()
        assert (world.project / "hello.txt").read_text() == "through\n"
        assert "it is a directory" in await use.fails("write", path="a", content="x")


async def test_edit_replaces_exactly_what_it_was_told(world: World) -> None:
    """TOL-163, TOL-164, TOL-166, TOL-167, TOL-168, TOL-170, TOL-321: literally, once or everywhere; line endings stay;
    each misunderstanding has its own words, and changes nothing."""
    file = world.write("a.txt", "price\nprice\nend\n")
    (world.project / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    async with world.host() as hf:
        use = await hands(world, hf)
        assert "same" in await use.fails("edit", path="a.txt", oldString="x", newString="x")
        assert "empty" in await use.fails("edit", path="a.txt", oldString="", newString="x")
        assert "not found" in await use.fails("edit", path="a.txt", oldString="cost", newString="x")
        assert "2 places" in await use.fails("edit", path="a.txt", oldString="price", newString="x")
        assert file.read_text() == "price\nprice\nend\n"
        done = await use("edit", path="a.txt", oldString="price", newString="$$5 $& \\1 %s", replaceAll=True)
        assert file.read_text() == "$$5 $& \\1 %s\n$$5 $& \\1 %s\nend\n"
        assert done.structured["replacements"] == 2
        assert use.reads.startswith("Edited file successfully: a.txt\nReplacements: 2\n```diff\n-price\n+$$5")
        await use("edit", path="dos.txt", oldString="one\ntwo", newString="uno\ndue")
        assert (world.project / "dos.txt").read_bytes() == b"uno\r\ndue\r\n"


async def test_a_patch_changes_several_files_or_none(world: World) -> None:
    """TOL-177, TOL-178, TOL-179, TOL-191, TOL-193, TOL-194, TOL-195, TOL-196, TOL-198, TOL-200: add, update, move,
    delete in order, each seeing what came before; if one part cannot be done, nothing is."""
    world.write("old.txt", "keep\nchange\n")
    world.write("gone.txt", "gone\n")
    patch = """*** Begin Patch
*** Add File: new.txt
+one
*** Update File: new.txt
@@
-one
+two
*** Update File: old.txt
*** Move to: moved.txt
@@
 keep
-change
+changed
*** Delete File: gone.txt
*** End Patch"""
    bad = "*** Begin Patch\n*** Add File: never.txt\n+x\n*** Update File: hello.txt\n@@\n-absent\n+x\n*** End Patch"
    exists = "*** Begin Patch\n*** Add File: hello.txt\n+x\n*** End Patch"
    async with world.host() as hf:
        use = await hands(world, hf)
        assert await use.fails("apply_patch", patchText=" ") == "patchText is required"
        assert "empty patch" in await use.fails("apply_patch", patchText="*** Begin Patch\n*** End Patch")
        assert "verification failed" in await use.fails("apply_patch", patchText="--- a\n+++ b\n")
        assert "absent" in await use.fails("apply_patch", patchText=bad)
        assert not (world.project / "never.txt").exists()
        assert "already exists" in await use.fails("apply_patch", patchText=exists)
        done = await use("apply_patch", patchText=f"cat <<'EOF'\n{patch}\nEOF")
        assert use.reads.splitlines()[0] == "Applied patch sequentially:"
        assert {"R old.txt -> moved.txt", "D gone.txt"} <= set(use.reads.splitlines())
        kinds = [operation["type"] for operation in done.structured["applied"]]
        assert (kinds[0], kinds[-2:]) == ("add", ["move", "delete"])
    assert (world.project / "new.txt").read_text() == "two\n"
    assert (world.project / "moved.txt").read_text() == "keep\nchanged\n"
    assert not (world.project / "old.txt").exists()
    assert not (world.project / "gone.txt").exists()


async def test_glob_and_grep_find_what_the_project_tracks(world: World) -> None:
    """TOL-229, TOL-230, TOL-231, TOL-232, TOL-233, TOL-234, TOL-236, TOL-237, TOL-238, TOL-240: ignored files are left
    out, also when the pattern names them; secrets are not searched; limits and nonsense are said."""
    world.repository()
    world.write(".gitignore", "built/\n")
    for path in ("src/a.py", "src/b.py", "built/c.py", ".config/d.py"):
        world.write(path, f"import {path[-4]}\n")
    world.write(".env", "import=secret\n")
    world.write("long.txt", "import " + "y" * 3000 + "\n")
    async with world.host(unattended="deny") as hf:
        use = await hands(world, hf)
        found = await use("glob", pattern="**/*.py")
        assert {item["path"] for item in found.structured["value"]} == {"src/a.py", "src/b.py"}
        assert set(use.reads.splitlines()) == {str(world.project / "src" / name) for name in ("a.py", "b.py")}
        assert (await use("glob", pattern="built/*.py")).structured["value"] == []
        assert use.reads == "No files found"
        assert len((await use("glob", pattern=".config/*.py")).structured["value"]) == 1
        matches = (await use("grep", pattern="^import")).structured["value"]
        paths = [match["entry"]["path"] for match in matches]
        assert paths == sorted(paths) == [".config/d.py", "long.txt", "src/a.py", "src/b.py"]
        assert matches[0]["submatches"] == [{"text": "import", "start": 0, "end": 6}]
        assert len(matches[1]["text"]) == 2003
        assert use.reads.startswith("Found 4 matches\n")
        assert f"{world.project}/src/a.py:\n  Line 1: import a" in use.reads
        assert "withheld" in use.reads
        await use("grep", pattern="import", include="*.py", limit=1)
        assert "(showing first 1; narrow the pattern)" in use.reads
        assert (await use("grep", pattern="no such text")).structured["value"] == []
        assert "Unable to grep for (" in await use.fails("grep", pattern="(")
        await use("grep", pattern="--files")
        assert use.reads == "No files found"
        for pattern in ("!*.py", "../*", "/etc/*"):
            await use.fails("glob", pattern=pattern)
