"""What an import of conversations of another program tells."""

from typing import Literal

from holdfast.schema.record import Record


class ImportedTranscript(Record):
    """A Session that was made of a conversation, or that was made of it before."""

    source_id: str
    """The id that it had."""
    id: str
    """Another one if that was not valid, or in use here."""
    title: str
    directory: str
    directory_exists: bool
    outcome: Literal["imported", "extended", "unchanged"]
    events: int
    """How many were written."""
    left_out: dict[str, int]
    """What a Session cannot have, by kind."""


class RefusedTranscript(Record):
    source: str
    problem: str


class TranscriptReport(Record):
    sessions: tuple[ImportedTranscript, ...]
    refused: tuple[RefusedTranscript, ...] = ()
    """Conversations of which nothing was imported."""
    empty: int = 0
    """Conversations of a folder that were left out, with their children, because they have no message."""
