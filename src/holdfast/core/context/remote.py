"""`core/instructions/remote/…`: instructions behind the URLs that configuration names, with the last good copy kept.

Invariants
- A URL is asked at most once per `REFRESH_MILLIS` and process, whoever needs it; in between, and when asking fails,
  the last good copy is the observation. Only an answer that says so makes it absent.
- Each hop of a redirect goes through `fetch` on its own; what was sent to one origin is not sent to another."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

import msgspec

from holdfast.core.context.instructions import HEADING
from holdfast.core.context.source import REMOTE_TIMEOUT, UNAVAILABLE, JsonCodec, Source, Unavailable
from holdfast.core.context.system_context import EMPTY, combine, make
from holdfast.core.context.together import together
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Budget
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
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


class Response(Frozen):
    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes = b""


class Fetch(Protocol):
    async def __call__(self, url: str, headers: Mapping[str, str], *, limit: int) -> Response:
        """One GET; a redirect is returned, not followed. Raises FetchFailed or OSError when there is no answer, or one
        with more than `limit` bytes."""


class WebFetch:
    """The real one."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def __call__(self, url: str, headers: Mapping[str, str], *, limit: int) -> Response:
        budget = Budget(REMOTE_TIMEOUT)
        async with self._fetcher.open(url, budget=budget, headers=headers, redirects=0) as answer:
            return Response(answer.status, answer.headers, await answer.read(limit))


class RemoteInstruction(Record):
    url: str
    content: str


class Copy(Record):
    """The last good answer, as it is kept on disk."""

    url: str
    content: str
    etag: str | None = None
    last_modified: str | None = None
    time: int


class Absent:
    """Confirmed: nothing is there."""


ABSENT = Absent()
State = Copy | Absent | Unavailable

_CODEC = JsonCodec(RemoteInstruction)


class RemoteInstructions:
    """One per process. `folder` is where copies are kept."""

    def __init__(self, fetch: Fetch, folder: Path, environment: Mapping[str, str], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._folder = folder
        self._environment = environment
        self._known: dict[str, State] = {}
        self._asked: dict[str, int] = {}
        self._asking: dict[str, asyncio.Task[State]] = {}

    def load(self, urls: Sequence[str]) -> SystemContext | Awaitable[SystemContext]:
        if self._environment.get("OPENCODE_DISABLE_REMOTE_INSTRUCTIONS", "").lower() in ("1", "true"):
            return EMPTY
        if all(self._fresh(url) for url in urls):
            return combine(_context(url, self._known[url]) for url in urls)
        return self._load(urls)

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())

    async def _load(self, urls: Sequence[str]) -> SystemContext:
        states: list[State] | Awaitable[list[State]] = together([partial(self._state, url) for url in urls])
        return combine(map(_context, urls, states if isinstance(states, list) else await states))

    def _fresh(self, url: str) -> bool:
        asked = self._asked.get(url)
        return asked is not None and url in self._known and 0 <= self._clock.now() - asked < REFRESH_MILLIS

    def _state(self, url: str) -> State | Awaitable[State]:
        if self._fresh(url):
            return self._known[url]
        task = self._asking.get(url)
        if task is None:
            task = self._asking[url] = asyncio.get_running_loop().create_task(self._ask(url), name="instructions")
            task.add_done_callback(lambda _: self._asking.pop(url, None))
        # Others may wait for the same answer, so a waiter that goes away does not end it.
        return asyncio.shield(task)

    async def _ask(self, url: str) -> State:
        self._asked[url] = self._clock.now()
        known = self._known.get(url)
        copy = known if isinstance(known, Copy) else await asyncio.to_thread(self._stored, url)
        try:
            async with asyncio.timeout(REMOTE_TIMEOUT):
                answer = await self._follow(url, copy)
        except (FetchFailed, OSError, ValueError) as error:  # out of time is an OSError, a broken address a ValueError
            log.warning("instructions from %s cannot be refreshed: %s", shown(url), type(error).__name__)
            answer = UNAVAILABLE
        if isinstance(answer, Copy):
            await asyncio.to_thread(self._store, url, answer)
        elif answer is ABSENT:
            await asyncio.to_thread(self._forget, url)
        elif copy is not None:
            answer = copy
        self._known[url] = answer
        return answer

    async def _follow(self, url: str, copy: Copy | None) -> State:
        current = url
        for _ in range(REDIRECT_LIMIT + 1):
            headers = _validators(copy) if copy is not None and _origin(current) == _origin(url) else {}
            response = await self._fetch(current, headers, limit=BODY_LIMIT)
            target = response.headers.get("location")
            if response.status not in REDIRECTS or target is None:
                return self._judge(url, response, copy, at_home=_origin(current) == _origin(url))
            following = urljoin(current, target)
            if not _may_follow(current, following):
                raise FetchFailed("refused redirect")
            current = following
        raise FetchFailed("too many redirects")

    def _judge(self, url: str, response: Response, copy: Copy | None, *, at_home: bool) -> State:
        """Validators of another origin are not kept: they could only be sent where they do not belong."""
        status = response.status
        if status == 304 and copy is not None:
            return copy
        if 200 <= status < 300:
            return Copy(
                url=shown(url),
                content=response.body.decode("utf-8", "replace"),
                etag=response.headers.get("etag") if at_home else None,
                last_modified=response.headers.get("last-modified") if at_home else None,
                time=self._clock.now(),
            )
        if 400 <= status < 500 and status not in TRY_AGAIN:
            return ABSENT
        return UNAVAILABLE

    def _stored(self, url: str) -> Copy | None:
        try:
            copy: Copy = decoder(Copy).decode(self._path(url).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return copy if copy.url == shown(url) else None

    def _store(self, url: str, copy: Copy) -> None:
        """A copy that cannot be kept is no reason to fail: the answer is at hand."""
        path = self._path(url)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_bytes(encode(copy))
            os.replace(draft, path)
        except OSError as error:
            log.warning("the copy of remote instructions was not kept: %s", error)
            with suppress(OSError):
                draft.unlink()

    def _forget(self, url: str) -> None:
        try:
            self._path(url).unlink(missing_ok=True)
        except OSError as error:
            log.warning("the copy of remote instructions was not removed: %s", error)

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


def _context(url: str, state: State) -> SystemContext:
    if isinstance(state, Absent):
        return EMPTY
    value = RemoteInstruction(url=state.url, content=state.content) if isinstance(state, Copy) else state
    return make(
        Source(
            key=KEY.format(digest(url)),
            codec=_CODEC,
            load=lambda: value,
            baseline=_render,
            update=lambda _, current: f"{UPDATE.format(current.url)}\n\n{_render(current)}",
            removed=lambda current: REMOVED.format(current.url),
            optional=True,
        )
    )


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
