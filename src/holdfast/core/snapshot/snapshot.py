"""Trees of a project's files, in a git directory of our own: the user's repository and index are never touched.

Invariants
- A tree is content: taking one changes no file, and two equal states give the same tree.
- Every path that is restored lies inside the worktree; git itself refuses anything else.
- The store is shared by every Location and process that works on the project; an index is not.
- Taking a tree is bounded in file size, number of files and time; a project beyond that has no snapshots, and a person
  is told."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.process.git import Git, GitFailed, literal, names
from holdfast.core.process.which import which
from holdfast.core.snapshot.errors import Operation, SnapshotError
from holdfast.core.snapshot.selection import SETTINGS, LeftOut, SnapshotLimits, TooMuch, check_entries, left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.core.config.document import Diagnostic
    from holdfast.core.location.project import Project

PATCH_LIMIT = 256 * 1024
PATCHES_LIMIT = 4 * 1024 * 1024
PATCHED_FILES = 500
"""Of one comparison: the files after that are counted and not shown."""
FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
LEFT_SECONDS = 24 * 60 * 60
"""After which an index that nobody used was left by a process that died."""
SLOW_SECONDS = 5.0
SLOW_CAPTURES = 2
"""In a row that failed or were given up after SLOW_SECONDS; then there are no more."""

log = logging.getLogger(__name__)


class FileChange(NamedTuple):
    path: str
    status: str
    """added, modified or deleted."""
    additions: int
    deletions: int
    patch: str


class Snapshots:
    """Of one project, for one Location. Its captures take turns."""

    def __init__(self, project: Project, folder: Path, limits: Callable[[], SnapshotLimits] = SnapshotLimits) -> None:
        self._worktree = project.directory
        name = hashlib.sha256(str(project.directory).encode()).hexdigest()[:20]
        self._store = folder / name
        self._index = self._store / f"index.{os.getpid()}.{secrets.token_hex(4)}"
        self._runner = Git(os.environ)
        self._turn = asyncio.Lock()
        self._ready = False
        self._limits = limits
        self._left_out = LeftOut(self._store / "left-out")
        self._slow = 0
        self._off: SnapshotLimits | None = None
        """The limits that the project exceeds."""
        self._available = project.store is not None and which("git") is not None

    @property
    def possible(self) -> bool:
        """Without a repository there is no saying which files matter. Other limits are another chance."""
        return self._available and self._off != self._limits()

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why this project has no snapshots, as far as this process or an earlier one has found out."""
        from holdfast.core.config.document import Diagnostic

        try:
            return (Diagnostic(str(self._worktree), self._problem_file.read_text(encoding="utf-8")),)
        except OSError:
            return ()

    async def capture(self) -> str:
        """The tree of everything that git does not ignore and can read, right now, without files that are too large."""
        async with self._turn:
            limits, began = self._limits(), time.monotonic()
            try:
                await self._prepare()
                large = await self._select(limits)
                tree = (await self._git("capture", "write-tree")).decode("ascii").strip()
                if large:
                    await asyncio.to_thread(self._left_out.note, tree, large)
            except TooMuch as error:
                self._switch_off(limits, str(error))
                raise SnapshotError("capture", str(error)) from error
            except (asyncio.CancelledError, SnapshotError):
                if time.monotonic() - began >= SLOW_SECONDS:
                    self._count_slow(limits)
                raise
            self._slow = 0
            self._problem_file.unlink(missing_ok=True)
            return tree

    async def files(self, before: str, after: str) -> list[str]:
        """Paths that differ, relative to the worktree. What was left out of either tree counts as unchanged."""
        out = await self._git("files", "diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
        hidden = await asyncio.to_thread(self._left_out.of, before, after)
        return [name for name in names(out) if name not in hidden]

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
            hidden = await asyncio.to_thread(self._left_out.of, tree)
            paths = [path for path in paths if path not in hidden]
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

    async def _select(self, limits: SnapshotLimits) -> list[str]:
        """Bring the index up to date; the files that were too large for that. Raises TooMuch."""
        listing = ("ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard")
        listed = await self._git("capture", *listing)
        if listed.count(0) > 2 * limits.files:  # a path that was deleted is there twice
            raise TooMuch(f"more than {limits.files} of its files are new or changed ({SETTINGS}.files)")
        changed = names(listed)
        large = await asyncio.to_thread(left_out, self._worktree, changed, limits)
        if len(changed) > len(large):
            await self._add_all(large)
            check_entries(self._index, limits)
        return large

    async def _add_all(self, but: Sequence[str]) -> None:
        """What git cannot add is left out alone: a file that nobody may read, a repository without a commit."""
        everything = ("add", "--all", "--ignore-errors", *FROM_INPUT)
        excluded = [f":(exclude,top,literal){path}" for path in but]
        try:
            await self._git("capture", *everything, given=_pathspecs([".", *excluded]))
        except SnapshotError as error:
            # Such a repository takes with it what is named together with it.
            listed = await self._git("capture", "ls-files", "-z", "--others", "--exclude-standard")
            below = [f":(exclude,top,literal){path}" for path in names(listed) if path.endswith("/")]
            if below:
                await self._git("capture", *everything, given=_pathspecs([".", *excluded, *below]))
            elif not _left_out(error.message):
                raise

    def _count_slow(self, limits: SnapshotLimits) -> None:
        self._slow += 1
        if self._slow >= SLOW_CAPTURES:
            self._switch_off(
                limits, f"{SLOW_CAPTURES} attempts in a row took longer than {SLOW_SECONDS:g} s and failed"
            )

    def _switch_off(self, limits: SnapshotLimits, reason: str) -> None:
        self._off = limits
        self._slow = 0
        text = f"this project has no snapshots, so changes of its files cannot be reverted: {reason}"
        log.error("%s: %s", self._worktree, text)
        with suppress(OSError):
            self._problem_file.write_text(text, encoding="utf-8")

    @property
    def _problem_file(self) -> Path:
        return self._store / "problem"

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
    return _pathspecs(literal(paths))


def _pathspecs(specs: Sequence[str]) -> bytes:
    return b"\0".join(map(os.fsencode, specs))


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
