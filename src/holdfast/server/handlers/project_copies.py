"""Handlers of `protocol/project_copies.py`. The named project must be the Location's."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.core.project.copies import NO_SOURCE
from holdfast.protocol.project_copies import ProjectCopy
from holdfast.schema.exceptions import ProjectCopyFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.project.copies import ProjectCopies
    from holdfast.protocol import project_copies as protocol
    from holdfast.server.types import ApiCall


async def create(call: ApiCall) -> ProjectCopy:
    wanted: protocol.CopyPayload = call.payload
    async with _copies(call) as copies:
        return ProjectCopy(directory=str(await copies.create(wanted.strategy, wanted.directory, wanted.name)))


async def remove(call: ApiCall) -> None:
    wanted: protocol.RemoveCopyPayload = call.payload
    async with _copies(call) as copies:
        await copies.remove(wanted.directory, force=wanted.force)


async def refresh(call: ApiCall) -> None:
    async with _copies(call) as copies:
        await copies.refresh()


@asynccontextmanager
async def _copies(call: ApiCall) -> AsyncIterator[ProjectCopies]:
    async with call.services as services:
        if call.params.project_id != services.project.id:
            raise ProjectCopyFailed(NO_SOURCE.format(services.location.directory))
        yield services.copies()
