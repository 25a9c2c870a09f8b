"""Pending inputs in the form of OpenCode 2.0."""

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.prompt import Delivery, Prompt, SyntheticInput
from holdfast.schema.record import Record


class InboxUser(Record, tag_field="type", tag="user"):
    """A pending prompt."""

    id: MessageIDField
    session_id: SessionIDField
    time_created: int
    payload: Prompt
    delivery: Delivery


class InboxSynthetic(Record, tag_field="type", tag="synthetic"):
    """A pending text of a program."""

    id: MessageIDField
    session_id: SessionIDField
    time_created: int
    payload: SyntheticInput
    delivery: Delivery


InboxInput = InboxUser | InboxSynthetic
