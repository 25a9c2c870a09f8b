"""Carrying uncommitted changes from one checkout to another: captured, applied there, and only then discarded here.
The user's index is left as it is in both places."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from holdfast.core.process.git import Git, GitFailed, literal, names
from holdfast.core.snapshot.errors import TransferError
from holdfast.core.snapshot.snapshot import FROM_INPUT, as_input
from holdfast.schema.frozen import Frozen


class Changes(Frozen):
    """Everything below a directory that differs from the last commit, untracked files included."""

    root: Path
    patch: bytes
    added: tuple[str, ...]
    changed: tuple[str, ...]


async def capture(root: Path, directory: Path) -> Changes:
    below = os.path.relpath(directory, root)
    spec = literal(["" if below == "." else below])
    git = Git(os.environ)
    try:
        with _scratch_index() as index:
            await git.run("read-tree", "HEAD", directory=root, variables=index)
            await git.run("add", "--all", "--", *spec, directory=root, variables=index)
            compare = ("diff-index", "--cached", "--no-renames", "HEAD")
            patch = await git.run(*compare, "--binary", "-p", "--", *spec, directory=root, variables=index)
            new = ("--diff-filter=A", "-z", "--name-only", "--", *spec)
            old = ("--diff-filter=a", "-z", "--name-only", "--", *spec)
            added = names(await git.run(*compare, *new, directory=root, variables=index))
            changed = names(await git.run(*compare, *old, directory=root, variables=index))
    except GitFailed as error:
        raise TransferError("capture", str(directory), str(error)) from error
    return Changes(root, patch, tuple(added), tuple(changed))


async def apply(changes: Changes, root: Path) -> None:
    if not changes.patch:
        return
    try:
        await Git(os.environ).run("apply", "--binary", "--whitespace=nowarn", directory=root, given=changes.patch)
    except GitFailed as error:
        raise TransferError("apply", str(root), str(error)) from error


async def discard(changes: Changes) -> None:
    git = Git(os.environ)
    try:
        if changes.changed:
            with _scratch_index() as index:
                await git.run("read-tree", "HEAD", directory=changes.root, variables=index)
                restore = ("checkout", "HEAD", *FROM_INPUT)
                await git.run(*restore, directory=changes.root, variables=index, given=as_input(changes.changed))
        for path in changes.added:
            await asyncio.to_thread((changes.root / path).unlink, missing_ok=True)
    except (GitFailed, OSError) as error:
        raise TransferError("reset", str(changes.root), str(error)) from error


class _scratch_index:
    def __enter__(self) -> dict[str, str]:
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-index-")
        return {"GIT_INDEX_FILE": str(Path(self._folder.name) / "index")}

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
