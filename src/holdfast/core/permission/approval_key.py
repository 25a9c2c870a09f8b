"""The directory for which an approval holds. A repository chooses its own id, but not its path and owner."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.project.directory import canonical_directory
from holdfast.core.project.repository import repository_at, shares_store
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.project.project import Project

NOBODY = -1


class ApprovalKey(Frozen):
    root: str
    """The git directory that a project's working trees share; without one, the project's own directory."""
    owner: int
    """The user id of its owner. A directory that is gone has none, and nothing is approved for it."""


def approval_key(project: Project) -> ApprovalKey:
    """Not cached: the directory may be replaced."""
    root = canonical_directory(str(_shared(project) or project.directory))
    try:
        return ApprovalKey(root, os.stat(root).st_uid)
    except OSError:
        return ApprovalKey(root, NOBODY)


def _shared(project: Project) -> str | None:
    if project.store is None:
        return None
    repository = repository_at(project.directory)
    return str(repository.store) if shares_store(repository) else None
