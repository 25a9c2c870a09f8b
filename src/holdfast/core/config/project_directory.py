"""Trust in the directory of a project: whether programs of the user start there.

A program that starts in a directory takes code and settings from it: `npx` runs packages of its `node_modules`. So the
user's local MCP servers start there only if the user trusts the directory. The decision does not depend on content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.config.authority import SHOWN_CHARACTERS, Grant, digest
from holdfast.core.config.trust import TrustSource
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holdfast.core.config.document import Document
    from holdfast.core.config.trust import Trust

DIGEST = digest((Grant(("directory",), "", "start programs"),))


class ProjectDirectory(Frozen):
    path: Path
    """The project's root."""
    trusted: bool

    def source(self, documents: Iterable[Document]) -> TrustSource | None:
        """What trust would change; None if no program of the user would start here."""
        names = ", ".join(dict.fromkeys(_started_here(documents)))
        if not names:
            return None
        wants = f"starts your MCP servers in this directory: {names}"[:SHOWN_CHARACTERS]
        return TrustSource(self.path, DIGEST, (Grant(("directory",), wants, ""),), self.trusted, directory=True)


def project_directory(root: Path, trust: Trust) -> ProjectDirectory:
    return ProjectDirectory(root, trust.covers(root, DIGEST))


def relative_to_project(cwd: str | None) -> bool:
    """Whether a server with this `cwd` starts in or relative to the directory of the Location."""
    return not (cwd or "").startswith(("/", "~/")) and cwd != "~"


def _started_here(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        if document.origin == "user":
            for name, server in document.data.get("mcp", {}).get("servers", {}).items():
                if "command" in server and relative_to_project(server.get("cwd")):
                    yield name
