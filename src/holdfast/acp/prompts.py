"""The prompts of an editor that are under way in one Session, from their admission to the answer of `session/prompt`.

Invariants
- Every prompt is answered: when the work that it caused is over, when it fails, or when it is cancelled.
- The answer follows everything that was sent about the work.
- `session/cancel` counts for the prompts that are under way when it arrives, also for one that is not admitted yet."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.acp.errors import failed
from holdfast.client.errors import ActivityFailed, ApiError, ClientError
from holdfast.client.new_ids import new_message_id
from holdfast.mcp.errors import RpcError
from holdfast.mcp.messages import INTERNAL_ERROR
from holdfast.schema.prompt import SkillInput

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.acp.following import Following
    from holdfast.acp.prompt_input import GivenPrompt
    from holdfast.embedded.answer import Answer
    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.prompt import Admission

    Admit = Callable[[], Coroutine[Any, Any, Admission]]

Json = dict[str, Any]
CLOSED = -32800
CANCEL_SECONDS = 60.0
"""How long the end of interrupted work is waited for."""
STOPPED = {"length": "max_tokens", "max_tokens": "max_tokens", "content-filter": "refusal", "refusal": "refusal"}

log = logging.getLogger(__name__)


class _Prompt:
    def __init__(self, work: asyncio.Task[Answer]) -> None:
        self.work = work
        self.cancelled = False
        self.left = False
        """Whether nobody waits for it here any more, although the work goes on."""


class Prompts:
    def __init__(
        self,
        host: Holdfast,
        session_id: str,
        following: Following,
        is_connected: Callable[[], bool],
    ) -> None:
        self._host = host
        self._session_id = session_id
        self._following = following
        self._is_connected = is_connected
        self._under_way: dict[str, _Prompt] = {}
        self._admitted: set[str] = set()
        self._interrupting: asyncio.Task[None] | None = None

    @property
    def cancelling(self) -> bool:
        return self._interrupting is not None and not self._interrupting.done()

    async def send(self, given: GivenPrompt) -> Json:
        id = new_message_id()
        # What the editor attached is not looked for again in the text.
        prompt = self._host.sessions.prompt
        return await self._answer(
            id,
            lambda: prompt(
                self._session_id, id=id, text=given.text, files=given.files or None, resolve=not given.files
            ),
        )

    async def send_command(self, name: str, arguments: str, given: GivenPrompt) -> Json:
        id = new_message_id()
        command = self._host.sessions.command
        return await self._answer(
            id,
            lambda: command(
                self._session_id, id=id, command=name, arguments=arguments, files=given.files or None, resolve=True
            ),
        )

    async def send_skill(self, name: str, arguments: str, given: GivenPrompt) -> Json:
        id = new_message_id()
        prompt = self._host.sessions.prompt
        skills = (SkillInput(id=name),)
        return await self._answer(
            id,
            lambda: prompt(
                self._session_id, id=id, text=arguments, skills=skills, files=given.files or None, resolve=True
            ),
        )

    async def compact(self) -> Json:
        await self._host.sessions.compact(self._session_id)
        return {"stopReason": "end_turn"}

    def cancel(self) -> None:
        """Interrupt the Session; the prompts that are under way are answered with `cancelled`."""
        for id, prompt in self._under_way.items():
            prompt.cancelled = True
            if id not in self._admitted:
                prompt.work.cancel()
        if not self.cancelling:
            work = self._interrupt(list(self._under_way))
            self._interrupting = asyncio.get_running_loop().create_task(work, name="holdfast-acp-interrupt")

    async def stop(self) -> None:
        """The editor closes the session: what it has asked for is ended."""
        if self._under_way:
            self.cancel()
        if self._interrupting is not None:
            await asyncio.wait({self._interrupting})

    async def close(self) -> None:
        """The editor has gone: the work goes on in whatever process executes it."""
        tasks: list[asyncio.Task[Any]] = [] if self._interrupting is None else [self._interrupting]
        for prompt in self._under_way.values():
            prompt.left = True
            prompt.work.cancel()
            tasks.append(prompt.work)
        if tasks:
            await asyncio.wait(tasks)

    async def _answer(self, id: str, admit: Admit) -> Json:
        async def admit_once() -> Admission:
            receipt = await admit()
            self._admitted.add(id)
            return receipt

        if self._interrupting is not None:
            await asyncio.wait({self._interrupting})  # a new prompt is not meant by an earlier cancellation
        self._following.translation.own.add(id)
        work = asyncio.get_running_loop().create_task(self._host.answer(self._session_id, admit_once))
        prompt = self._under_way[id] = _Prompt(work)
        try:
            answer = await work
        except asyncio.CancelledError:
            if prompt.cancelled:
                return {"stopReason": "cancelled"}
            if prompt.left:
                raise RpcError(CLOSED, "The session was closed or opened again here; its work goes on") from None
            await self._abandoned(id, prompt)
            raise
        except ActivityFailed as error:
            return await self._failed(error, prompt)
        except (ApiError, ClientError) as error:
            if prompt.cancelled:
                return {"stopReason": "cancelled"}
            raise failed(error) from error
        finally:
            self._under_way.pop(id, None)
            self._admitted.discard(id)
            self._following.translation.own.discard(id)
        return await self._completed(answer, prompt)

    async def _abandoned(self, id: str, prompt: _Prompt) -> None:
        """The request itself was cancelled. If the editor did that, the work is interrupted; if it has gone, the work
        goes on."""
        if self._is_connected():
            self.cancel()
        if self._interrupting is not None:
            await asyncio.wait({self._interrupting})
        prompt.work.cancel()
        await asyncio.wait({prompt.work})

    async def _completed(self, answer: Answer, prompt: _Prompt) -> Json:
        await self._following.delivered(answer.message.id)
        tokens = answer.tokens
        cached = tokens.cache
        total = tokens.input + tokens.output + tokens.reasoning + cached.read + cached.write
        usage = {
            "totalTokens": total,
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "thoughtTokens": tokens.reasoning,
            "cachedReadTokens": cached.read,
            "cachedWriteTokens": cached.write,
        }
        reason = "cancelled" if prompt.cancelled else STOPPED.get(answer.message.finish or "", "end_turn")
        return {"stopReason": reason, "usage": usage}

    async def _failed(self, error: ActivityFailed, prompt: _Prompt) -> Json:
        outcome = error.outcome
        if outcome.message_id is not None:
            await self._following.delivered(outcome.message_id)
        if prompt.cancelled or outcome.type == "interrupted":
            return {"stopReason": "cancelled"}
        raise RpcError(
            INTERNAL_ERROR, str(error), {"outcome": outcome.type, **({"code": outcome.code} if outcome.code else {})}
        )

    async def _interrupt(self, ids: list[str]) -> None:
        try:
            for id in ids:
                await self._withdraw(id)
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._host.sessions.interrupt(self._session_id)
        except (ApiError, ClientError, TimeoutError) as error:
            log.warning("%s could not be interrupted: %s", self._session_id, error)
            for prompt in self._under_way.values():
                if prompt.cancelled:
                    prompt.work.cancel()

    async def _withdraw(self, id: str) -> None:
        """A prompt that the model has not seen is not begun after the interruption."""
        if id in self._admitted:
            with suppress(ApiError):  # it is being worked on
                await self._host.sessions.withdraw(self._session_id, message_id=id)
