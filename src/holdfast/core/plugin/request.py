"""Request hooks: changes that plugins make to one provider request.

Invariants
- Hooks run one after the other, each on a copy: a hook that raises or times out has no effect.
- System parts can only be appended after the baseline; tools are read-only.
- A changed conversation is one that every protocol can send, and not much larger than it was (conversation.py)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.plugin.conversation import checked_conversation
from holdfast.core.plugin.hooks import Hook, Hooks
from holdfast.llm.request import Generation, HttpOverlay, Message, Request, SystemPart, ToolDefinition

if TYPE_CHECKING:
    from holdfast.schema.model import ModelRef

Purpose = Literal["turn", "title", "summary", "generate", "sampling"]


class RequestDraft(msgspec.Struct):
    """A request as hooks see it."""

    session_id: str
    agent: str
    provider_id: str
    model_id: str
    purpose: Purpose = "turn"
    messages: Sequence[Message] = ()
    """The conversation of this request. The stored one stays as it is. Give the same result for the same messages:
    otherwise the provider's cache is of no use, and the plugin is named as the cause."""
    tools: Sequence[ToolDefinition] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    generation: Generation = msgspec.field(default_factory=Generation)
    options: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    system: list[str] = msgspec.field(default_factory=list)
    """Parts to append after the baseline, including those of earlier hooks."""
    changed_by: tuple[str, ...] = ()
    """The plugins that changed something."""


RequestHook: TypeAlias = Hook[RequestDraft]


class RequestHooks(Hooks[RequestDraft]):
    kind = "request"

    async def apply(self, draft: RequestDraft) -> RequestDraft:
        return await self._run(draft, _copy, _checked)

    async def change(
        self, request: Request, purpose: Purpose, *, session_id: str, agent: str, model: ModelRef
    ) -> Request:
        """A request that the runtime makes for itself, with what plugins change about it."""
        if not self:
            return request
        http = request.http or HttpOverlay()
        draft = RequestDraft(
            session_id=session_id,
            agent=agent,
            provider_id=model.provider_id,
            model_id=model.id,
            purpose=purpose,
            messages=request.messages,
            headers=http.headers or {},
            generation=request.generation or Generation(),
            options=request.provider_options or {},
        )
        changed = await self.apply(draft)
        if not changed.changed_by:
            return request
        return replace(
            request,
            system=(*request.system, *(SystemPart(text=text) for text in changed.system if text)),
            messages=tuple(changed.messages),
            generation=changed.generation,
            provider_options=changed.options or None,
            http=replace(http, headers=changed.headers or None),
        )


def _copy(draft: RequestDraft) -> RequestDraft:
    return replace(
        draft,
        messages=tuple(draft.messages),
        tools=tuple(draft.tools),
        headers=dict(draft.headers),
        options=deepcopy(draft.options),
        system=list(draft.system),
    )


def _checked(changed: RequestDraft, before: RequestDraft, plugin: str) -> RequestDraft:
    """The fields that a hook may change, with their types checked."""
    system = msgspec.convert(changed.system, list[str])
    if system[: len(before.system)] != before.system:
        raise ValueError("system parts can only be appended")
    after = replace(
        before,
        messages=checked_conversation(changed.messages, before.messages),
        headers=msgspec.convert(changed.headers, dict[str, str]),
        generation=msgspec.convert(msgspec.to_builtins(changed.generation), Generation),
        options=msgspec.convert(changed.options, dict[str, dict[str, Any]]),
        system=system,
    )
    return before if after == before else replace(after, changed_by=(*before.changed_by, plugin))
