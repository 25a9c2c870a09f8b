"""Checks directories that callers name: they must exist, and are brought into canonical form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode

from holdfast.core.project.directory import canonical_directory
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH_LIMIT = 4096


class NamedPlace(Frozen):
    """The Location that a request names. What it does not name, the server that answers chooses."""

    directory: str | None = None
    workspace: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether this machine has the directory."""
        return self.directory is None or "\0" in self.directory or os.path.isdir(self.directory)

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


def _decoded(header: str) -> str:
    try:
        return unquote(header, errors="strict")
    except UnicodeDecodeError:
        return header
