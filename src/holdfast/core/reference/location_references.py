"""The references of one Location: declared by configuration and plugins, checked out in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.context.system_context import EMPTY
from holdfast.core.reference.availability import unavailable
from holdfast.core.reference.guidance import reference_context
from holdfast.core.reference.reference import References
from holdfast.core.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.reference.checkouts import Checkouts
    from holdfast.core.reference.reference import Reference
    from holdfast.core.state import Batches


class LocationReferences:
    def __init__(self, repositories: Path, checkouts: Checkouts, batches: Batches) -> None:
        self.declared: State[References] = State(References, batches)
        self._repositories = repositories
        self._checkouts = checkouts
        self._resolved: tuple[References, tuple[Reference, ...]] | None = None
        self._context = reference_context(self.refreshed)

    def list(self) -> tuple[Reference, ...]:
        """Resolved once for each set of declarations: every path that a tool is given is compared with them."""
        declared = self.declared.value
        if self._resolved is None or self._resolved[0] is not declared:
            self._resolved = (declared, declared.resolve(self._repositories))
        return self._resolved[1]

    def context(self) -> SystemContext:
        return self._context if self.list() else EMPTY

    async def close(self) -> None:
        await self._checkouts.close()

    def refreshed(self) -> tuple[Reference, ...]:
        """The references, after starting the fetches that are due."""
        references = self.list()
        self._checkouts.refresh(references)
        return references

    def report(self) -> tuple[Reference, ...]:
        """The references, each with the reason why it cannot be used, if there is one."""
        found = ((reference, unavailable(reference)) for reference in self.list())
        return tuple(
            reference if problem is None else replace(reference, problem=problem.reason) for reference, problem in found
        )
