"""Handlers of commands, skills, shell messages and synthetic messages in `protocol/sessions.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.core.command.expansion import CommandExpansion
from holdfast.core.session.prompt_input import normalise
from holdfast.schema.exceptions import InvalidRequest, SkillNotFound
from holdfast.schema.prompt import CommandCall, Prompt, PromptInput, SkillAttachment, SyntheticInput
from holdfast.server.admission import admit_resolved, resolve_prompt
from holdfast.server.prompt_payload import renamed

if TYPE_CHECKING:
    from holdfast.core.location.services import LocationServices
    from holdfast.protocol import sessions as protocol
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.server.admission import ResolvedPrompt
    from holdfast.server.types import ApiCall


async def command(call: ApiCall) -> Admission:
    payload: protocol.CommandPayload = call.payload
    sent = PromptInput(
        text="",
        files=payload.files or (),
        agents=payload.agents or (),
        skills=payload.skills or (),
        agent=payload.agent or UNSET,
        model=payload.model or UNSET,
    )
    given = replace(normalise(sent), command=CommandCall(command=payload.command, arguments=payload.arguments or ""))
    delivery, resume = payload.delivery or "steer", payload.resume is not False
    resolves = payload.resolve is not False
    expand = partial(_expanded, resolves_arguments=resolves)
    try:
        return await admit_resolved(
            call, given, expand, id=payload.id, delivery=delivery, resume=resume, resolves=resolves
        )
    except InvalidRequest as error:
        raise renamed(error, text="arguments") from None


async def skill(call: ApiCall) -> None:
    payload: protocol.SkillPayload = call.payload
    given = Prompt(text="", skills=(SkillAttachment(id=payload.skill, name=payload.skill, text=""),))
    resume = payload.resume is not False
    try:
        await admit_resolved(call, given, _activated, id=payload.id, delivery="steer", resume=resume)
    except InvalidRequest as error:
        raise renamed(error, skills="skill") from None


async def shell(call: ApiCall) -> None:
    payload: protocol.ShellPayload = call.payload
    message_id = f"msg_{payload.id[4:]}" if payload.id is not None else None
    await call.runtime.sessions.shell(call.params.session_id, payload.command, id=message_id)


async def synthetic(call: ApiCall) -> Admission:
    payload: protocol.SyntheticPayload = call.payload
    return await call.runtime.sessions.synthetic(
        call.params.session_id,
        SyntheticInput(text=payload.text, description=payload.description, metadata=payload.metadata),
        id=payload.id,
        delivery=payload.delivery or "steer",
        resume=payload.resume is not False,
    )


async def _expanded(
    services: LocationServices, session: Session, given: Prompt, *, resolves_arguments: bool
) -> ResolvedPrompt:
    expansion = CommandExpansion(
        services.commands,
        services.context.skills,
        services.agents,
        services.callable_agents,
        services.permissions.authorities,
        services.catalog,
        services.tools,
        services.mentions,
    )
    return await expansion.expand(session, given, resolves_arguments=resolves_arguments)


async def _activated(services: LocationServices, session: Session, given: Prompt) -> ResolvedPrompt:
    for item in given.skills or ():
        if await services.context.skills.get(item.id) is None:
            raise SkillNotFound(item.id)
    return await resolve_prompt(services, session, given, mentions=False)
