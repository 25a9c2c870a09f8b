"""Hooks of one kind: plugins' functions that change a draft, called in registration order with a time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

from holdfast.core.plugin.bounded import BoundedCalls

if TYPE_CHECKING:
    from holdfast.core.scope import Scope

HOOK_SECONDS = 5.0

T = TypeVar("T")
Hook: TypeAlias = Callable[[T], Awaitable[None] | None]
"""Synchronous hooks run in a thread of their own."""


class Hooks(Generic[T]):
    kind: ClassVar[str]

    def __init__(self, diagnose: Callable[[str, str], None], *, timeout: float = HOOK_SECONDS) -> None:
        """`diagnose(plugin, message)` reports a failed hook to the user."""
        self._diagnose = diagnose
        self._timeout = timeout
        self._hooks: list[tuple[str, Hook[T]]] = []
        self._calls = BoundedCalls()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def register(self, owner: str, hook: Hook[T], scope: Scope) -> Callable[[], None]:
        entry = (owner, hook)
        self._hooks.append(entry)
        return scope.add(lambda: self._hooks.remove(entry))

    async def _run(self, draft: T, copy: Callable[[T], T], checked: Callable[[T, T, str], T]) -> T:
        """`checked(changed, before, plugin)` is the draft after a hook; it may raise to discard the hook's changes."""
        for owner, hook in tuple(self._hooks):
            changed = copy(draft)
            try:
                await self._calls.call(hook, changed, self._timeout)
                draft = checked(changed, draft, owner)
            except TimeoutError:
                self._diagnose(owner, f"its {self.kind} hook took longer than {self._timeout:g} s; ignored")
            except Exception as error:  # noqa: BLE001 - plugin code may raise anything
                self._diagnose(owner, f"its {self.kind} hook failed: {type(error).__name__}; ignored")
        return draft
