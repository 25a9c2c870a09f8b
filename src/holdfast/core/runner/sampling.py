"""Answers of a model that an MCP server asks for in the course of a call (`sampling/createMessage`).

Invariants
- Only a call of a Session leads to one: it is answered by the model that made the call, counts for the Session and its
  budgets, and ends with the call.
- A person or a rule allows each one, as `<server>_sampling`. The server sees nothing of the conversation.
- Nothing is added to the conversation; only what the answer cost is recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.prices import cache_savings
from holdfast.core.filesystem.content import NATIVE
from holdfast.core.mcp.stranger_text import printable
from holdfast.core.mcp.tool_names import sampling_action
from holdfast.core.permission.errors import DeniedByPerson
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.runner.preparation import cache_id, session_headers
from holdfast.core.runner.publish import stored_tokens
from holdfast.core.session.errors import BudgetReached, MessageNotFound
from holdfast.core.session.id_locks import IdLocks
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.call_permission import EVERYTHING
from holdfast.core.tool.tool import ToolContext
from holdfast.llm.errors import LLMError
from holdfast.llm.request import Generation, HttpOverlay, MediaPart, Message, TextPart, make_request
from holdfast.llm.route.retry import Retry
from holdfast.llm.stream import generate
from holdfast.mcp.content import ImageContent, TextContent
from holdfast.mcp.errors import RpcError
from holdfast.mcp.input import SamplingAnswer
from holdfast.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from holdfast.schema.exceptions import ApiError
from holdfast.schema.session_event import UsageRecorded
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from contextvars import Context

    from holdfast.core.catalog.resolved import ResolvedModel
    from holdfast.core.mcp.seam import CallFor
    from holdfast.core.runner.services import RunnerServices
    from holdfast.llm.event import Usage
    from holdfast.llm.request import Part, Request
    from holdfast.mcp.input import Sampling
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Session

REJECTED = -1
"""The protocol's code for an answer that a person did not allow."""
MOST_IN_A_CALL = 20
MOST_MESSAGES = 100
MOST_CHARACTERS = 1024 * 1024
MOST_IMAGES = 20
MOST_TOKENS = 16_384
"""Of an answer, whatever the server asks for."""
MOST_STOPS = 8
SECONDS = 600.0
SHOWN_CHARACTERS = 4_000
REASONS = {"stop": "endTurn", "length": "maxTokens"}


class _Call:
    """A call in whose course a server asks."""

    def __init__(self) -> None:
        self.count = 0
        self.tasks: set[asyncio.Task[SamplingAnswer]] = set()


