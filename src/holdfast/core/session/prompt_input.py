"""Normalises prompt input and guesses the media type of each file from its address. Admission examines the bytes
(attachments.py)."""

from __future__ import annotations

import hashlib
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from holdfast.core.filesystem.content import UNKNOWN, data_type, is_data_uri
from holdfast.core.session.attachment_source import DIRECTORY
from holdfast.schema.prompt import (
    AgentAttachment,
    AgentInput,
    FileAttachment,
    FileInput,
    JsonFormat,
    OutputFormat,
    Prompt,
    PromptInput,
    PromptOptions,
    SkillAttachment,
    SkillInput,
    Source,
    named_model,
)

T = TypeVar("T")


def normalise(given: PromptInput) -> Prompt:
    """Treat absent and empty lists alike, so that equal prompts encode to equal bytes. Skills have no text yet."""
    files = tuple(
        FileAttachment(
            uri=file.uri,
            mime=media_type(file.uri, _or_none(file.name)),
            name=_or_none(file.name),
            description=_or_none(file.description),
            source=_source(file),
        )
        for file in _or_none(given.files) or ()
    )
    agents = tuple(AgentAttachment(name=agent.name, source=_source(agent)) for agent in _or_none(given.agents) or ())
    skills = tuple(
        SkillAttachment(id=skill.id, name=skill.id, text="", source=_source(skill))
        for skill in _or_none(given.skills) or ()
    )
    return Prompt(
        text=given.text,
        files=files or None,
        agents=agents or None,
        skills=skills or None,
        metadata=_or_none(given.metadata) or None,
        options=_options(given),
    )


def unresolved(prompt: Prompt, *, resolves: bool = False) -> Prompt:
    """The prompt with the digest of what was sent. Resolving keeps it, so that a retry is recognised without resolving
    again. Media types are left out: they were guessed. `resolves`: the caller asks to resolve the mentions too."""
    files = tuple(replace(file, mime="") for file in prompt.files or ())
    sent = msgspec.json.encode((replace(prompt, files=files or None, sent=None), resolves), order="deterministic")
    return replace(prompt, sent=hashlib.sha256(sent).hexdigest())


def _options(given: PromptInput) -> PromptOptions | None:
    model = _or_none(given.model)
    form = _or_none(given.format)
    options = PromptOptions(
        system=_or_none(given.system) or None,
        tools=_or_none(given.tools) or None,
        format=_format(form) if isinstance(form, JsonFormat) else None,
        agent=_or_none(given.agent) or None,
        model=None if model is None else named_model(model),
        variant=_or_none(given.variant) or None,
        no_reply=_or_none(given.no_reply) or None,
    )
    return None if options == PromptOptions() else options


def _format(given: JsonFormat) -> OutputFormat:
    return OutputFormat(type="json_schema", schema=given.schema, retry_count=_or_none(given.retry_count))


def _source(given: FileInput | AgentInput | SkillInput) -> Source | None:
    return _or_none(given.source) or _or_none(given.mention)


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def media_type(uri: str, name: str | None = None) -> str:
    """The type in a data URI, a directory for a trailing slash, or else the type of the file extension."""
    import mimetypes

    if is_data_uri(uri):
        return data_type(uri)
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        path = name or uri
    if path.endswith("/"):
        return DIRECTORY
    # Without its directories: newer Pythons read the whole as an address, and fail where it is none.
    return mimetypes.guess_type(path.rpartition("/")[2])[0] or UNKNOWN
