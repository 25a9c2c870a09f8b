"""Checks directories that callers name: they must exist, and are brought into canonical form. With a label, they must
have it here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode

from holdfast.core.project.directory import canonical_directory
from holdfast.core.runtime.placement import ServedElsewhere
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.runtime.placement import Placement

PATH_LIMIT = 4096


class NamedPlace(Frozen):
    """The Location that a request names. What it does not name, the server that answers chooses."""

    directory: str | None = None
    workspace: str | None = None

    def is_here(self, has_other_files: Callable[[Location], bool]) -> bool:
        """Whether this machine has the directory, with the label that the workspace names."""
        if self.directory is None or "\0" in self.directory:
            return True
        location = Location(directory=canonical_directory(self.directory), workspace_id=self.workspace)
        return os.path.isdir(self.directory) and not has_other_files(location)

    def target(self, path: str, further: Mapping[str, str] | None = None) -> str:
        """A path with a query that names the same Location."""
        fields = {"location[directory]": self.directory, "location[workspace]": self.workspace, **(further or {})}
        query = urlencode({name: value for name, value in fields.items() if value}, quote_via=quote, safe="")
        return f"{path}?{query}" if query else path


def named_place(query: Mapping[str, str], headers: Mapping[str, str]) -> NamedPlace:
    directory = query.get("location[directory]") or _decoded(headers.get("x-opencode-directory", ""))
    return NamedPlace(
        directory or None, query.get("location[workspace]") or headers.get("x-opencode-workspace") or None
    )


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


def served_location(placement: Placement, directory: str, workspace_id: str | None, *, kind: str) -> Location:
    """An existing directory, with the label that it has here."""
    location = existing_location(directory, workspace_id, kind=kind)
    try:
        return placement.located(location)
    except ServedElsewhere as elsewhere:
        raise InvalidRequest(str(elsewhere), kind=kind, field="location") from elsewhere


def _decoded(header: str) -> str:
    try:
        return unquote(header, errors="strict")
    except UnicodeDecodeError:
        return header
