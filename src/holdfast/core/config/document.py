"""What configuration is made of: documents and directories, low to high priority. There is no merged object."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Origin: TypeAlias = Literal["user", "project", "untrusted"]
"""Who wrote it: the user or the host program, a project that the user trusts, or any other project."""


class Document(Frozen):
    """One file, in today's shape: V1 keys are migrated, variables are substituted, invalid entries are gone.

    `data` has only keys that hold something, and is shared: nobody changes it. A V1 provider keeps its SDK options
    verbatim in `request.body` (`headers` apart, `baseURL` in `api.url` when a package is named), because only the
    catalog knows which of them are controls, settings or credentials; so do its models and variants."""

    path: Path
    directory: Path
    """The folder that holds the file: what `./` means in it."""
    origin: Origin
    data: dict[str, Any]
    secrets: frozenset[str] = frozenset()
    """What variables were replaced by: never to be shown."""
    contents: Mapping[str, str] = MappingProxyType({})
    """Digests of a project's plugins as they were when they were trusted, by path."""
    managed: bool = False
    """From the host or its organisation: has the last word, also in policy."""

    def __repr__(self) -> str:
        return f"Document({self.path})"  # it may hold keys

    @property
    def base(self) -> Path:
        """Where its instruction paths start: a `.opencode` folder speaks for the folder around it."""
        return self.directory.parent if self.directory.name == DOT and self.origin != "user" else self.directory

    @property
    def trusted(self) -> bool:
        return self.origin != "untrusted"


class Directory(Frozen):
    """A folder that may hold agents, commands, skills and plugins; it counts after its own documents."""

    path: Path
    origin: Origin
    contents: Mapping[str, str] = MappingProxyType({})
    """Digests of a project's plugins as they were when they were trusted, by path."""

    @property
    def trusted(self) -> bool:
        return self.origin != "untrusted"


Entry: TypeAlias = Document | Directory
DOT = ".opencode"
