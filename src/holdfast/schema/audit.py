"""What people and programs did, with who it was."""

from holdfast.schema.record import Record


class AuditEntry(Record):
    time: int
    """In milliseconds since the epoch."""
    who: str | None = None
    """The name of the caller; absent if nobody called: the runtime acted by itself, or an earlier version did not note
    it."""
    what: str
    """A few words, as in `admitted`, `approved` or `changed model`. Of a request outside of Sessions it is the name of
    the operation, as in `tokens.create`; such an entry is written before the request is carried out."""
    session_id: str | None = None
    subject: str | None = None
    """The id or name of what it was done to."""
    detail: str | None = None
    elsewhere: bool | None = None
    """Of an event that came with a bundle or a backup: `who` is a name that its maker wrote, and nobody here."""
