"""Whether a reference can be used, and why not. Guidance, mentions and the list of references all ask here."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.reference.failure import stored_failure
from holdfast.core.reference.reference import GitSource
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.reference.reference import Reference


class Unavailable(Frozen):
    reason: str
    is_unfetched: bool = False
    """Whether no attempt to fetch it has ended yet."""


def unavailable(reference: Reference) -> Unavailable | None:
    """Why the reference cannot be used at this moment; None if it can."""
    if reference.problem is not None:
        return Unavailable(reference.problem)
    problem = _directory_problem(reference.path)
    if problem is None or not isinstance(reference.source, GitSource):
        return None if problem is None else Unavailable(problem)
    failure = stored_failure(Path(reference.path))
    repository = reference.source.repository
    if failure is None:
        return Unavailable(f"{repository} has not been fetched yet", is_unfetched=True)
    return Unavailable(f"{repository} is not available: {failure}")


def _directory_problem(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        return f"{path} cannot be accessed"
    except (OSError, ValueError):
        return f"{path} does not exist"
    return None if stat.S_ISDIR(mode) else f"{path} is not a directory"
