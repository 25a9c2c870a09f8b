"""The parts of a configuration: documents and directories, lowest priority first. Each domain combines them by its own
rule."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Origin: TypeAlias = Literal["user", "project", "untrusted"]
"""The author: the user or the host program, a project that the user trusts, or any other project."""


class Document(Frozen):
    """One configuration file, validated and migrated to the current format, with variables substituted.

    `data` has no empty keys, is shared and must not be changed. A provider in the V1 format keeps its SDK options
    unchanged in `request.body` (except `headers`, and `baseURL` when a package is named), because only the catalog
    knows which of them are controls, settings or credentials. The same holds for its models and variants."""

    path: Path
    directory: Path
    """The folder of the file; relative paths start here."""
    origin: Origin
    data: dict[str, Any]
    secrets: frozenset[str] = frozenset()
    """Substituted values of variables; never shown."""
    contents: Mapping[str, str] = MappingProxyType({})
    """Digests of a project's plugins as they were when they were trusted, by path."""
    managed: bool = False
    """Set by the host or its organisation: has the highest priority, also in policy."""
    preset: bool = False
    """A choice among offered presets, with the lowest priority. Its permission rules only narrow what agents may do."""

    def __repr__(self) -> str:
        return f"Document({self.path})"  # it may hold keys

    @property
    def base(self) -> Path:
        """Where its instruction paths start: for a `.opencode` folder of a project, the folder that contains it."""
        return self.directory.parent if self.directory.name == DOT and self.origin != "user" else self.directory

    @property
    def trusted(self) -> bool:
        return self.origin != "untrusted"


class Directory(Frozen):
    """A configuration folder with agents, commands, skills and plugins. Its priority is above that of its documents."""

    path: Path
    origin: Origin
    contents: Mapping[str, str] = MappingProxyType({})
    """Digests of a project's plugins as they were when they were trusted, by path."""

    @property
    def trusted(self) -> bool:
        return self.origin != "untrusted"


Entry: TypeAlias = Document | Directory
DOT = ".opencode"
