"""Checks directories that callers name: they must exist, and are brought into canonical form."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.project.directory import canonical_directory
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.location import Location

PATH_LIMIT = 4096


def existing_location(directory: str, workspace_id: str | None, *, kind: str) -> Location:
    path = Path(directory)
    try:
        usable = "\0" not in directory and len(directory) <= PATH_LIMIT and path.is_absolute() and path.is_dir()
    except OSError:
        usable = False
    if not usable:
        shown = directory[:200].replace("\0", "\\0")
        raise InvalidRequest(f"{shown} is not an existing directory", kind=kind, field="location")
    return Location(directory=canonical_directory(directory), workspace_id=workspace_id)
