"""Handlers of `protocol/configuration.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.document import Document
from holdfast.core.config.merge import redacted
from holdfast.core.location.report import report_of
from holdfast.schema.configuration import ConfigDirectory, ConfigDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.configuration import ConfigReport
    from holdfast.server.types import ApiCall


async def get(call: ApiCall) -> Sequence[ConfigDocument | ConfigDirectory]:
    async with call.services as services:
        return [
            ConfigDocument(path=str(entry.path), origin=entry.origin, info=redacted(entry))
            if isinstance(entry, Document)
            else ConfigDirectory(path=str(entry.path), origin=entry.origin)
            for entry in services.config.current.entries()
        ]


async def report(call: ApiCall) -> ConfigReport:
    async with call.services as services:
        return await report_of(services)


async def effective(call: ApiCall) -> dict[str, Any]:
    async with call.services as services:
        return services.config.current.effective()


async def reload(call: ApiCall) -> ConfigReport:
    async with call.services as services:
        await services.config.reload()
        return await report_of(services)
