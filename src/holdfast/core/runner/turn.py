"""One provider turn: stream, start each complete call as soon as it is recorded, settle all, end the step.

Interruption may enter at two places, both named `cancellable`: the stream, and each tool's own execution. Everything
after them is ordinary code, so an outcome and its record cannot be torn apart."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.core.permission.errors import TurnEnded
from holdfast.core.runner.allowance import ASK_FROM
from holdfast.core.runner.publish import TOOL_INTERRUPTED
from holdfast.core.session.answer_outcome import LAST_STEP_REACHED, TURN_INTERRUPTED, TURN_SUSPENDED
from holdfast.core.session.errors import Interrupted, RepeatedCalls, StructuredOutputError
from holdfast.core.session.interrupt import ABANDONED, STOPPED
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.progress import reporting
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.core.tool.tool_events import collecting
from holdfast.llm.answer_format import Value, refused_way
from holdfast.llm.errors import LLMError
from holdfast.llm.event import ProviderError, StepFinish
from holdfast.llm.media import refuses_media
from holdfast.llm.stream import stream_prepared
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from holdfast.core.runner.allowance import Allowance
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.runner.publish import TurnPublisher
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.runner.structured import TurnOutput
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.registry import Materialized
    from holdfast.core.tool.tool import CallOutput
    from holdfast.llm.event import Event, ToolCall
    from holdfast.llm.pace import Pace
    from holdfast.llm.route.retry import Retry
    from holdfast.llm.route.transport import Transport
    from holdfast.llm.stream import Prepared
    from holdfast.schema.record import Record

LAST_STEP_CALL = "Tools are disabled after the maximum agent steps"
OVERFLOW = "context-overflow"
ANSWER_SECONDS = 1.0
"""Calls that run for longer may outlive their process."""

log = logging.getLogger(__name__)


class Outcome(Frozen):
    continues: bool
    """Whether the model is owed another turn."""
    overflow: LLMError | ProviderError | None = None
    """The request did not fit and nothing was recorded: `Turn.give_up` records it, if nobody recovers."""
    refused: LLMError | ProviderError | None = None
    """The same for a request that the provider refused, perhaps because of its media or of how it asks for a
    structured answer."""


class _Undispatched(Exception):
    """The dispatch was not recorded: nothing was sent, and nothing more is to be said."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Turn:
    def __init__(
        self,
        publisher: TurnPublisher,
        outbox: Outbox,
        tools: Materialized,
        authorizer: Authorizer,
        interrupt: Interrupt,
        allowance: Allowance,
        settings: SessionSettings,
        pace: Pace | None = None,
        *,
        asking: Callable[[], Awaitable[Collection[str]]],
        has_media: bool = False,
    ) -> None:
        """`asking` gives the calls of this Session that may be executed again after a shutdown."""
        self._asking = asking
        self._kept: set[str] = set()
        self._begun: Collection[str] = ()
        self._of = publisher.of
        self._publisher = publisher
        self._outbox = outbox
        self._tools = tools
        self._authorizer = authorizer
        self._interrupt = interrupt
        self._allowance = allowance
        self._limits = settings.limits
        self._answer_limits = settings.answer
        self._pace = pace
        self._has_media = has_media
        self._slots = asyncio.Semaphore(settings.limits.running_calls)
        self._running: set[asyncio.Task[None]] = set()
        self._calls = 0
        self._streaming = True
        self._by_person = False
        """Whether a person asked for the calls, not the model."""
        self._on_disk = False
        self._beside = False
        self._held_back: LLMError | ProviderError | None = None
        self._repeated: RepeatedCalls | None = None
        self._output: TurnOutput | None = None
        self._answered = self._rejected = False
        """Whether the step gave the structured answer, or one that does not match."""
        self._mismatch: StructuredOutputError | None = None

    async def run(
        self,
        transport: Transport,
        prepared: Prepared,
        retry: Retry,
        barrier: Callable[[], Awaitable[str | None]],
        output: TurnOutput | None = None,
        answered: Callable[[], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Raises what ended the stream, after everything was recorded. The request goes out once all that was handed
        to the outbox is on disk, its dispatch included. `barrier` gives the tree before the step; no step starts and no
        tool runs before it is there. `output` is the format that the request asks for. `answered` is awaited when the
        answer is complete and calls of it still run."""
        publisher = self._publisher
        self._output = output
        failure: Exception | None = None
        consuming = self._consume(transport, prepared, retry, barrier)
        try:
            stopped = await self._interrupt.cancellable(consuming, name="provider stream")
            interrupted = stopped is STOPPED or stopped is ABANDONED
        except _Undispatched as error:
            raise error.cause from None
        except Exception as error:  # noqa: BLE001 - whatever broke the stream is recorded first, then raised
            failure, interrupted = error, False
        self._streaming = False
        publisher.streamed()
        if answered is not None and publisher.finish is not None and publisher.unsettled:
            await answered()
        if isinstance(failure, LLMError) and self._is_recoverable(failure):
            self._held_back = failure
        if (held := self._held_back) is not None and not interrupted:
            publisher.close()
            if held.classification == OVERFLOW:
                return Outcome(continues=False, overflow=held)
            return Outcome(continues=False, refused=held)
        await self._end(failure, interrupted=interrupted)
        if self._answered or self._rejected:
            return Outcome(continues=self._rejected)
        return Outcome(continues=publisher.called and publisher.finish is not None and not self._allowance.last_step)

    async def call(self, calls: Sequence[ToolCall], snapshot: str | None) -> Outcome:
        """Make calls that a person asked for, and end the step. `snapshot` is the tree before it."""
        publisher = self._publisher
        publisher.snapshot = snapshot
        for call in calls:
            publisher.handle(call)
        publisher.handle(StepFinish(reason="tool-calls"))
        self._by_person = True
        self._streaming = False
        self._outbox.submit()
        await self._outbox.heard()
        self._on_disk = True
        self._start_tools()
        await self._end(None, interrupted=False)
        return Outcome(continues=True)

    async def resume(self, output: TurnOutput | None = None, begun: Collection[str] = ()) -> Outcome:
        """Execute the calls of an earlier process that the publisher has adopted, and end their step. `output` holds
        the structured answer that the step has given. Calls in `begun` have something to stop."""
        self._output = output
        self._begun = begun
        self._streaming = False
        self._on_disk = True
        self._start_tools()
        await self._end(None, interrupted=False)
        return Outcome(continues=not self._answered)

    async def give_up(self, error: LLMError | ProviderError) -> None:
        """Nobody could make the request smaller, or acceptable: this is how the turn ended."""
        if isinstance(error, ProviderError):
            self._publisher.fail_reported(error.message)
            await self._outbox.commit()
            return
        self._publisher.fail(error.message)
        await self._outbox.commit()
        raise error

    async def _end(self, failure: Exception | None, *, interrupted: bool) -> None:
        publisher = self._publisher
        publisher.close_fragments()
        if failure is not None or interrupted:
            self._outbox.submit()
        await self._settled()
        stopped = interrupted or publisher.ended or self._interrupt.requested
        publisher.fail_open_calls(interrupted=stopped, keep=self._kept)
        if self._kept:  # the step stays open with them
            self._record_answer()
            publisher.close()
            await self._outbox.commit()
            raise Interrupted
        if failure is None:  # what a raw failure cut off is left to the next drain
            publisher.fail_open_inputs()
        if failure is not None:
            publisher.fail(str(failure))
        elif publisher.finish is not None:
            self._finish()
        elif interrupted:
            publisher.fail(TURN_SUSPENDED if self._interrupt.suspending else TURN_INTERRUPTED)
            if self._interrupt.suspending:
                publisher.suspend_activity()
        publisher.close()
        troubles = (failure, self._repeated, self._mismatch)
        settled = all(trouble is None for trouble in troubles) and not self._interrupt.requested and publisher.called
        if settled and self._on_disk and not self._beside:
            self._outbox.soon()  # travels with the dispatch of the next turn
            return
        await self._outbox.commit()
        if failure is not None:
            raise failure
        if self._interrupt.requested:
            raise Interrupted
        if self._repeated is not None:
            raise self._repeated
        if self._mismatch is not None:
            raise self._mismatch

    async def _settled(self) -> None:
        """Wait for all calls. If that takes long, what the answer used is on disk meanwhile."""
        if not self._running:
            return
        _, running = await asyncio.wait(self._running, timeout=ANSWER_SECONDS)
        if running:
            self._record_answer()
            self._outbox.submit()
            await asyncio.wait(running)

    def _record_answer(self) -> None:
        if (answered := self._publisher.answered()) is not None:
            self._outbox.stage(answered)

    def _finish(self) -> None:
        """End a step whose answer is complete."""
        publisher, last_step = self._publisher, self._allowance.last_step
        unchanged = self._tools.look_only(publisher.tools)
        output = self._output if not publisher.ended else None
        verdict = output.judge(publisher) if output is not None else None
        if isinstance(verdict, Value):
            publisher.end(unchanged=unchanged, structured=verdict.value)
            self._answered = True
        elif output is None or verdict is None:
            publisher.end(unchanged=unchanged)
            if publisher.called and last_step:
                publisher.end_activity(LAST_STEP_REACHED)
        elif output.may_repeat and not last_step:
            publisher.end(unchanged=unchanged, rejected=verdict.reason)
            if verdict.note is not None:
                publisher.tell(verdict.note)
            output.count_rejection()
            self._rejected = True
        else:
            self._mismatch = StructuredOutputError(output.attempts, verdict.reason, last_step=last_step)
            publisher.fail_answer(str(self._mismatch), self._mismatch.code)

    async def _consume(
        self,
        transport: Transport,
        prepared: Prepared,
        retry: Retry,
        barrier: Callable[[], Awaitable[str | None]],
    ) -> None:
        publisher = self._publisher
        started = False
        sending = stream_prepared(
            transport,
            prepared,
            retry=retry.replace(limits=self._limits.retry),
            before=self._dispatched,
            limits=self._answer_limits,
            pace=self._pace,
        )
        async with aclosing(sending) as batches:
            async for batch in batches:
                if not started:
                    started, publisher.snapshot = True, await barrier()
                if self._holds_back(batch):
                    return
                for event in batch:
                    publisher.handle(event)
                if publisher.fresh:
                    self._outbox.submit()
                    await self._outbox.heard()  # no side effect before its call is on disk
                    self._on_disk = True
                    self._start_tools()
                else:
                    self._outbox.soon()

    async def _dispatched(self) -> None:
        try:
            await self._outbox.heard()
        except Exception as error:
            raise _Undispatched(error) from error

    def _holds_back(self, batch: list[Event]) -> bool:
        """What the provider reports before any output is not recorded yet, if it may be recovered."""
        last = batch[-1]
        if isinstance(last, ProviderError) and self._is_recoverable(last):
            self._held_back = last
            return True
        return False

    def _is_recoverable(self, error: LLMError | ProviderError) -> bool:
        if self._publisher.message_id is not None:
            return False
        if self._output is not None and refused_way(self._output.asked, error.reason, error.message) is not None:
            return True
        return error.classification == OVERFLOW or (self._has_media and refuses_media(error.reason, error.message))

    def _start_tools(self) -> None:
        calls, self._publisher.fresh = self._publisher.fresh, []
        for call in calls:
            self._calls += 1
            if self._output is not None and self._output.is_answer(call):
                self._output.take(call, self._publisher)
                continue
            if (refusal := self._refusal(call)) is not None:
                self._publisher.fail_call(call.id, refusal)
                continue
            task = asyncio.get_running_loop().create_task(self._settle(call), name=f"tool {call.name}")
            self._running.add(task)

    def _refusal(self, call: ToolCall) -> str | None:
        """Why a call is recorded but never runs."""
        if self._allowance.last_step:
            return LAST_STEP_CALL
        if self._calls > self._limits.calls:
            return f"Too many tool calls in one turn: only the first {self._limits.calls} ran"
        return None

    async def _settle(self, call: ToolCall) -> None:
        """Exactly one settlement, whatever happens inside."""
        publisher = self._publisher
        try:
            grace, begun = self._tools.grace(call.name), call.id in self._begun
            outcome = await self._interrupt.cancellable(
                self._execute(call), name=f"tool {call.name}", grace=grace, begun=begun
            )
            if outcome is STOPPED and self._interrupt.suspending and call.id in await self._asking():
                self._kept.add(call.id)
            elif outcome is STOPPED:
                publisher.fail_call(call.id, TOOL_INTERRUPTED)
            elif outcome is ABANDONED:
                publisher.fail_call(call.id, f"{TOOL_INTERRUPTED}: {call.name} did not stop, its outcome is unknown")
            else:
                output, beside = outcome
                publisher.succeed(call.id, await self._tools.bound(output))
                for event in beside:
                    self._outbox.stage(event)
                    self._beside = True  # the next boundary looks at it
        except Exception as error:  # noqa: BLE001 - one call's failure is that call's
            self._fail(call, _unwrapped(error))
        # The last settlement travels with the end of the step; earlier ones are committed as they come.
        if self._streaming or publisher.unsettled:
            self._outbox.soon()

    def _fail(self, call: ToolCall, error: Exception) -> None:
        publisher = self._publisher
        match error:
            case TurnEnded():
                # A person said no, which is no result: the whole turn stops here.
                publisher.fail_call(call.id, TOOL_INTERRUPTED)
                self._interrupt.fire()
            case ToolFailure():
                publisher.fail_call(call.id, str(error))
            case RepeatedCalls():
                publisher.fail_call(call.id, str(error))
                self._repeated = error
            case _:
                reference = secrets.token_hex(4)
                log.error("tool %s failed (%s)", call.name, reference, exc_info=error)
                publisher.fail_call(call.id, f"Tool execution failed: {type(error).__name__} ({reference})")

    async def _execute(self, call: ToolCall) -> tuple[CallOutput, list[Record]]:
        publisher = self._publisher
        assert publisher.message_id is not None
        of = self._of
        context = ToolContext(of.session_id, of.agent, publisher.message_id, call.id, of.model, self._by_person)
        times = self._allowance.times(call)
        if times >= self._limits.repeated_calls:
            raise RepeatedCalls(call.name, times)
        async with self._slots:
            if times >= ASK_FROM:
                await self._allow_again(call, context, times)
            with (
                publisher.working(),
                collecting() as beside,
                reporting(lambda structured, content: publisher.progress(call.id, structured, content)),
            ):
                return await self._tools.execute(call.name, call.input, context), beside

    async def _allow_again(self, call: ToolCall, context: ToolContext, times: int) -> None:
        """The same call once more. Whoever denies that ends the loop, not just this call."""
        try:
            await self._authorizer.allow(context, "doom_loop", (call.name,))
        except Denied as denied:
            raise RepeatedCalls(call.name, times) from denied


def _unwrapped(error: Exception) -> Exception:
    """What a tool's task group was about: a person's word before a failure, and that before a defect."""
    if not isinstance(error, ExceptionGroup):
        return error
    inner = [_unwrapped(each) for each in error.exceptions]
    for kind in (TurnEnded, ToolFailure):
        if (found := next((each for each in inner if isinstance(each, kind)), None)) is not None:
            return found
    return inner[0]
