"""Who caused the events that are made now: the name of the caller of a request, in its context.

The name goes into the stored metadata of the events for which somebody answers (`Definition.attributed`). It is
inherited by the tasks that complete a request; a drain works for nobody in particular and begins without it. The public
streams have the shapes of the contract, and leave it out."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

P = ParamSpec("P")
T = TypeVar("T")

BY = "by"
"""The key of the name in the metadata of an event."""

_AUTHOR: ContextVar[str | None] = ContextVar("holdfast_author", default=None)


@contextmanager
def authored(name: str | None) -> Iterator[None]:
    """Events that are made inside have this author."""
    before = _AUTHOR.set(name)
    try:
        yield
    finally:
        _AUTHOR.reset(before)


def author_name() -> str | None:
    """The author of events that would be made now."""
    return _AUTHOR.get()


def carrying_author(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The work with the present author, for a task that has none."""
    name = _AUTHOR.get()

    async def carried(*args: P.args, **options: P.kwargs) -> T:
        with authored(name):
            return await work(*args, **options)

    return carried


def without_author() -> Context:
    """A copy of the present context, for work that goes on after the request that started it."""
    context = copy_context()
    context.run(_AUTHOR.set, None)
    return context


def attributed(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The metadata of a new event, with its author if there is one."""
    name = _AUTHOR.get()
    return metadata if name is None else {**(metadata or {}), BY: name}


def without_name(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The metadata of an event as the public streams have it."""
    return {key: value for key, value in metadata.items() if key != BY} or None if metadata else None
