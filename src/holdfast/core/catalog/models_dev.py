"""The models.dev data: from the cache file, else from the bundled snapshot; refreshed in the background.

Invariants
- Reading never waits for the network while there is any data.
- The cache file is replaced atomically, under a lock, and only by data with at least one valid provider."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.catalog.dev_record import UNDECODABLE, DevModel, DevProvider, decoder
from holdfast.core.catalog.from_models_dev import provider_entries
from holdfast.core.file_lock import file_lock
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Budget, Fetcher
from holdfast.private_files import make_directory
from holdfast.schema.live_event import ModelsDevRefreshed
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.catalog.draft import ProviderEntry
    from holdfast.schema.record import Record

SOURCE = "https://models.opencode.ai"
BUNDLED = Path(__file__).with_name("models.json")
FRESH_SECONDS = 5 * 60
TIMEOUT_SECONDS = 10.0
ATTEMPTS = 3
BACKOFF_SECONDS = 0.2
SIZE_LIMIT = 64 * 1024 * 1024

log = logging.getLogger(__name__)


class ModelsDev:
    """One per process. `cache` is the directory of the cache file; without it, nothing is fetched."""

    def __init__(
        self,
        cache: Path | None,
        environment: Mapping[str, str],
        *,
        bundled: Path | None = BUNDLED,
        announce: Callable[[Record], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = environment.get("OPENCODE_MODELS_URL") or SOURCE
        named = environment.get("OPENCODE_MODELS_PATH")
        self._named = Path(named) if named else None
        self._cache = cache / _file_name(self._source) if cache else None
        self._client = environment.get("OPENCODE_CLIENT") or "cli"
        self._may_fetch = environment.get("OPENCODE_DISABLE_MODELS_FETCH", "").lower() not in ("1", "true")
        self._bundled = bundled
        self._announce = announce
        self._sleep = sleep
        self._providers: Mapping[str, DevProvider] | None = None
        self._provider_entries: Mapping[str, ProviderEntry] | None = None
        self._read_stamp: float | None = None
        self._flight: asyncio.Task[bool] | None = None
        self._listeners: list[Callable[[], None]] = []

    def providers(self) -> Mapping[str, DevProvider]:
        """The data on disk, read at the first call."""
        if self._providers is None:
            self._providers = self._read() or {}
        return self._providers

    def entries(self) -> Mapping[str, ProviderEntry]:
        """The same data as catalog entries, from which every Location starts."""
        if self._provider_entries is None:
            self._provider_entries = provider_entries(self.providers())
        return self._provider_entries

    async def refresh(self) -> bool:
        """Fetch newer data; returns whether there is any. A failure is only logged. Concurrent calls share one
        fetch."""
        if not self._may_fetch or self._cache is None:
            return False
        if self._flight is None:
            refreshing = self._refresh(self._cache)
            self._flight = asyncio.get_running_loop().create_task(refreshing, name="models.dev refresh")
            self._flight.add_done_callback(self._landed)
        return await asyncio.shield(self._flight)

    def on_refresh(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after new data can be read. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def close(self) -> None:
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait([self._flight])

    def _read(self) -> dict[str, DevProvider] | None:
        if self._named is not None:
            return _decoded(self._named)
        self._read_stamp = _stamp(self._cache) if self._cache else None
        found = _decoded(self._cache) if self._cache else None
        if found is None and self._read_stamp is not None and self._cache is not None:
            with contextlib.suppress(OSError):
                self._cache.unlink()  # unreadable data is fetched again
        if found is None and self._bundled is not None:
            found = _decoded(self._bundled)
        return found

    def _landed(self, flight: asyncio.Task[bool]) -> None:
        self._flight = None
        if not flight.cancelled():
            flight.exception()  # marks the exception as retrieved

    async def _refresh(self, cache: Path) -> bool:
        try:
            if _is_fresh(cache) and (self._providers is None or _stamp(cache) == self._read_stamp):
                return False
            async with file_lock(cache.with_suffix(".lock")):
                if not _is_fresh(cache):  # otherwise another process has refreshed it
                    valid = await asyncio.to_thread(validated, await self._fetch())
                    await asyncio.to_thread(_replace, cache, valid)
        except (OSError, TimeoutError, FetchFailed, Unusable) as error:
            log.warning("models.dev: no refresh from %s: %s", self._source, error)
            return False
        if self._named is not None:
            return False
        self._providers = self._provider_entries = None
        if self._announce is not None:
            self._announce(ModelsDevRefreshed())
        for listener in tuple(self._listeners):
            listener()
        return True

    async def _fetch(self) -> bytes:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._fetch_once()
            except (FetchFailed, Unusable) as error:
                if attempt == ATTEMPTS:
                    raise
                log.info("models.dev: attempt %d failed: %s", attempt, error)
            await self._sleep(BACKOFF_SECONDS * 2 ** (attempt - 1) * (0.8 + 0.4 * random.random()))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _fetch_once(self) -> bytes:
        headers = {"user-agent": f"opencode/holdfast/{__version__}/{self._client}", "accept": "application/json"}
        url = self._source.rstrip("/") + "/api.json"
        async with Fetcher().open(url, budget=Budget(TIMEOUT_SECONDS), headers=headers) as response:
            if response.status != 200:
                raise Unusable(f"HTTP {response.status}")
            return await response.read(SIZE_LIMIT)


class Unusable(Exception):
    """What the source answered is not data."""


def validated(data: bytes) -> bytes:
    """The data without invalid providers and models. Raises Unusable if no valid provider is left."""
    try:
        entries = decoder(_RawEntries).decode(data)
    except UNDECODABLE as error:
        raise Unusable(f"not a JSON object: {error}") from error
    valid: dict[str, dict[str, Any]] = {}
    for id, raw in entries.items():
        try:
            models = decoder(DevProvider).decode(raw).models
        except UNDECODABLE as error:
            log.warning("models.dev: provider %s dropped: %s", id, error)
        else:
            kept = {name: model for name, model in models.items() if _is_valid(id, name, model)}
            valid[id] = {**decoder(_RawEntries).decode(raw), "models": kept}
    if not valid:
        raise Unusable("no valid provider in it")
    return msgspec.json.encode(valid)


def _is_valid(provider_id: str, id: str, model: msgspec.Raw) -> bool:
    try:
        decoder(DevModel).decode(model)
    except UNDECODABLE as error:
        log.warning("models.dev: model %s/%s dropped: %s", provider_id, id, error)
        return False
    return True


def _decoded(path: Path) -> dict[str, DevProvider] | None:
    """The valid providers in a file, or None if there are none."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    try:
        return decoder(dict[str, DevProvider]).decode(data) or None
    except UNDECODABLE:
        pass
    try:
        entries = decoder(_RawEntries).decode(data)
    except UNDECODABLE as error:
        log.warning("%s: not usable: %s", path, error)
        return None
    found = {}
    for id, raw in entries.items():
        try:
            found[id] = decoder(DevProvider).decode(raw)
        except UNDECODABLE as error:
            log.warning("%s: provider %s dropped: %s", path, id, error)
    return found or None


def _replace(path: Path, data: bytes) -> None:
    make_directory(path.parent)
    atomic_write(path, data)


def _file_name(source: str) -> str:
    return "models.json" if source == SOURCE else f"models-{hashlib.sha1(source.encode()).hexdigest()}.json"


def _is_fresh(path: Path) -> bool:
    stamp = _stamp(path)
    # A time in the future is a wrong clock.
    return stamp is not None and 0 <= time.time() - stamp < FRESH_SECONDS


def _stamp(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


_RawEntries = dict[str, msgspec.Raw]
