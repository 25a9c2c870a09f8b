"""Answers the project copy operations: there are none to make here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.errors import ServiceUnavailableError
from holdfast.server.errors import PublicFailure

if TYPE_CHECKING:
    from holdfast.server.types import Call

UNAVAILABLE = "This server makes no project copies"


async def create(call: Call) -> None:
    raise PublicFailure(ServiceUnavailableError(message=UNAVAILABLE, service="projectCopy"))


remove = refresh = create
