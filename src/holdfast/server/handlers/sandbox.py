"""Handler of the sandbox operation in `protocol/configuration.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.configuration import SandboxInfo

if TYPE_CHECKING:
    from holdfast.server.types import ApiCall


async def get(call: ApiCall) -> SandboxInfo:
    async with call.services as services:
        settings = services.sandbox.settings
        if settings.mode == "off" and not call.query.probe:
            return SandboxInfo(mode="off", required=settings.required)
        report = await services.sandbox.report()
    return SandboxInfo(
        mode=settings.mode,
        required=report.required,
        in_force=report.summary or None,
        backend=report.backend,
        problem=report.problem or None,
        gaps=report.gaps,
    )
