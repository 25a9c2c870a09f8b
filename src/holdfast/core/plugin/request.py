"""Request hooks: changes that plugins make to one provider request.

Invariants
- Hooks run one after the other, each on a copy: a hook that raises or times out has no effect.
- System parts can only be appended after the baseline; messages and tools are read-only."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.plugin.hooks import Hook, Hooks
from holdfast.llm.request import Generation, Message, ToolDefinition


class RequestDraft(msgspec.Struct):
    """A request as hooks see it."""

    session_id: str
    agent: str
    provider_id: str
    model_id: str
    messages: Sequence[Message] = ()
    tools: Sequence[ToolDefinition] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    generation: Generation = msgspec.field(default_factory=Generation)
    options: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    system: list[str] = msgspec.field(default_factory=list)
    """Parts to append after the baseline, including those of earlier hooks."""


RequestHook: TypeAlias = Hook[RequestDraft]


class RequestHooks(Hooks[RequestDraft]):
    kind = "request"

    async def apply(self, draft: RequestDraft) -> RequestDraft:
        return await self._run(draft, _copy, _checked)


def _copy(draft: RequestDraft) -> RequestDraft:
    return replace(
        draft,
        messages=tuple(draft.messages),
        tools=tuple(draft.tools),
        headers=dict(draft.headers),
        options=deepcopy(draft.options),
        system=list(draft.system),
    )


def _checked(changed: RequestDraft, before: RequestDraft) -> RequestDraft:
    """The fields that a hook may change, with their types checked."""
    system = msgspec.convert(changed.system, list[str])
    if system[: len(before.system)] != before.system:
        raise ValueError("system parts can only be appended")
    return replace(
        before,
        headers=msgspec.convert(changed.headers, dict[str, str]),
        generation=msgspec.convert(msgspec.to_builtins(changed.generation), Generation),
        options=msgspec.convert(changed.options, dict[str, dict[str, Any]]),
        system=system,
    )
