"""Payload records in which `null` is invalid, unlike in the shared records."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.schema.record import Record

WorkspaceIDField = Annotated[str, msgspec.Meta(pattern="^wrk")]


class LocationInput(Record):
    directory: str
    workspace_id: WorkspaceIDField | UnsetType = UNSET