class ModelSampling:
    """A `core.mcp.seam.Sampler`. One per Location."""

    def __init__(self, services: RunnerServices) -> None:
        self._sessions = services.sessions
        self._models = services.models
        self._tools = services.tools
        self._here = services.here
        self._calls: dict[CallFor, _Call] = {}
        self._locks = IdLocks()

    async def sample(
        self, server: str, request: Sampling, whom: CallFor, context: Context | None = None
    ) -> SamplingAnswer:
        """Raises RpcError, which the server reads."""
        call = self._calls.setdefault(whom, _Call())
        call.count += 1
        if call.count > MOST_IN_A_CALL:
            raise RpcError(INVALID_REQUEST, f"A call may ask for at most {MOST_IN_A_CALL} answers of a model")
        # In the context of the call: waiting for a person is no work of it.
        work = self._sample(server, request, whom)
        task = asyncio.get_running_loop().create_task(work, context=context.copy() if context is not None else None)
        call.tasks.add(task)
        try:
            await asyncio.wait({task})
        finally:
            call.tasks.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise RpcError(INVALID_REQUEST, "The call is over")
        return task.result()

    async def ended(self, whom: CallFor) -> None:
        """The call is over: nobody waits for its answers any more."""
        call = self._calls.pop(whom, None)
        if call is None or not call.tasks:
            return
        tasks = tuple(call.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _sample(self, server: str, request: Sampling, whom: CallFor) -> SamplingAnswer:
        messages = read_messages(request)
        await self._allow(server, request, whom)
        async with self._locks.hold(whom.session_id):
            return await self._answer(request, messages, whom)

    async def _allow(self, server: str, request: Sampling, whom: CallFor) -> None:
        context = ToolContext(whom.session_id, whom.agent, whom.message_id, whom.call_id)
        metadata = {"server": server, "maxTokens": _limit(request), "asks": _shown(request)}
        action = sampling_action(server)
        try:
            await self._tools.authorizer.allow(context, action, EVERYTHING, save=EVERYTHING, metadata=metadata)
        except (Denied, DeniedByPerson) as error:
            raise RpcError(REJECTED, "The user rejected the sampling request") from error

    async def _answer(self, request: Sampling, messages: tuple[Message, ...], whom: CallFor) -> SamplingAnswer:
        session = await self._sessions.store.get(whom.session_id)
        usage: Usage | None = None
        sent = asyncio.Event()

        async def sending() -> None:
            sent.set()

        try:
            await self._sessions.budgets.check(session.id)
            resolved = self._models.catalog.resolve(session.id, await self._model(session, whom))
            made = await self._models.hooks.change(
                _request(session, resolved, request, messages),
                "sampling",
                session_id=session.id,
                agent=whom.agent,
                model=resolved.ref,
            )
            async with asyncio.timeout(SECONDS):
                retry = Retry(limits=self._here.settings().limits.retry)
                answer = await generate(self._models.transport, resolved.model, made, retry=retry, before=sending)
            usage = answer.usage
        except TimeoutError:
            raise RpcError(INTERNAL_ERROR, f"The model did not answer within {SECONDS:g} s") from None
        except BudgetReached as error:
            raise RpcError(REJECTED, "The budget of the session is used up") from error
        except (LLMError, ApiError) as error:
            usage = error.usage if isinstance(error, LLMError) else None
            raise RpcError(INTERNAL_ERROR, "The model gave no answer") from error
        finally:  # also of an answer that breaks off or that nobody waits for any more
            if sent.is_set():
                await run_to_completion(self._record_usage(session, resolved, usage))
        if answer.error is not None:
            raise RpcError(INTERNAL_ERROR, "The model gave no answer")
        return SamplingAnswer(
            role="assistant",
            content=TextContent(text=answer.text),
            model=f"{resolved.ref.provider_id}/{resolved.ref.id}",
            stop_reason=REASONS.get(answer.reason or "", answer.reason),
        )

    async def _model(self, session: Session, whom: CallFor) -> ModelRef | None:
        """The model that made the call."""
        try:
            message = (await self._sessions.store.message(session.id, whom.message_id)).decode()
        except MessageNotFound:
            return session.model
        return message.model if isinstance(message, AssistantMessage) else session.model

    async def _record_usage(self, session: Session, resolved: ResolvedModel, usage: Usage | None) -> None:
        """Of an unknown usage too: what was sent is a turn, whatever the provider tells."""
        used = stored_tokens(usage)
        spent = UsageRecorded(
            timestamp=self._sessions.clock.now(),
            session_id=session.id,
            purpose="sampling",
            cost=resolved.price(used),
            tokens=used,
            model=resolved.ref,
            saved=cache_savings(resolved.price, used),
        )
        counted = await self._sessions.budgets.settlement(session.id)
        await self._sessions.log.publish(spent, location=session.location, local=counted)


def read_messages(request: Sampling) -> tuple[Message, ...]:
    """The conversation that the server gives. Raises RpcError for what cannot be asked."""
    if request.uses_tools:
        raise RpcError(INVALID_PARAMS, "Tools are not offered in sampling")
    if request.max_tokens < 1:
        raise RpcError(INVALID_PARAMS, "`maxTokens` is not positive")
    if not 0 < len(request.messages) <= MOST_MESSAGES:
        raise RpcError(INVALID_PARAMS, f"A request has 1 to {MOST_MESSAGES} messages")
    messages: list[Message] = []
    characters, images = len(request.system_prompt or ""), 0
    for given in request.messages:
        parts: list[Part] = []
        for part in given.parts:
            if isinstance(part, TextContent):
                characters += len(part.text)
                parts.append(TextPart(text=part.text))
            elif isinstance(part, ImageContent) and part.mime_type in NATIVE:
                images += 1
                parts.append(MediaPart(media_type=part.mime_type, data=part.data))
            else:
                raise RpcError(INVALID_PARAMS, "Messages have text, and images that are PNG, JPEG, GIF or WebP")
        messages.append(Message(role=given.role, content=tuple(parts)))
    if characters > MOST_CHARACTERS or images > MOST_IMAGES:
        raise RpcError(INVALID_PARAMS, f"A request has at most {MOST_CHARACTERS} characters and {MOST_IMAGES} images")
    return tuple(messages)


def _request(session: Session, resolved: ResolvedModel, request: Sampling, messages: tuple[Message, ...]) -> Request:
    overlay = resolved.overlay(cache_id(session))
    stops = tuple(text for text in request.stop_sequences or () if text)[:MOST_STOPS]
    return make_request(
        system=[request.system_prompt] if request.system_prompt else (),
        messages=messages,
        generation=Generation(max_tokens=_limit(request), temperature=request.temperature, stop=stops or None),
        provider_options=overlay.options,
        http=HttpOverlay(body=overlay.body or None, headers=session_headers(session, overlay.headers)),
    )


def _limit(request: Sampling) -> int:
    return min(request.max_tokens, MOST_TOKENS)


def _shown(request: Sampling) -> str:
    """What the person sees of it."""
    lines = [f"system: {request.system_prompt}"] if request.system_prompt else []
    for message in request.messages[:MOST_MESSAGES]:
        said = (_described(part) for part in message.parts)
        lines.append(f"{message.role}: {' '.join(said)}")
    text = printable("\n".join(lines))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _described(part: Any) -> str:
    return part.text[:SHOWN_CHARACTERS] if isinstance(part, TextContent) else "(image)"
