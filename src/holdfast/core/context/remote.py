"""`core/instructions/remote/…`: instructions behind the URLs that configuration names.

Invariants
- A URL is fetched at most once per `REFRESH_MILLIS` and process, shared by all Sessions. In between, and when a fetch
  fails, the last good copy is the value. Only a response that says so makes it absent.
- Each hop of a redirect goes through `fetch` on its own. Validators are sent to the configured origin only."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.context.instructions import HEADING
from holdfast.core.context.source import (
    ABSENT,
    REMOTE_TIMEOUT,
    UNAVAILABLE,
    Absent,
    JsonCodec,
    Source,
    Unavailable,
)
from holdfast.core.context.system_context import EMPTY, combine, make
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Budget
from holdfast.private_files import make_directory
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from holdfast.core.clock import Clock
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.web.fetch import Fetcher

CONTRIBUTION = "core/instructions-remote"
KEY = "core/instructions/remote/{}"
UPDATE = "The following instructions replace those given before from {}."
REMOVED = "The instructions given before from {} are no longer in force."

REFRESH_MILLIS = 300_000
REDIRECT_LIMIT = 5
BODY_LIMIT = 1024 * 1024
REDIRECTS = frozenset((301, 302, 303, 307, 308))
TRY_AGAIN = frozenset((408, 425, 429))

log = logging.getLogger(__name__)


class HopResponse(Frozen):
    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes = b""


class Fetch(Protocol):
    async def __call__(self, url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        """One GET, at the configured URL or where it led; a redirect is returned, not followed. Raises FetchFailed or
        OSError if there is no response, or its body has more than `limit` bytes."""


class WebFetch:
    """Fetches over the network."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def __call__(self, url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        budget = Budget(REMOTE_TIMEOUT)
        async with self._fetcher.open(
            url, budget=budget, configured=configured, headers=headers, redirects=0
        ) as response:
            return HopResponse(response.status, response.headers, await response.read(limit))


class RemoteInstruction(Record):
    url: str
    content: str


class Copy(Record):
    """The last good response, as stored on disk."""

    url: str
    content: str
    etag: str | None = None
    last_modified: str | None = None
    time: int


State = Copy | Absent | Unavailable


