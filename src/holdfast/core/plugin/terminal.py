"""Terminal hooks: environment variables that plugins add to a terminal.

Invariants
- Hooks run one after the other, each on a copy: a hook that raises or times out has no effect.
- A hook gets the two directories and the variables of earlier hooks, never the runtime's own environment."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.plugin.hooks import Hook, Hooks
from holdfast.core.pty.variables import check_variables


class TerminalDraft(msgspec.Struct):
    """A new terminal as hooks see it."""

    directory: str
    """The Location's directory."""
    cwd: str
    """The terminal's working directory."""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables to add, including those of earlier hooks."""


TerminalHook: TypeAlias = Hook[TerminalDraft]


class TerminalHooks(Hooks[TerminalDraft]):
    kind = "terminal"

    async def variables(self, directory: str, cwd: str) -> dict[str, str]:
        found = await self._run(TerminalDraft(directory, cwd), _copy, _checked)
        return found.variables


def _copy(draft: TerminalDraft) -> TerminalDraft:
    return replace(draft, variables=dict(draft.variables))


def _checked(changed: TerminalDraft, before: TerminalDraft, plugin: str) -> TerminalDraft:
    return replace(before, variables=check_variables(changed.variables))
