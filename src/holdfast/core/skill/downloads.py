"""Local copies of the skills behind URLs, shared by all processes of an installation and refreshed in the background.

Invariants
- Readers use only the disk: an index file beside the copies lists the valid ones.
- A copy is replaced as a whole; a refresh that fails leaves the last good copy and the index unchanged.
- No file of a skill is requested before its whole index entry has been validated."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import random
import time
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.context.remote import shown
from holdfast.core.file_lock import try_lock
from holdfast.core.skill.index import VERSION_FILE, IndexEntry, main_file, parse_index, path_in_url
from holdfast.core.skill.reader import SkillFiles
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Budget
from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.web.fetch import Fetcher

REFRESH_SECONDS = 5 * 60.0
RETRY_SECONDS = 30.0
"""After a failed refresh."""
FIRST_SECONDS = 5.0
"""How long a first read waits for a site; after that its skills appear once they are downloaded."""
INDEX_BYTES = 1024 * 1024
FILE_BYTES = 5 * 1024 * 1024
REQUEST_SECONDS = 30.0
ATTEMPTS = 3
BACKOFF_SECONDS = 0.2
SKILLS_AT_ONCE = 4
FILES_AT_ONCE = 8

log = logging.getLogger(__name__)


class SkillDownloads:
    def __init__(
        self,
        cache: Path,
        fetcher: Fetcher,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: float = BACKOFF_SECONDS,
    ) -> None:
        self._folder = cache / "skills"
        self._fetcher = fetcher
        self._now = now
        self._pause = pause
        self._due: dict[str, float] = {}
        self._refreshes: dict[str, asyncio.Task[None]] = {}

    def ready(self, url: str) -> bool:
        """Whether a copy exists or was attempted. Starts a refresh if one is due."""
        base = _base(url)
        if base not in self._refreshes and self._now() >= self._due.get(base, float("-inf")):
            self._refreshes[base] = asyncio.get_running_loop().create_task(self._run_refresh(base))
        return base in self._due or self._index(base).exists()

    async def first(self, url: str) -> None:
        """Wait for the first attempt if there is no copy yet, for a bounded time."""
        refresh = None if self.ready(url) else self._refreshes.get(_base(url))
        if refresh is not None:
            await asyncio.wait({refresh}, timeout=FIRST_SECONDS)
            self._due.setdefault(_base(url), float("-inf"))

    def find(self, url: str) -> SkillFiles:
        """The files of the skills in the last good index."""
        index = self._index(_base(url))
        try:
            names = msgspec.json.decode(index.read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):
            names = []
        files: list[tuple[str, str | None]] = []
        for name in names:
            folder = self._copy(_base(url), name)
            present = tuple(file for file in ("SKILL.md", f"{name}.md") if os.path.isfile(folder / file))
            if (main := main_file(name, present)) is not None:
                files.append((str(folder / main), name))
        return SkillFiles((str(index),), tuple(files))

    async def close(self) -> None:
        refreshes = list(self._refreshes.values())
        for refresh in refreshes:
            refresh.cancel()
        await asyncio.gather(*refreshes, return_exceptions=True)

    # -- refreshing ----------------------------------------------------------------------------------------------

    async def _run_refresh(self, base: str) -> None:
        wait = RETRY_SECONDS
        try:
            make_directory(self._folder)
            with try_lock(self._folder / f"{_hash(base)}.lock") as mine:
                if mine:
                    await self._refresh(base)
            wait = REFRESH_SECONDS
        except (FetchFailed, OSError, msgspec.DecodeError) as error:
            log.warning("skills of %s could not be refreshed: %s", shown(base), error)
        finally:
            self._due[base] = self._now() + wait
            del self._refreshes[base]

    async def _refresh(self, base: str) -> None:
        import shutil

        entries, problems = parse_index(await self._get(base + "index.json", INDEX_BYTES, attempts=ATTEMPTS))
        for problem in problems:
            log.warning("a skill of %s was left out: %s", shown(base), problem)
        shutil.rmtree(self._staging(base), ignore_errors=True)  # left by a process that ended
        skills, files = asyncio.Semaphore(SKILLS_AT_ONCE), asyncio.Semaphore(FILES_AT_ONCE)

        async def refresh(entry: IndexEntry) -> None:
            async with skills:
                try:
                    await self._refresh_skill(base, entry, files)
                except* (FetchFailed, OSError) as errors:
                    log.warning("skill %r of %s is kept as it was: %s", entry.name, shown(base), errors.exceptions[0])

        await asyncio.gather(*(refresh(entry) for entry in entries))
        shutil.rmtree(self._staging(base), ignore_errors=True)
        names = [entry.name for entry in entries if os.path.isdir(self._copy(base, entry.name))]
        _write(self._index(base), msgspec.json.encode(names))

    async def _refresh_skill(self, base: str, entry: IndexEntry, slots: asyncio.Semaphore) -> None:
        copy = self._copy(base, entry.name)
        if os.path.isdir(copy) and entry.version in (None, _version(copy)):
            missing = tuple(file for file in entry.files if not (copy / file).exists())
            await self._fetch_into(copy, base, entry.name, missing, slots)
            return
        fresh = self._staging(base) / "fresh" / entry.name
        await self._fetch_into(fresh, base, entry.name, entry.files, slots)
        if entry.version is not None:
            _write(fresh / VERSION_FILE, entry.version.encode())
        _swap(fresh, copy, self._staging(base) / "old" / entry.name)

    async def _fetch_into(
        self, folder: Path, base: str, name: str, files: tuple[str, ...], slots: asyncio.Semaphore
    ) -> None:
        async def fetch(file: str) -> None:
            async with slots:
                data = await self._get(base + path_in_url(name, file), FILE_BYTES)
                await asyncio.to_thread(_write, folder / file, data)

        async with asyncio.TaskGroup() as group:
            for file in files:
                group.create_task(fetch(file))

    async def _get(self, url: str, limit: int, *, attempts: int = 1) -> bytes:
        for attempt in range(attempts):
            try:
                async with self._fetcher.open(url, budget=Budget(REQUEST_SECONDS)) as response:
                    if not response.ok:
                        raise FetchFailed(f"status {response.status}")
                    return await response.read(limit)
            except FetchFailed:
                if attempt + 1 == attempts:
                    raise
            await asyncio.sleep(self._pause * 2**attempt * random.uniform(0.5, 1.5))
        raise AssertionError("the last attempt raises")

    def _index(self, base: str) -> Path:
        return self._folder / f"{_hash(base)}.json"

    def _staging(self, base: str) -> Path:
        return self._folder / f"{_hash(base)}.new"

    def _copy(self, base: str, name: str) -> Path:
        return self._folder / _hash(base) / name


def _base(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"


def _hash(base: str) -> str:
    return hashlib.sha256(base.encode()).hexdigest()[:32]


def _version(copy: Path) -> str | None:
    try:
        return (copy / VERSION_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, data: bytes) -> None:
    """A file with the same content is not touched, so that readers do not parse it again."""
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, data)


def _swap(fresh: Path, copy: Path, old: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    old.parent.mkdir(parents=True, exist_ok=True)
    if copy.exists():
        copy.rename(old)
    try:
        fresh.rename(copy)
    except OSError:
        if old.exists():
            old.rename(copy)
        raise
