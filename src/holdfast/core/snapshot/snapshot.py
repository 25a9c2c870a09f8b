"""Snapshots of a project's files as git trees in a git directory of our own; the user's repository and index are never
touched.

Invariants
- Capturing a tree changes no file, and equal states give the same tree. A tree has only what was read from inside the
  worktree (verified_content.py).
- Restored paths are inside the worktree, whatever is renamed during a restore (written_files.py).
- The repository's and the user's configuration are not read: no filter runs and no line ending changes, so files are
  restored byte for byte. Nested repositories are not part of a tree, nor is the repository's own git directory.
- The store is shared by all Locations and processes of the project, and by its isolated copies; an index is not.
- A capture is bounded in file size, number of files and time; a project beyond the limits has no snapshots, and a
  diagnostic says so."""

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
from typing import TYPE_CHECKING

from holdfast.core.diagnostic import Diagnostic
from holdfast.core.process.git import Git, GitFailed, literal_pathspecs, split_nul
from holdfast.core.process.git_directory import create_git_directory
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.snapshot.errors import Operation, SnapshotError
from holdfast.core.snapshot.limits import ExcludedFiles, SnapshotLimits, TooMuch, check_entries, files_too_large
from holdfast.core.snapshot.verified_content import Correction, corrections
from holdfast.core.snapshot.written_files import SUBMODULE, entries_of, index_entries, write_files
from holdfast.private_files import make_directory
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.process.process import Sink
    from holdfast.core.project.project import Project
    from holdfast.core.snapshot import selection as file_selection
else:
    file_selection = deferred("holdfast.core.snapshot.selection")

PATCH_LIMIT = 256 * 1024
PATCHES_LIMIT = 4 * 1024 * 1024
PATCHED_FILES = 500
"""How many files of a comparison get a patch; the others only get line counts."""
FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
LIST_TREE = ("ls-tree", "-r", "-z", "--full-tree")
PATCH = ("diff-tree", "-p", "--no-renames", "--no-ext-diff", "--no-textconv")
ADD_TO_INDEX = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
REMOVE_FROM_INDEX = ("update-index", "--force-remove", "-z", "--stdin")
STORE_BLOB = ("hash-object", "-w", "--no-filters", "--stdin")
UNUSABLE_FILES = 8
"""How many files may fail in one capture, because they are being written at that moment."""
KEPT_INDEX = "kept-index"
"""The index file that the next process starts from."""
OLD_INDEX = "index"
"""The index file of earlier versions, which included nested repositories."""
ATTRIBUTES = "* -text !filter !ident !working-tree-encoding\n"
"""Attributes in our git directory; they override the project's and disable all conversions."""
LEFT_SECONDS = 24 * 60 * 60
"""An unused index older than this was left by a killed process."""
SLOW_SECONDS = 5.0
SLOW_CAPTURES = 2
"""After so many consecutive captures that failed or were cancelled after SLOW_SECONDS, snapshots are disabled."""

log = logging.getLogger(__name__)


class FileChange(Frozen):
    path: str
    status: str
    """added, modified or deleted."""
    additions: int
    deletions: int
    patch: str


