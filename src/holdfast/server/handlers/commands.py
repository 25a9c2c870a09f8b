"""Handler of the command operation in `protocol/sessions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.command.expansion import CommandExpansion
from holdfast.core.session.prompt_input import normalise
from holdfast.schema.prompt import PromptInput

if TYPE_CHECKING:
    from holdfast.protocol.sessions import CommandPayload
    from holdfast.schema.prompt import Admission
    from holdfast.server.types import ApiCall


async def command(call: ApiCall) -> Admission:
    assert call.session is not None
    payload: CommandPayload = call.payload
    async with call.services as services:
        await services.catalog.ready()
        expansion = CommandExpansion(services.commands, services.agents, services.tools)
        expanded = await call.while_connected(expansion.expand(call.session, payload.command, payload.arguments or ""))
    files = (*(payload.files or ()), *expanded.files)
    prompt = PromptInput(text=expanded.text, files=files, agents=payload.agents or ())
    return await call.runtime.sessions.prompt(
        call.session.id,
        normalise(prompt),
        id=payload.id,
        delivery=payload.delivery or "steer",
        resume=payload.resume is not False,
    )
