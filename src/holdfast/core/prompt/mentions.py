"""Resolves the mentions in a prompt's text into attachments and notes, before the prompt is admitted.

Invariants
- A file is attached only with the permission that the `read` tool needs for it, asked for the prompt's agent. It is
  opened without following links, so that it is the file for which permission was given. A resource of an MCP server
  needs a permission of its own (prompt_resources.py).
- A mention never refuses a prompt: what cannot be attached becomes a note."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import Unusable
from holdfast.core.prompt.agent_guidance import agent_guidance
from holdfast.core.prompt.lookup import Broken, NamedAgent, NamedPath, NamedResource, Names
from holdfast.core.prompt.prompt_permissions import PromptPermissions
from holdfast.core.prompt.prompt_resources import allow_resource
from holdfast.core.session.attachment_source import DIRECTORY, check_lines, read_target
from holdfast.core.session.attachments import (
    FILES,
    FULL,
    SECONDS,
    TOTAL_CHARACTERS,
    AttachmentSource,
    check_size,
)
from holdfast.core.session.mentioned import Mentioned, MentionedFile, not_attached
from holdfast.core.session.prompt_input import media_type
from holdfast.core.tool.builtin.authorize import Denied, allow_read
from holdfast.core.tool.tool import ToolContext
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import AgentAttachment, FileAttachment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.agent.agents import Agents, AgentSelection
    from holdfast.core.agent.callable_agents import CallableAgents
    from holdfast.core.filesystem.content import Content
    from holdfast.core.filesystem.image import ImageLimits
    from holdfast.core.mcp.resource_address import ResourceAddress
    from holdfast.core.prompt.filled_template import FilledTemplate
    from holdfast.core.prompt.lookup import Findings, Lookup
    from holdfast.core.prompt.mention import Mention
    from holdfast.core.prompt.prompt_resources import PromptResources
    from holdfast.core.reference.location_references import LocationReferences
    from holdfast.core.session import attachment_source
    from holdfast.core.session.attachments import Attachments
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.schema.prompt import Prompt, Source
    from holdfast.schema.session import Session

LEFT_OUT = "{count} further mention{s} could not be attached: a prompt attaches at most {most} of them."
SLOW = "The mentions in this prompt could not be looked up within {seconds:g} s, and nothing was attached for them."


class Mentions:
    """Of one Location."""

    def __init__(
        self,
        lookup: Lookup,
        agents: Agents,
        references: LocationReferences,
        permissions: Authorizer,
        attachments: Attachments,
        callable_agents: CallableAgents,
        resources: PromptResources,
        *,
        image_limits: Callable[[], ImageLimits],
    ) -> None:
        self._lookup = lookup
        self._agents = agents
        self._references = references
        self._permissions = permissions
        self._attachments = attachments
        self._image_limits = image_limits
        self._callable_agents = callable_agents
        self._resources = resources

    async def resolve(self, session: Session, prompt: Prompt, template: FilledTemplate | None = None) -> Mentioned:
        """Waits while a person decides about a permission. Changes nothing, so that it can be cancelled. `template`
        tells where the parts of the text come from. Raises PromptTooLarge."""
        check_size(prompt, session.id)
        most = max(FILES - len(prompt.files or ()), 0)
        names = self._names()
        try:
            async with asyncio.timeout(SECONDS):
                found = await asyncio.to_thread(self._lookup.find, prompt.text, names, most, template)
        except TimeoutError:
            return Mentioned(notes=(SLOW.format(seconds=SECONDS),))
        mentioned = await self._resolve(found, most, session.id, self._chosen(session, prompt).id)
        guidance = await self.guidance(session, prompt, mentioned.agents)
        return mentioned.replace(notes=(*mentioned.notes, *guidance))

    async def guidance(
        self, session: Session, prompt: Prompt, mentioned: Sequence[AgentAttachment] = ()
    ) -> tuple[str, ...]:
        """Notes about the agents that the prompt names, and those that its text mentions."""
        named = dict.fromkeys(item.name for item in (*(prompt.agents or ()), *mentioned))
        chosen = self._chosen(session, prompt)
        if not named or chosen.agent is None:
            return ()
        callable_agents = await self._callable_agents.for_prompt(session, chosen.agent)
        return agent_guidance(named, {agent.id for agent in callable_agents})

    def _chosen(self, session: Session, prompt: Prompt) -> AgentSelection:
        """The agent that answers the prompt."""
        return self._agents.select((prompt.options and prompt.options.agent) or session.agent)

    def _names(self) -> Names:
        """A reference whose first fetch is due is fetched from now on, so that the next mention finds it."""
        agents = (agent.id for agent in self._agents.list() if agent.mode != "primary" and not agent.hidden)
        references = {reference.name: reference for reference in self._references.refreshed()}
        return Names(references, frozenset(agents), self._resources.servers())

    async def _resolve(self, found: Findings, most: int, session_id: str, agent: str) -> Mentioned:
        permissions = PromptPermissions(self._permissions)
        agents: list[AgentAttachment] = []
        allowed: list[_Allowed] = []
        reasons: dict[Source, str] = {}
        for named in found.named:
            match named:
                case NamedAgent(mention):
                    agents.append(AgentAttachment(name=mention.path, source=mention.source))
                case Broken(mention, reason):
                    reasons[mention.source] = reason
                case NamedPath(mention, target, _):
                    text = mention.source.text
                    try:
                        if mention.lines is not None:
                            check_lines(mention.lines)
                        context = ToolContext(session_id, agent, assistant_message_id="", tool_call_id=text[:100])
                        await allow_read(permissions, context, target)
                        allowed.append(_AllowedPath(mention, named))
                    except (Unusable, Denied) as refused:
                        reasons[mention.source] = str(refused)
                case NamedResource(mention, server):
                    context = ToolContext(session_id, agent, "", mention.source.text[:100])
                    try:
                        address = _address(server, mention)
                        await allow_resource(permissions, context, address)
                        allowed.append(_AllowedResource(mention, address))
                    except (Unusable, Denied) as refused:
                        reasons[mention.source] = str(refused)
        files = await self._read(allowed, reasons)
        sources = (named.mention.source for named in found.named)
        notes = [not_attached(source.text, reasons[source]) for source in sources if source in reasons]
        if found.left_out:
            notes.append(LEFT_OUT.format(count=found.left_out, s="" if found.left_out == 1 else "s", most=most))
        return Mentioned(tuple(files), tuple(agents), tuple(notes))

    async def _read(self, allowed: Sequence[_Allowed], reasons: dict[Source, str]) -> list[MentionedFile]:
        """The files that can be attached; adds the reasons of the others by the place of their mention."""
        files: list[MentionedFile] = []
        room = TOTAL_CHARACTERS
        sources = await asyncio.gather(*(item.source(self._resources) for item in allowed))
        waiting = iter(allowed)
        async with aclosing(self._attachments.read(sources, self._image_limits())) as results:
            async for result in results:
                item = next(waiting)
                if isinstance(result, Unusable):
                    reason = str(result)
                elif result.content.kind == "note":
                    reason = result.content.value
                elif len(result.content.value) > room:
                    reason = FULL
                else:
                    room -= len(result.content.value)
                    attachment = item.attachment(result.content)
                    files.append(MentionedFile(item.mention.source.text, attachment, result.content))
                    continue
                reasons[item.mention.source] = reason
        return files


class _AllowedPath(Frozen):
    mention: Mention
    named: NamedPath

    async def source(self, resources: PromptResources) -> AttachmentSource:
        return AttachmentSource(partial(_source, self.named), self.named.name)

    def attachment(self, content: Content) -> FileAttachment:
        lines, uri = self.mention.lines, self.named.target.path.as_uri()
        if content.mime == DIRECTORY:
            uri = f"{uri.removesuffix('/')}/"
        elif lines is not None:
            uri = f"{uri}?start={lines.start}&end={lines.end}"
        return FileAttachment(uri=uri, mime=content.mime, name=self.named.name, source=self.mention.source)


class _AllowedResource(Frozen):
    mention: Mention
    address: ResourceAddress

    async def source(self, resources: PromptResources) -> AttachmentSource:
        """Reads it: from here on it is like a file that was read."""
        try:
            read = await resources.read(self.address)
        except Unusable as error:
            return AttachmentSource(partial(_fail, error), self.mention.name)
        return AttachmentSource(lambda: read, self.mention.name)

    def attachment(self, content: Content) -> FileAttachment:
        uri, name = str(self.address), f"{self.address.server}:{self.address.uri}"
        return FileAttachment(uri=uri, mime=content.mime, name=name, source=self.mention.source)


_Allowed = _AllowedPath | _AllowedResource


def _fail(error: Unusable) -> attachment_source.Source:
    raise error


def _address(server: str, mention: Mention) -> ResourceAddress:
    from holdfast.core.mcp.resource_address import ResourceAddress, checked

    return ResourceAddress(server, checked(mention.path))


def _source(named: NamedPath) -> attachment_source.Source | Content:
    return read_target(named.target, media_type(named.target.path.as_uri()), named.mention.lines)