class Snapshots:
    """The snapshots of one project, for one Location. Captures and restores run one at a time."""

    def __init__(
        self,
        project: Project,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        limits: Callable[[], SnapshotLimits] = SnapshotLimits,
        shared: Path | None = None,
    ) -> None:
        """`shared` is the store of another worktree that this one is an isolated copy of."""
        self._worktree = project.directory
        self._store = shared or store_of(folder, project.directory)
        self._kept = self._store / KEPT_INDEX if shared is None else kept_index_of_copy(shared, project.directory)
        self._index = self._store / f"index.{os.getpid()}.{secrets.token_hex(4)}"
        self._excluded = exclusion(project) if shared is None else None
        self._runner = Git(os.environ if environment is None else environment)
        self._settings: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._ready = False
        self._tree: str | None = None
        """The tree of the current index; None if unknown."""
        self.nested: tuple[str, ...] = ()
        """The nested repositories at the last capture, as folders with a slash at the end."""
        self._limits = limits
        self._left_out = ExcludedFiles(self._store / "left-out")
        self._slow = 0
        self._off: SnapshotLimits | None = None
        """The limits that the project exceeds."""
        self._available = project.store is not None and self._runner.program(self._worktree) is not None

    @property
    def store(self) -> Path:
        """The git directory with the trees."""
        return self._store

    @property
    def current_limits(self) -> SnapshotLimits:
        return self._limits()

    @property
    def possible(self) -> bool:
        """Whether snapshots are available: they need a repository, and limits that the project did not exceed."""
        return self._available and self._off != self._limits()

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why this project has no snapshots, as found by this process or an earlier one."""
        try:
            return (Diagnostic(str(self._worktree), self._problem_file.read_text(encoding="utf-8")),)
        except OSError:
            return ()

    async def capture(self) -> str:
        """The tree of all current files that are readable, not ignored and not too large."""
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
        """Paths that differ, relative to the worktree. Files excluded from either tree count as unchanged."""
        out = await self._git("files", "diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
        hidden = await asyncio.to_thread(self._left_out.of, before, after)
        return [name for name in split_nul(out) if name not in hidden]

    async def left_out(self, tree: str) -> set[str]:
        """Files that were too large for the tree."""
        return await asyncio.to_thread(self._left_out.of, tree)

    async def diff(self, before: str, after: str, paths: Sequence[str]) -> list[FileChange]:
        """The changes of those paths that differ."""
        if not paths:
            return []
        asked = set(paths)
        compare = ("diff-tree", "-r", "--no-renames", "-z")
        status = _pairs(await self._git("diff", *compare, "--name-status", before, after))
        counts = await self._git("diff", *compare, "--numstat", before, after)
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
        """Restore these files from the tree; files that are not in the tree are removed."""
        if not paths:
            return
        async with self._turn:
            await self._prepare()
            self._tree = None
            entries = list(entries_of(await self._git("restore", *LIST_TREE, tree)))
            known = {entry.path for entry in entries}
            # Earlier versions recorded nested repositories.
            kept = {entry.path for entry in entries if entry.mode == SUBMODULE}
            kept |= await asyncio.to_thread(self._left_out.of, tree)
            chosen = set(paths) - kept
            present = [entry for entry in entries if entry.path in chosen]
            removed = [path for path in paths if path in chosen and path not in known]
            run = partial(self._git, "restore")
            try:
                await run_to_completion(write_files(run, self._worktree, present, removed, scratch=self._store))
            except (GitFailed, OSError) as error:
                raise SnapshotError("restore", str(error)) from error

    def close(self) -> None:
        """Keep the index: with its file times the next process does not have to read all files."""
        if self._index.exists():
            os.replace(self._index, self._kept)

    async def _patch(self, before: str, after: str, path: str) -> str:
        patch = await self._git("diff", *PATCH, before, after, "--", *literal_pathspecs([path]))
        return patch.decode("utf-8", "replace") if len(patch) <= PATCH_LIMIT else ""

    async def _prepare(self) -> None:
        import shutil

        if self._ready:
            return
        try:
            if not (self._store / "HEAD").exists():
                self._create()
            self._write_info("attributes", ATTRIBUTES)
            if self._excluded is not None:
                self._write_info("exclude", self._excluded)
            (self._store / OLD_INDEX).unlink(missing_ok=True)
            await asyncio.to_thread(self._remove_leftovers)
            if self._kept.exists() and not self._index.exists():
                # With its time, from which git knows whose times do not tell if they changed.
                shutil.copy2(self._kept, self._index)
        except OSError as error:
            raise SnapshotError("capture", str(error)) from error
        self._settings = {"core.excludesFile": await self._runner.user_excludes(self._store)}
        self._ready = True

    def _create(self) -> None:
        """Create the store under a temporary name and rename it, because other processes may do the same."""
        import shutil

        make_directory(self._store.parent)
        draft = self._store.with_name(f"{self._store.name}.{secrets.token_hex(4)}")
        create_git_directory(draft)
        try:
            os.rename(draft, self._store)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not (self._store / "HEAD").exists():  # incomplete, left by a killed process
                create_git_directory(self._store)

    def _write_info(self, name: str, text: str) -> None:
        path, content = self._store / "info" / name, os.fsencode(text)
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)

    def _remove_leftovers(self) -> None:
        """Remove old index files. If one is in use, its owner only has to read all files again."""
        for left in self._store.glob("index.*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - LEFT_SECONDS:
                    left.unlink()

    async def _update_index(self, limits: SnapshotLimits) -> list[str]:
        """Update the index; returns the files that were too large. Raises TooMuch."""
        selection = await file_selection.select_files(partial(self._git, "capture"), self._worktree)
        self.nested = selection.nested
        large = await asyncio.to_thread(files_too_large, self._worktree, selection.changed, limits)
        hidden = frozenset(large)
        changed = [path for path in selection.changed if path not in hidden]
        if selection.deleted or changed or not self._index.exists():
            self._tree = None
        if selection.deleted:
            await self._git("capture", *REMOVE_FROM_INDEX, stdin=nul_terminated(selection.deleted))
        if changed:
            await self._add_to_index(changed)
            await self._correct_index(changed, limits)
            check_entries(self._index, limits)
        return large

    async def _add_to_index(self, paths: Sequence[str]) -> None:
        """git stops at a file that fails; retry without that file."""
        left = dict.fromkeys(paths)
        for attempt in range(UNUSABLE_FILES + 1):
            try:
                await self._git("capture", *ADD_TO_INDEX, stdin=nul_terminated(left))
                return
            except SnapshotError as error:
                failed = _FAILED.search(error.message)
                if failed is None or failed[1] not in left or attempt == UNUSABLE_FILES:
                    raise
                del left[failed[1]]

    async def _correct_index(self, paths: Sequence[str], limits: SnapshotLimits) -> None:
        """Compare what git has read with the files."""
        listed = await self._git("capture", "ls-files", "-s", "-z")
        chosen = set(paths)

        def compare() -> list[Correction]:
            entries = (entry for entry in index_entries(listed) if entry.path in chosen)
            return list(corrections(self._worktree, entries, limits.file_bytes))

        found = await asyncio.to_thread(compare)
        if missing := [one.path for one in found if one.data is None]:
            await self._git("capture", *REMOVE_FROM_INDEX, stdin=nul_terminated(missing))
        for one in found:
            if one.data is not None:
                blob = await self._git("capture", *STORE_BLOB, stdin=one.data)
                entry = f"{one.mode} {blob.decode('ascii').strip()}\t{one.path}\0"
                await self._git("capture", "update-index", "-z", "--index-info", stdin=os.fsencode(entry))

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

    async def _git(
        self, operation: Operation, *arguments: str, stdin: bytes = b"", output: Sink | None = None
    ) -> bytes:
        try:
            return await self._runner.run(
                *arguments,
                git_dir=self._store,
                work_tree=self._worktree,
                index=self._index,
                settings=self._settings,
                stdin=stdin,
                output=output,
            )
        except GitFailed as error:
            raise SnapshotError(operation, str(error)) from error


_SPECIAL = pattern(r"[\\*?\[ ]")
_ESCAPED = r"\\\g<0>"
_FAILED = pattern(r"^fatal: Unable to process path (.+)$", re.MULTILINE)


def exclusion(project: Project) -> str | None:
    """An ignore pattern for a git directory among the project's files, such as `.bare`: git knows only `.git`."""
    if project.store is None or not project.store.is_relative_to(project.directory):
        return None
    inside = str(project.store.relative_to(project.directory))
    if inside == ".git" or "\n" in inside:
        return None
    return f"/{_SPECIAL.sub(_ESCAPED, inside)}/\n"


def store_of(folder: Path, worktree: Path) -> Path:
    """Where the trees of a worktree are stored."""
    return folder / _name(worktree)


def kept_index_of_copy(store: Path, worktree: Path) -> Path:
    """The index that the snapshots of an isolated copy start from."""
    return store / f"{KEPT_INDEX}-{_name(worktree)}"


def _name(worktree: Path) -> str:
    return hashlib.sha256(str(worktree).encode()).hexdigest()[:20]


def pathspec_input(paths: Sequence[str]) -> bytes:
    """Exactly these paths as input for FROM_INPUT: too many would not fit into a command line."""
    return b"\0".join(map(os.fsencode, literal_pathspecs(paths)))


def nul_terminated(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _pairs(out: bytes) -> dict[str, str]:
    words = [word for word in out.split(b"\0") if word]
    kinds = {b"A": "added", b"D": "deleted"}
    return {
        os.fsdecode(path): kinds.get(kind[:1], "modified") for kind, path in zip(words[::2], words[1::2], strict=False)
    }


def _count(text: bytes) -> int:
    return int(text) if text.isdigit() else 0
