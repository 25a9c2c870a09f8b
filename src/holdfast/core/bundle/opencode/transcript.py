"""A conversation of OpenCode: what all its forms have in common, and what of it is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from holdfast.schema.model import ModelRef
    from holdfast.schema.session_message import SessionMessage


class TranscriptInvalid(InvalidRequest):
    """It cannot be read as a conversation of OpenCode. Nothing of it is imported."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source} cannot be imported: {problem}.", kind="Body")
        self.source = source
        self.problem = problem


class Transcript(Frozen):
    source: str
    """The file, or the id of the Session in a directory."""
    id: str
    """As it was; perhaps none that is valid here."""
    parent_id: str | None
    project_id: str
    worktree: str
    directory: str
    title: str
    version: str
    created: int
    updated: int
    archived: int | None
    agent: str | None
    model: ModelRef | None
    messages: Sequence[SessionMessage]
    lost: Counter[str]
    """What is left out, by kind."""
