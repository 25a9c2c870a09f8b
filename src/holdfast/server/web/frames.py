"""The frames of `/web/stream`: those of a conversation, and the open work."""

from holdfast.schema.codec import encode
from holdfast.schema.overview import OverviewSession
from holdfast.schema.record import Record
from holdfast.schema.view import ViewFrame


class Overview(Record, tag_field="type", tag="overview"):
    sessions: tuple[OverviewSession, ...]


def framed(frame: ViewFrame | Overview) -> bytes:
    return b"data: %s\n\n" % encode(frame)
