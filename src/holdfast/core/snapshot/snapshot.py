"""Trees of a project's files, in a git directory of our own: the user's repository and index are never touched.

Invariants
- A tree is content: taking one changes no file, and two equal states give the same tree.
- Every path that is restored lies inside the worktree; git itself refuses anything else.
- The store is shared by every Location and process that works on the project; an index is not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.process.git import Git, GitFailed, literal, names
from holdfast.core.process.which import which
from holdfast.core.snapshot.errors import Operation, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.core.location.project import Project

PATCH_LIMIT = 256 * 1024
PATCHES_LIMIT = 4 * 1024 * 1024
PATCHED_FILES = 500
"""Of one comparison: the files after that are counted and not shown."""
FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
LEFT_SECONDS = 24 * 60 * 60
"""After which an index that nobody used was left by a process that died."""


class FileChange(NamedTuple):
    path: str
    status: str
    """added, modified or deleted."""
    additions: int
    deletions: int
    patch: str


class Snapshots:
    """Of one project, for one Location. Its captures take turns."""

    def __init__(self, project: Project, folder: Path) -> None:
        self._worktree = project.directory
        name = hashlib.sha256(str(project.directory).encode()).hexdigest()[:20]
        self._store = folder / name
        self._index = self._store / f"index.{os.getpid()}.{secrets.token_hex(4)}"
        self._runner = Git(os.environ)
        self._turn = asyncio.Lock()
        self._ready = False
        self.possible = project.store is not None and which("git") is not None
        """Without a repository there is no saying which files matter."""

    async def capture(self) -> str:
        """The tree of everything that git does not ignore and can read, right now."""
        async with self._turn:
            await self._prepare()
            await self._add_all()
            return (await self._git("capture", "write-tree")).decode("ascii").strip()

    async def files(self, before: str, after: str) -> list[str]:
        """Paths that differ, relative to the worktree."""
        out = await self._git("files", "diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
        return names(out)

    async def diff(self, before: str, after: str, paths: Sequence[str]) -> list[FileChange]:
        """Of these paths, those that differ."""
        if not paths:
            return []
        asked = set(paths)
        compare = ("diff-tree", "-r", "--no-renames", "-z", before, after)
        status = _pairs(await self._git("diff", *_with(compare, "--name-status")))
        counts = await self._git("diff", *_with(compare, "--numstat"))
        changes: list[FileChange] = []
        shown = 0
        for line in counts.split(b"\0"):
            added, _, rest = line.partition(b"\t")
            removed, _, name = rest.partition(b"\t")
            path = os.fsdecode(name)
            if path not in asked:
                continue
            patch = ""
            if len(changes) < PATCHED_FILES and shown < PATCHES_LIMIT:
                patch = await self._patch(before, after, path)
                shown += len(patch)
            changes.append(FileChange(path, status.get(path, "modified"), _count(added), _count(removed), patch))
        return changes

    async def restore(self, tree: str, paths: Sequence[str]) -> None:
        """Bring these files back to what they were in the tree; those it does not have are removed."""
        if not paths:
            return
        async with self._turn:
            await self._prepare()
            listed = await self._git("restore", "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
            known = set(names(listed))
            present = [path for path in paths if path in known]
            if present:
                await self._git("restore", "checkout", tree, *FROM_INPUT, given=as_input(present))
            for path in paths:
                if path not in known:
                    await asyncio.to_thread(self._remove, path)

    def close(self) -> None:
        """What git knows of the files' times spares the next process from reading them all."""
        if self._index.exists():
            os.replace(self._index, self._store / "index")

    async def _patch(self, before: str, after: str, path: str) -> str:
        patch = await self._git("diff", "diff-tree", "-p", "--no-renames", before, after, "--", *literal([path]))
        return patch.decode("utf-8", "replace") if len(patch) <= PATCH_LIMIT else ""

    def _remove(self, path: str) -> None:
        target = self._worktree / path
        # The folder is resolved, the name is not: a link is removed, never what it points to.
        folder = target.parent.resolve()
        if folder != self._worktree and self._worktree not in folder.parents:
            raise SnapshotError("restore", f"{path} leads outside the project")
        try:
            (folder / target.name).unlink(missing_ok=True)
        except OSError as error:
            raise SnapshotError("restore", f"{path}: {error.strerror}") from error

    async def _prepare(self) -> None:
        import shutil

        if self._ready:
            return
        if not (self._store / "HEAD").exists():
            await self._create()
        await asyncio.to_thread(self._remove_leftovers)
        if (kept := self._store / "index").exists() and not self._index.exists():
            shutil.copyfile(kept, self._index)
        self._ready = True

    async def _create(self) -> None:
        """Beside its place, and then there at once: another Location or process may be doing the same."""
        import shutil

        self._store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._store.with_name(f"{self._store.name}.{secrets.token_hex(4)}")
        await self._git("capture", "init", "--quiet", "--bare", str(draft))
        try:
            os.rename(draft, self._store)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not (self._store / "HEAD").exists():  # half of one, by a process that died
                await self._git("capture", "init", "--quiet", "--bare", str(self._store))

    def _remove_leftovers(self) -> None:
        """Losing one that is in use costs its owner another look at all files, no more."""
        for left in self._store.glob("index.*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - LEFT_SECONDS:
                    left.unlink()

    async def _add_all(self) -> None:
        """What git cannot add is left out alone: a file that nobody may read, a repository without a commit."""
        everything = ("add", "--all", "--ignore-errors", "--", ".")
        try:
            await self._git("capture", *everything)
        except SnapshotError as error:
            # Such a repository takes with it what is named together with it.
            listed = await self._git("capture", "ls-files", "-z", "--others", "--exclude-standard")
            below = [f":(exclude,top,literal){path}" for path in names(listed) if path.endswith("/")]
            if below:
                await self._git("capture", *everything, *below)
            elif not _left_out(error.message):
                raise

    async def _git(self, operation: Operation, *arguments: str, given: bytes = b"") -> bytes:
        own = {
            "GIT_DIR": str(self._store),
            "GIT_WORK_TREE": str(self._worktree),
            "GIT_INDEX_FILE": str(self._index),
        }
        try:
            variables = {} if arguments[0] == "init" else own
            return await self._runner.run(*arguments, directory=self._worktree, variables=variables, given=given)
        except GitFailed as error:
            raise SnapshotError(operation, str(error)) from error


def as_input(paths: Sequence[str]) -> bytes:
    """Exactly these paths for FROM_INPUT; as arguments, many of them would be more than a command line holds."""
    return b"\0".join(map(os.fsencode, literal(paths)))


def _left_out(said: str) -> bool:
    """Whether git added everything but what it names: a file that nobody may read, a repository without a commit."""
    kinds = {line.partition(":")[0] for line in said.splitlines()}
    return "error" in kinds and "fatal" not in kinds


def _with(command: tuple[str, ...], *options: str) -> tuple[str, ...]:
    return (command[0], *options, *command[1:])


def _pairs(out: bytes) -> dict[str, str]:
    words = [word for word in out.split(b"\0") if word]
    names = {b"A": "added", b"D": "deleted"}
    return {
        os.fsdecode(path): names.get(kind[:1], "modified") for kind, path in zip(words[::2], words[1::2], strict=False)
    }


def _count(text: bytes) -> int:
    return int(text) if text.isdigit() else 0