class RemoteInstructions:
    """One per process. Copies are stored in `folder`."""

    def __init__(self, fetch: Fetch, folder: Path, environment: Mapping[str, str], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._folder = folder
        self._environment = environment
        self._states: dict[str, State] = {}
        self._fetched_at: dict[str, int] = {}
        self._fetching: dict[str, asyncio.Task[State]] = {}

    def context(self, urls: Sequence[str]) -> SystemContext:
        """One source per URL. Sources that have to be fetched are not immediate."""
        if self._environment.get("OPENCODE_DISABLE_REMOTE_INSTRUCTIONS", "").lower() in ("1", "true"):
            return EMPTY
        return combine(make(self._source(url)) for url in urls)

    def fetched(self, urls: Sequence[str]) -> dict[str, int]:
        """Those of these URLs that are being fetched, as people see them, each with the time when that began."""
        return {shown(url): self._fetched_at[url] for url in urls if url in self._fetching and url in self._fetched_at}

    async def close(self) -> None:
        for task in self._fetching.values():
            task.cancel()
        if self._fetching:
            await asyncio.wait(self._fetching.values())

    def _source(self, url: str) -> Source[RemoteInstruction]:
        return Source(
            key=KEY.format(digest(url)),
            codec=_CODEC,
            load=partial(self._load, url),
            baseline=_render,
            update=lambda _, current: f"{UPDATE.format(current.url)}\n\n{_render(current)}",
            removed=lambda current: REMOVED.format(current.url),
            optional=True,
            immediate=self._fresh(url),
        )

    async def _load(self, url: str) -> RemoteInstruction | Unavailable | Absent:
        state = self._states[url] if self._fresh(url) else await self._refreshed(url)
        return RemoteInstruction(url=state.url, content=state.content) if isinstance(state, Copy) else state

    def _fresh(self, url: str) -> bool:
        fetched_at = self._fetched_at.get(url)
        return fetched_at is not None and url in self._states and 0 <= self._clock.now() - fetched_at < REFRESH_MILLIS

    async def _refreshed(self, url: str) -> State:
        task = self._fetching.get(url)
        if task is None:
            task = self._fetching[url] = asyncio.get_running_loop().create_task(self._refresh(url), name="instructions")
            task.add_done_callback(lambda _: self._fetching.pop(url, None))
        # Other Sessions may wait for the same response, so cancelling one of them does not cancel the fetch.
        return await asyncio.shield(task)

    async def _refresh(self, url: str) -> State:
        self._fetched_at[url] = self._clock.now()
        known = self._states.get(url)
        copy = known if isinstance(known, Copy) else await asyncio.to_thread(self._read_copy, url)
        try:
            async with asyncio.timeout(REMOTE_TIMEOUT):
                state = await self._follow(url, copy)
        except (FetchFailed, OSError, ValueError) as error:  # TimeoutError is an OSError; a bad URL is a ValueError
            log.warning("instructions from %s cannot be refreshed: %s", shown(url), type(error).__name__)
            state = UNAVAILABLE
        if state is UNAVAILABLE:
            state = copy or UNAVAILABLE
        elif state is not copy:
            await asyncio.to_thread(self._write_copy, url, state if isinstance(state, Copy) else None)
        self._states[url] = state
        return state

    async def _follow(self, url: str, copy: Copy | None) -> State:
        current = url
        for _ in range(REDIRECT_LIMIT + 1):
            same_origin = _origin(current) == _origin(url)
            headers = _validators(copy) if copy is not None and same_origin else {}
            response = await self._fetch(current, headers, configured=url, limit=BODY_LIMIT)
            target = response.headers.get("location")
            if response.status not in REDIRECTS or target is None:
                return self._state_from(url, response, copy, same_origin=same_origin)
            following = urljoin(current, target)
            if not _may_follow(current, following):
                raise FetchFailed("refused redirect")
            current = following
        raise FetchFailed("too many redirects")

    def _state_from(self, url: str, response: HopResponse, copy: Copy | None, *, same_origin: bool) -> State:
        """Validators of another origin are not stored: they would be sent to the configured one."""
        status = response.status
        if status == 304 and copy is not None:
            return copy
        if 200 <= status < 300:
            return Copy(
                url=shown(url),
                content=response.body.decode("utf-8", "replace"),
                etag=response.headers.get("etag") if same_origin else None,
                last_modified=response.headers.get("last-modified") if same_origin else None,
                time=self._clock.now(),
            )
        if 400 <= status < 500 and status not in TRY_AGAIN:
            return ABSENT
        return UNAVAILABLE

    def _read_copy(self, url: str) -> Copy | None:
        try:
            copy: Copy = decoder(Copy).decode(self._path(url).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return copy if copy.url == shown(url) else None

    def _write_copy(self, url: str, copy: Copy | None) -> None:
        """Store or remove the copy. A failure is logged only: this process has the response."""
        path = self._path(url)
        try:
            if copy is None:
                path.unlink(missing_ok=True)
            else:
                make_directory(self._folder)
                atomic_write(path, encode(copy))
        except OSError as error:
            log.warning("the copy of remote instructions was not updated: %s", error)

    def _path(self, url: str) -> Path:
        return self._folder / f"{digest(url)}.json"


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def shown(url: str) -> str:
    """The URL without credentials, for people and models."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _render(instruction: RemoteInstruction) -> str:
    return HEADING.format(instruction.url, instruction.content)


def _validators(copy: Copy) -> dict[str, str]:
    found = {"if-none-match": copy.etag, "if-modified-since": copy.last_modified}
    return {name: value for name, value in found.items() if value is not None}


def _may_follow(current: str, following: str) -> bool:
    scheme = urlsplit(following).scheme
    return scheme == "https" or (scheme == "http" and urlsplit(current).scheme == "http")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


_CODEC = JsonCodec(RemoteInstruction)
