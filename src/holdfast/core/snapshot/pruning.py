"""Removes objects of file snapshots that no Session needs any more.

Invariants
- What a stored message, a staged revert or an isolated copy names stays, and what an index refers to, so that the next
  capture finds it.
- Objects younger than an hour stay: a capture of another process may be about to use them. git makes an object young
  again when it is captured again.
- If anything about a store is not understood, the store stays as it is."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.process.git import Git, GitFailed
from holdfast.core.snapshot.snapshot import KEPT_INDEX
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from holdfast.core.database.database import Database
    from holdfast.core.snapshot.copy_record import CopyFolder

EXPIRY = "1.hour.ago"
MOST_TREES = 20_000
"""Trees that are named on one command line. A store with more is left as it is."""
PAGE = 200
LAST = "t"
"""After every id of a Session."""
_TREE = pattern(rb"\b[0-9a-f]{40}\b")

log = logging.getLogger(__name__)


class Pruned(Frozen):
    removed: int = 0
    postponed: int = 0
    """Not needed, and too young."""


class SnapshotPruning:
    def __init__(self, database: Database, folder: Path, copies: CopyFolder, environment: Mapping[str, str]) -> None:
        self._database = database
        self._folder = folder
        self._copies = copies
        self._git = Git(environment, seconds=600)

    async def prune(self) -> Pruned:
        stores = await asyncio.to_thread(lambda: list(_stores(self._folder)))
        if not stores:
            return Pruned()
        needed = await self._named_trees()
        removed = postponed = 0
        for store in stores:
            try:
                pruned = await self._prune(store, needed)
            except (GitFailed, OSError) as error:
                log.warning("the snapshots in %s stay: %s", store, error)
                continue
            removed += pruned.removed
            postponed += pruned.postponed
        return Pruned(removed, postponed)

    async def _named_trees(self) -> set[bytes]:
        """Every tree that a Session may still be reverted to or compared with, of all projects."""
        found: set[bytes] = set()
        after = ""
        while after != LAST:
            page = await self._database.fetch_large("snapshot.sessions", {"after": after, "limit": PAGE})
            through = str(page[-1][0]) if page else LAST
            for (text,) in await self._database.fetch_large("snapshot.texts", {"after": after, "through": through}):
                found.update(_TREE.findall(str(text).encode()))
            after = through
        for record in await asyncio.to_thread(lambda: list(self._copies.records())):
            found.update(tree.encode() for tree in (record.base, record.result) if tree)
        return found

    async def _prune(self, store: Path, needed: set[bytes]) -> Pruned:
        # A store without any tree that is needed is pruned as well: its indexes still count.
        heads = await self._present(store, needed)
        for index in await asyncio.to_thread(lambda: list(_indexes(store))):
            tree = await self._git.run("write-tree", git_dir=store, index=index)
            heads.append(tree.decode("ascii").strip())
        if len(heads) > MOST_TREES:
            log.warning(
                "the snapshots in %s stay: %d trees are needed, at most %d are named", store, len(heads), MOST_TREES
            )
            return Pruned()
        every = await self._count(store, "now", heads)
        old = await self._count(store, EXPIRY, heads)
        if old:
            await self._git.run("prune", f"--expire={EXPIRY}", "--", *heads, git_dir=store)
        return Pruned(old, every - old)

    async def _present(self, store: Path, trees: set[bytes]) -> list[str]:
        if not trees:
            return []
        asked = b"".join(tree + b"\n" for tree in sorted(trees))
        told = await self._git.run("cat-file", "--batch-check", git_dir=store, stdin=asked)
        return [line.split()[0].decode() for line in told.splitlines() if line.split()[1:2] == [b"tree"]]

    async def _count(self, store: Path, expiry: str, heads: list[str]) -> int:
        arguments = ("prune", "--dry-run", f"--expire={expiry}", "--", *heads)
        return len((await self._git.run(*arguments, git_dir=store)).splitlines())


def _stores(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if (folder / name / "HEAD").is_file():
                yield folder / name


def _indexes(store: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(store)):
        if name.startswith((KEPT_INDEX, "index.")) and not name.endswith(".lock"):
            yield store / name
