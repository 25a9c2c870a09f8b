"""Instruction entries: facts for the model of one Session."""

from typing import Annotated, Any

import msgspec

from holdfast.schema.record import Record

KEY_CHARACTERS = 128
InstructionKey = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9._-]*$", max_length=KEY_CHARACTERS)]


class InstructionEntry(Record):
    key: str
    value: Any
