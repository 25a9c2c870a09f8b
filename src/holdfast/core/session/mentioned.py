"""What the text of a prompt mentions, and what its files name that is not on this machine, read before the prompt is
admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.filesystem.content import Content
    from holdfast.core.session.attachment_source import Source
    from holdfast.schema.prompt import AgentAttachment, FileAttachment

SHOWN = 200
NOT_ATTACHED = "`{text}` could not be attached: {reason}"


class MentionedFile(Frozen):
    text: str
    """The mention as it was written."""
    attachment: FileAttachment
    content: Content


class Mentioned(Frozen):
    files: tuple[MentionedFile, ...] = ()
    agents: tuple[AgentAttachment, ...] = ()
    notes: tuple[str, ...] = ()
    own: Mapping[int, Source | Content] = {}
    """What is behind files of the prompt itself that were read before, by their index."""


def not_attached(text: str, reason: str) -> str:
    """The note about a mention that is not attached."""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return NOT_ATTACHED.format(text=shown.replace("`", "'"), reason=reason)
