"""Trees of a project's files, in a git directory of our own: the user's repository and index are never touched.

Invariants
- A tree is content: taking one changes no file, and two equal states give the same tree.
- Every path that is restored lies inside the worktree; git itself refuses anything else.
- Nothing of the repository's or the user's configuration is read: no filter runs and no line ending changes, so that
  what is restored is byte for byte what was there. Repositories below the worktree are no part of a tree.
- The store is shared by every Location and process that works on the project; an index is not.
- Taking a tree is bounded in file size, number of files and time; a project beyond that has no snapshots, and a person
  is told."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.process.git import Git, GitFailed, literal, names
from holdfast.core.process.git_directory import create_git_directory
from holdfast.core.snapshot.errors import Operation, SnapshotError
from holdfast.core.snapshot.limits import LeftOut, SnapshotLimits, TooMuch, check_entries, left_out
from holdfast.core.snapshot.selection import select_files
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.diagnostic import Diagnostic
    from holdfast.core.project.project import Project

PATCH_LIMIT = 256 * 1024
PATCHES_LIMIT = 4 * 1024 * 1024
PATCHED_FILES = 500
"""Of one comparison: the files after that are counted and not shown."""
FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
PATCH = ("diff-tree", "-p", "--no-renames", "--no-ext-diff", "--no-textconv")
TAKE_IN = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
LEAVE_OUT = ("update-index", "--force-remove", "-z", "--stdin")
UNUSABLE_FILES = 8
"""Files that may fail while they are taken in, because they are being written at that moment."""
KEPT_INDEX = "kept-index"
"""What git knows of the files, for the next process."""
OLD_INDEX = "index"
"""The same of earlier versions, which recorded repositories below."""
ATTRIBUTES = "* -text !filter !ident !working-tree-encoding\n"
"""In our git directory: they outweigh those of the project, and leave content as it is."""
GITLINK = b"160000"
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

    def __init__(
        self,
        project: Project,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        limits: Callable[[], SnapshotLimits] = SnapshotLimits,
    ) -> None:
        self._worktree = project.directory
        name = hashlib.sha256(str(project.directory).encode()).hexdigest()[:20]
        self._store = folder / name
        self._index = self._store / f"index.{os.getpid()}.{secrets.token_hex(4)}"
        self._runner = Git(os.environ if environment is None else environment)
        self._settings: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._ready = False
        self._tree: str | None = None
        """Of the index as it is."""
        self._limits = limits
        self._left_out = LeftOut(self._store / "left-out")
        self._slow = 0
        self._off: SnapshotLimits | None = None
        """The limits that the project exceeds."""
        self._available = project.store is not None and self._runner.program(self._worktree) is not None

    @property
    def possible(self) -> bool:
        """Without a repository there is no saying which files matter. Other limits are another chance."""
        return self._available and self._off != self._limits()

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why this project has no snapshots, as far as this process or an earlier one has found out."""
        from holdfast.core.diagnostic import Diagnostic

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
                large = await self._update_index(limits)
                if self._tree is None:
                    self._tree = (await self._git("capture", "write-tree")).decode("ascii").strip()
                if large:
                    await asyncio.to_thread(self._left_out.note, self._tree, large)
            except TooMuch as error:
                self._switch_off(limits, str(error))
                raise SnapshotError("capture", str(error)) from error
            except (asyncio.CancelledError, SnapshotError):
                if time.monotonic() - began >= SLOW_SECONDS:
                    self._count_slow(limits)
                raise
            self._slow = 0
            self._problem_file.unlink(missing_ok=True)
            return self._tree

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
            self._tree = None
            listed = await self._git("restore", "ls-tree", "-r", "-z", "--full-tree", tree)
            entries = [entry.partition(b"\t") for entry in listed.split(b"\0") if entry]
            below = {os.fsdecode(path) for kind, _, path in entries if kind.startswith(GITLINK)}
            known = {os.fsdecode(path) for _, _, path in entries}
            below |= await asyncio.to_thread(self._left_out.of, tree)
            paths = [path for path in paths if path not in below]  # repositories were recorded by an earlier version
            present = [path for path in paths if path in known]
            if present:
                await self._git("restore", "checkout", tree, *FROM_INPUT, given=as_input(present))
            for path in paths:
                if path not in known:
                    await asyncio.to_thread(self._remove, path)

    def close(self) -> None:
        """What git knows of the files' times spares the next process from reading them all."""
        if self._index.exists():
            os.replace(self._index, self._store / KEPT_INDEX)

    async def _patch(self, before: str, after: str, path: str) -> str:
        patch = await self._git("diff", *PATCH, before, after, "--", *literal([path]))
        return patch.decode("utf-8", "replace") if len(patch) <= PATCH_LIMIT else ""

    def _remove(self, path: str) -> None:
        target = self._worktree / path
        # The folder is resolved, the name is not: a link is removed, never what it points to.
        folder = target.parent.resolve()
        if folder != self._worktree and self._worktree not in folder.parents:
            raise SnapshotError("restore", f"{path} leads outside the project")
        try:
            (folder / target.name).unlink(missing_ok=True)
        except (IsADirectoryError, NotADirectoryError):
            return  # something else is in its place, or in its folder's: it is gone
        except OSError as error:
            raise SnapshotError("restore", f"{path}: {error.strerror}") from error

    async def _prepare(self) -> None:
        import shutil

        if self._ready:
            return
        try:
            if not (self._store / "HEAD").exists():
                self._create()
            self._write_attributes()
            (self._store / OLD_INDEX).unlink(missing_ok=True)
            await asyncio.to_thread(self._remove_leftovers)
            if (kept := self._store / KEPT_INDEX).exists() and not self._index.exists():
                shutil.copyfile(kept, self._index)
        except OSError as error:
            raise SnapshotError("capture", str(error)) from error
        self._settings = {"core.excludesFile": await self._runner.user_excludes(self._store)}
        self._ready = True

    def _create(self) -> None:
        """Beside its place, and then there at once: another Location or process may be doing the same."""
        import shutil

        self._store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._store.with_name(f"{self._store.name}.{secrets.token_hex(4)}")
        create_git_directory(draft)
        try:
            os.rename(draft, self._store)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not (self._store / "HEAD").exists():  # half of one, by a process that died
                create_git_directory(self._store)

    def _write_attributes(self) -> None:
        path = self._store / "info" / "attributes"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="ascii", errors="replace") != ATTRIBUTES:
            path.write_text(ATTRIBUTES, encoding="ascii")

    def _remove_leftovers(self) -> None:
        """Losing one that is in use costs its owner another look at all files, no more."""
        for left in self._store.glob("index.*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - LEFT_SECONDS:
                    left.unlink()

    async def _update_index(self, limits: SnapshotLimits) -> list[str]:
        """Bring the index up to date; the files that were too large for that. Raises TooMuch."""
        selection = await select_files(partial(self._git, "capture"), self._worktree)
        large = await asyncio.to_thread(left_out, self._worktree, selection.changed, limits)
        hidden = frozenset(large)
        changed = [path for path in selection.changed if path not in hidden]
        if selection.gone or changed or not self._index.exists():
            self._tree = None
        if selection.gone:
            await self._git("capture", *LEAVE_OUT, given=separated(selection.gone))
        if changed:
            await self._take_in(changed)
            check_entries(self._index, limits)
        return large

    async def _take_in(self, paths: Sequence[str]) -> None:
        """git stops at a file that fails; the others are taken in without it."""
        left = dict.fromkeys(paths)
        for attempt in range(UNUSABLE_FILES + 1):
            try:
                await self._git("capture", *TAKE_IN, given=separated(left))
                return
            except SnapshotError as error:
                failed = _FAILED.search(error.message)
                if failed is None or failed[1] not in left or attempt == UNUSABLE_FILES:
                    raise
                del left[failed[1]]

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
        try:
            return await self._runner.run(
                *arguments,
                git_dir=self._store,
                work_tree=self._worktree,
                index=self._index,
                settings=self._settings,
                given=given,
            )
        except GitFailed as error:
            raise SnapshotError(operation, str(error)) from error


_FAILED = pattern(r"^fatal: Unable to process path (.+)$", re.MULTILINE)


def as_input(paths: Sequence[str]) -> bytes:
    """Exactly these paths for FROM_INPUT; as arguments, many of them would be more than a command line holds."""
    return b"\0".join(map(os.fsencode, literal(paths)))


def separated(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


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
