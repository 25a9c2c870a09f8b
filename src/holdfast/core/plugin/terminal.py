"""Terminal hooks: variables that plugins add to the environment of a terminal.

Invariants
- Hooks run one after the other, each on a copy: a hook that raises or takes too long has changed nothing.
- A hook gets the two directories and the variables of earlier hooks, never the runtime's own environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from holdfast.core.plugin.bounded import Patience
from holdfast.core.pty.variables import check_variables

if TYPE_CHECKING:
    from holdfast.core.scope import Scope

HOOK_SECONDS = 5.0


@dataclass
class TerminalDraft:
    """A terminal that is about to start, as a hook sees it."""

    directory: str
    """Of the Location."""
    cwd: str
    """Where the terminal starts, which may be elsewhere."""
    variables: dict[str, str] = field(default_factory=dict)
    """What to add; what earlier hooks added is here and can be changed."""


TerminalHook: TypeAlias = Callable[[TerminalDraft], Awaitable[None] | None]
"""What is synchronous runs in a thread of its own."""


class TerminalHooks:
    def __init__(self, diagnose: Callable[[str, str], None], *, timeout: float = HOOK_SECONDS) -> None:
        """`diagnose(plugin, message)` tells a person."""
        self._diagnose = diagnose
        self._timeout = timeout
        self._hooks: list[tuple[str, TerminalHook]] = []
        self._patience = Patience()

    def register(self, owner: str, hook: TerminalHook, scope: Scope) -> Callable[[], None]:
        entry = (owner, hook)
        self._hooks.append(entry)
        return scope.add(lambda: self._hooks.remove(entry))

    async def variables(self, directory: str, cwd: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for owner, hook in tuple(self._hooks):
            draft = TerminalDraft(directory, cwd, dict(found))
            try:
                await self._patience.call(hook, draft, self._timeout)
                found = check_variables(draft.variables)
            except TimeoutError:
                self._diagnose(owner, f"its terminal hook took longer than {self._timeout:g} s; ignored")
            except Exception as error:  # noqa: BLE001 - a plugin's defect is the plugin's
                self._diagnose(owner, f"its terminal hook failed: {type(error).__name__}; ignored")
        return found
