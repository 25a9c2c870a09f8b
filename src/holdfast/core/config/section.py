"""What the sections of the configuration file are made of.

This module does not postpone the evaluation of annotations: msgspec would have to compile each of them when the first
document is read. Neither do those of the sections."""

from typing import Annotated, dataclass_transform

import msgspec
from msgspec import Meta

from holdfast.schema.record import RecordMeta

PositiveInt = Annotated[int, Meta(gt=0)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
Depth = Annotated[int, Meta(ge=0, le=10)]
"""Levels of children below a Session."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section(msgspec.Struct, metaclass=RecordMeta, frozen=True, omit_defaults=True):
    """A part of the file. `null` is the same as a missing key."""
