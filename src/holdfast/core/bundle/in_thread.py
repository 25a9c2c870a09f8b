"""Blocking work on a thread: compression, hashes, files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.run_to_completion import run_to_completion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Run it off the loop. A caller that is cancelled goes on after it, so that nobody closes a file below it."""
    return await run_to_completion(asyncio.to_thread(work, *arguments))


async def each_in_thread(items: Iterator[T]) -> AsyncIterator[T]:
    """The items of a blocking iterator."""
    nothing = object()
    while (item := await in_thread(next, items, nothing)) is not nothing:
        yield item
