"""Evaluate several calls at once. Calls that answer directly cost no task; awaitables run side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")


def awaits(given: object) -> TypeGuard[Awaitable[Any]]:
    return hasattr(given, "__await__")


def together(calls: Iterable[Callable[[], T | Awaitable[T]]]) -> list[T] | Awaitable[list[T]]:
    """Results in the order of the calls: at once if all answer directly, else to be awaited. The first failure ends
    the others and is raised as it is."""
    given: list[T | Awaitable[T]] = []
    try:
        for call in calls:
            given.append(call())
    except Exception as error:
        if not any(map(awaits, given)):
            raise
        given.append(_fail(error))  # what was begun before it is ended in an orderly way
    waiting = [index for index, item in enumerate(given) if awaits(item)]
    return _all(given, waiting) if waiting else cast("list[T]", given)


async def _all(given: list[T | Awaitable[T]], waiting: list[int]) -> list[T]:
    results = cast("list[T]", given)
    if len(waiting) == 1:
        results[waiting[0]] = await cast("Awaitable[T]", given[waiting[0]])
        return results
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_resolve(cast("Awaitable[T]", given[index]))) for index in waiting]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    for index, task in zip(waiting, tasks, strict=True):
        results[index] = task.result()
    return results


async def _fail(error: Exception) -> NoReturn:
    raise error


async def _resolve(awaitable: Awaitable[T]) -> T:
    return await awaitable
