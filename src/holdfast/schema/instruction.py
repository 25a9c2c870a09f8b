"""Instruction entries: facts for the model of one Session."""

from typing import Annotated, Any

import msgspec

from holdfast.schema.record import Record

KEY_CHARACTERS = 128
InstructionKey = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$(?!\n)", max_length=KEY_CHARACTERS)]
"""In Python `$` also matches before a line break at the end, which no key has."""


class InstructionEntry(Record):
    key: str
    value: Any
