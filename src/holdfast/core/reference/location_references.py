"""The references of one Location: declared by configuration and plugins, checked out in the background."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.context.system_context import EMPTY
from holdfast.core.filesystem.canonical import contains
from holdfast.core.reference.availability import unavailable
from holdfast.core.reference.guidance import reference_context
from holdfast.core.reference.reference import References
from holdfast.core.state import State

if TYPE_CHECKING:
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.reference.checkouts import Checkouts
    from holdfast.core.reference.reference import Reference
    from holdfast.core.state import Batches


LEADS_OUT = "it leads out of the project, which is not trusted (`holdfast trust`)"


class LocationReferences:
    def __init__(self, repositories: Path, checkouts: Checkouts, batches: Batches) -> None:
        self.declared: State[References] = State(References, batches)
        self._repositories = repositories
        self._checkouts = checkouts
        self._resolved: tuple[References, tuple[Reference, ...]] | None = None
        self._context = reference_context(self.refreshed)

    def list(self) -> tuple[Reference, ...]:
        """Resolved once for each set of declarations: every path that a tool is given is compared with them. Whether a
        reference of an untrusted project has left the project is looked at each time."""
        declared = self.declared.value
        if self._resolved is None or self._resolved[0] is not declared:
            self._resolved = (declared, declared.resolve(self._repositories))
        if not declared.within:
            return self._resolved[1]
        return tuple(
            reference if self._directory(reference) is not None else replace(reference, problem=LEADS_OUT)
            for reference in self._resolved[1]
        )

    def directories(self) -> dict[str, Path]:
        """The canonical directory of each reference that tools may read from."""
        found = ((reference.name, self._directory(reference)) for reference in self.list())
        return {name: directory for name, directory in found if directory is not None}

    def _directory(self, reference: Reference) -> Path | None:
        """None if it leads out of the directory that it has to stay in."""
        directory, within = os.path.realpath(reference.path), self.declared.value.within.get(reference.name)
        return Path(directory) if within is None or contains(os.path.realpath(within), directory) else None

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
