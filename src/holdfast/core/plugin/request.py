"""Request hooks: what plugins may change about one provider request.

Invariants
- Hooks run one after the other, each on a copy: a hook that raises or takes too long has changed nothing.
- System parts can only be appended after the baseline; messages and tools can be read and not changed."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.core.plugin.bounded import Patience
from holdfast.llm.request import Generation, Message, ToolDefinition

if TYPE_CHECKING:
    from holdfast.core.scope import Scope

HOOK_SECONDS = 5.0


class RequestDraft(msgspec.Struct):
    """A request as a hook sees it."""

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
    """Parts to append after the baseline; what earlier hooks appended is here."""


RequestHook: TypeAlias = Callable[[RequestDraft], Awaitable[None] | None]
"""What is synchronous runs in a thread of its own."""


class RequestHooks:
    def __init__(self, diagnose: Callable[[str, str], None], *, timeout: float = HOOK_SECONDS) -> None:
        """`diagnose(plugin, message)` tells a person."""
        self._diagnose = diagnose
        self._timeout = timeout
        self._hooks: list[tuple[str, RequestHook]] = []
        self._patience = Patience()

    def register(self, owner: str, hook: RequestHook, scope: Scope) -> Callable[[], None]:
        entry = (owner, hook)
        self._hooks.append(entry)
        return scope.add(lambda: self._hooks.remove(entry))

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def apply(self, draft: RequestDraft) -> RequestDraft:
        for owner, hook in tuple(self._hooks):
            draft = await self._applied(owner, hook, draft)
        return draft

    async def _applied(self, owner: str, hook: RequestHook, draft: RequestDraft) -> RequestDraft:
        changed = _copy(draft)
        try:
            await self._patience.call(hook, changed, self._timeout)
            return _checked(changed, draft)
        except TimeoutError:
            self._diagnose(owner, f"its request hook took longer than {self._timeout:g} s; ignored")
        except Exception as error:  # noqa: BLE001 - a plugin's defect is the plugin's
            self._diagnose(owner, f"its request hook failed: {type(error).__name__}; ignored")
        return draft


def _copy(draft: RequestDraft) -> RequestDraft:
    return RequestDraft(
        session_id=draft.session_id,
        agent=draft.agent,
        provider_id=draft.provider_id,
        model_id=draft.model_id,
        messages=tuple(draft.messages),
        tools=tuple(draft.tools),
        headers=dict(draft.headers),
        generation=draft.generation,
        options=copy.deepcopy(draft.options),
        system=list(draft.system),
    )


def _checked(changed: RequestDraft, before: RequestDraft) -> RequestDraft:
    """Only what a hook may change, and only if it has the right type."""
    headers = msgspec.convert(changed.headers, dict[str, str])
    options = msgspec.convert(changed.options, dict[str, dict[str, Any]])
    system = msgspec.convert(changed.system, list[str])
    generation = msgspec.convert(msgspec.to_builtins(changed.generation), Generation)
    if system[: len(before.system)] != before.system:
        raise ValueError("system parts can only be appended")
    return RequestDraft(
        session_id=before.session_id,
        agent=before.agent,
        provider_id=before.provider_id,
        model_id=before.model_id,
        messages=before.messages,
        tools=before.tools,
        headers=headers,
        generation=generation,
        options=options,
        system=system,
    )
