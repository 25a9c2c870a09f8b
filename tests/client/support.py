"""The synchronous client where an asynchronous one is expected, so that one suite runs over both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.generated.sync_client import Client
from holdfast.client.sync_core import SyncStream


def in_threads(client: Client, pool: ThreadPoolExecutor) -> AsyncClient:
    """Each call in a thread of its own; streams element by element."""
    return cast("AsyncClient", _Groups(client, pool))


class _Groups:
    def __init__(self, client: Client, pool: ThreadPoolExecutor) -> None:
        self._client = client
        self._pool = pool

    def __getattr__(self, group: str) -> _Group:
        return _Group(getattr(self._client, group), self._pool)


class _Group:
    def __init__(self, group: object, pool: ThreadPoolExecutor) -> None:
        self._group = group
        self._pool = pool

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._group, name)
        if inspect.signature(method).return_annotation.startswith("SyncStream"):
            return lambda *args, **given: self._elements(method(*args, **given))

        async def call(*args: Any, **given: Any) -> Any:
            return await self._run(partial(method, *args, **given))

        return call

    async def _elements(self, stream: SyncStream[Any]) -> AsyncGenerator[Any, None]:
        iteration = iter(stream)
        try:
            while (element := await self._run(partial(next, iteration, None))) is not None:
                yield element
        finally:
            await self._run(iteration.close)

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
