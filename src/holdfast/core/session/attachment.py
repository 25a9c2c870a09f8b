"""Prompt input as it arrives, made into the prompt that is stored: every file gets its media type."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.schema.prompt import AgentAttachment, FileAttachment, Prompt, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY = "application/x-directory"
UNKNOWN = "application/octet-stream"


def normalise(
    text: str,
    files: Sequence[tuple[str, str | None, str | None, Source | None]],
    agents: Sequence[AgentAttachment],
) -> Prompt:
    """Absent and empty lists are one, so that equal prompts encode to equal bytes."""
    attached = tuple(
        FileAttachment(uri=uri, mime=media_type(uri, name), name=name, description=description, source=source)
        for uri, name, description, source in files
    )
    return Prompt(text=text, files=attached or None, agents=tuple(agents) or None)


def media_type(uri: str, name: str | None = None) -> str:
    """Of a data URI its own type; a directory by its trailing slash; otherwise by file extension."""
    if uri.startswith("data:"):
        return uri[5:].partition(",")[0].partition(";")[0] or "text/plain"
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        path = name or uri
    if path.endswith("/"):
        return DIRECTORY
    return mimetypes.guess_type(path)[0] or UNKNOWN
