"""Payload records in which `null` is invalid, unlike in the shared records."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.schema.record import Record

WorkspaceIDField = Annotated[str, msgspec.Meta(pattern="^wrk")]
NewWorkspaceIDField = Annotated[str, msgspec.Meta(pattern=r"^wrk[A-Za-z0-9:._/-]*$(?!\n)", max_length=200)]
"""A workspace that a caller chooses, such as `wrk:LABEL` (`core/session/roots.py`)."""


class LocationInput(Record):
    directory: str
    workspace_id: NewWorkspaceIDField | UnsetType = UNSET
