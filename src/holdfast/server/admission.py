"""Admits a prompt that has to be resolved first: parse, resolve, validate, admit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.prompt.prompt_resources import names_resource
from holdfast.core.session.mentioned import Mentioned
from holdfast.core.session.prompt_input import unresolved
from holdfast.core.skill.attachment import attach_skills
from holdfast.server.attached_files import own_files, reads_own_files

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.core.filesystem.content import Content
    from holdfast.core.location.services import LocationServices
    from holdfast.core.session.attachment_source import Source
    from holdfast.schema.prompt import Admission, Delivery, Prompt
    from holdfast.schema.session import Session
    from holdfast.server.types import ApiCall

    ResolvedPrompt = tuple[Prompt, Mentioned | None]
    """The prompt, and what its text mentions."""
    Resolve = Callable[[LocationServices, Session, Prompt], Coroutine[Any, Any, ResolvedPrompt]]


async def admit_resolved(
    call: ApiCall,
    given: Prompt,
    resolve: Resolve,
    *,
    id: str | None,
    delivery: Delivery,
    resume: bool,
    checked: bool = False,
    resolves: bool = False,
) -> Admission:
    """A retry is recognised by what was sent, and not resolved again; while the first request is being resolved, it
    waits. Resolving ends when the caller disconnects. `resolves`: the caller asks to resolve mentions in the text."""
    session, sessions = call.session, call.runtime.sessions
    assert session is not None
    given = unresolved(given, resolves=resolves)
    async with call.runtime.resolving.hold(id):
        known = await sessions.admitted(session.id, given, id=id, delivery=delivery, resume=resume)
        if known is not None:
            return known
        call.runtime.placement.check_files(session.location)
        async with call.services as services:
            await services.catalog.ready()
            prompt, mentioned = await call.while_connected(_resolved(call, services, session, given, resolve))
        return await sessions.prompt(
            session.id, prompt, id=id, delivery=delivery, resume=resume, checked=checked, mentioned=mentioned
        )


async def _resolved(
    call: ApiCall, services: LocationServices, session: Session, given: Prompt, resolve: Resolve
) -> ResolvedPrompt:
    """With what is behind files that are resources of MCP servers, or that not every caller may attach."""
    prompt, mentioned = await resolve(services, session, given)
    own: dict[int, Source | Content] = {}
    if attaches_resources(prompt):
        own |= await services.resources.files(session, prompt)
    if reads_own_files(call, prompt):
        own |= await own_files(call, prompt, own.keys())
    return (prompt, (mentioned or Mentioned()).replace(own=own)) if own else (prompt, mentioned)


def attaches_resources(prompt: Prompt) -> bool:
    """Whether a file of the prompt may be a resource of an MCP server."""
    return any(names_resource(file.uri) for file in prompt.files or ())


async def resolve_prompt(
    services: LocationServices, session: Session, given: Prompt, *, mentions: bool
) -> ResolvedPrompt:
    """The skills and agents of a prompt, and if asked for the mentions in its text."""
    prompt = await with_skills(services, session, given)
    if mentions:
        return prompt, await services.mentions.resolve(session, prompt)
    notes = await services.mentions.guidance(session, prompt)
    return prompt, Mentioned(notes=notes) if notes else None


async def with_skills(services: LocationServices, session: Session, given: Prompt) -> Prompt:
    """The prompt with the texts of its skills, as far as the agent of its turn may use them."""
    if not given.skills:
        return given
    chosen = given.options.agent if given.options is not None else None
    agent = services.agents.select(chosen or session.agent).id
    authority = await services.permissions.authorities.of(session.id, agent)
    return replace(given, skills=await attach_skills(services.context.skills, given.skills, agent, authority))
