"""One provider turn: stream, start each complete call as soon as it is recorded, settle all, end the step.

Interruption may enter at two places, both named `cancellable`: the stream, and each tool's own execution. Everything
after them is ordinary code, so an outcome and its record cannot be torn apart."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import ABANDONED, STOPPED
from holdfast.core.session.runner.publish import TOOL_INTERRUPTED
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.llm.stream import stream

if TYPE_CHECKING:
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.runner.publish import TurnOf, TurnPublisher
    from holdfast.core.tool.registry import Materialized
    from holdfast.llm.event import ToolCall
    from holdfast.llm.model import Model
    from holdfast.llm.request import Request
    from holdfast.llm.route.transport import Transport

TURN_INTERRUPTED = "Provider turn interrupted"

log = logging.getLogger(__name__)


class Turn:
    def __init__(
        self, of: TurnOf, publisher: TurnPublisher, tools: Materialized, transport: Transport, interrupt: Interrupt
    ) -> None:
        self._of = of
        self._publisher = publisher
        self._tools = tools
        self._transport = transport
        self._interrupt = interrupt
        self._running: dict[asyncio.Task[None], ToolCall] = {}
        self._streaming = True

    async def run(self, model: Model, request: Request) -> bool:
        """Whether the model is owed another turn. Raises what ended the stream, after everything was recorded."""
        publisher = self._publisher
        failure: Exception | None = None
        try:
            outcome = await self._interrupt.cancellable(self._consume(model, request), name="provider stream")
            interrupted = outcome is STOPPED or outcome is ABANDONED
        except Exception as error:  # noqa: BLE001 - whatever broke the stream is recorded first, then raised
            failure, interrupted = error, False
        self._streaming = False
        publisher.close_fragments()
        if failure is not None or interrupted:
            publisher.submit()
        if self._running:
            await asyncio.wait(self._running)
        publisher.fail_open_calls(interrupted=interrupted or publisher.ended)
        if failure is not None:
            publisher.fail(str(failure))
        elif publisher.finish is not None:
            publisher.end()
        elif interrupted:
            publisher.fail(TURN_INTERRUPTED)
        publisher.close()
        await publisher.commit()
        if failure is not None:
            raise failure
        if self._interrupt.requested:
            raise Interrupted
        return publisher.called and publisher.finish is not None

    async def _consume(self, model: Model, request: Request) -> None:
        publisher = self._publisher
        async with aclosing(stream(self._transport, model, request)) as batches:
            async for batch in batches:
                for event in batch:
                    publisher.handle(event)
                if publisher.fresh:
                    await publisher.commit()  # no side effect before its call is on disk
                    self._start_tools()
                else:
                    publisher.submit()

    def _start_tools(self) -> None:
        calls, self._publisher.fresh = self._publisher.fresh, []
        for call in calls:
            task = asyncio.get_running_loop().create_task(self._execute(call), name=f"tool {call.name}")
            self._running[task] = call

    async def _execute(self, call: ToolCall) -> None:
        publisher = self._publisher
        assert publisher.message_id is not None
        context = ToolContext(self._of.session_id, self._of.agent, publisher.message_id, call.id)
        work = self._tools.execute(call.name, call.input, context)
        try:
            outcome = await self._interrupt.cancellable(work, name=f"tool {call.name}")
        except ToolFailure as failure:
            publisher.fail_call(call.id, str(failure))
        except Exception as error:
            reference = secrets.token_hex(4)
            log.exception("tool %s failed (%s)", call.name, reference)
            publisher.fail_call(call.id, f"Tool execution failed: {type(error).__name__} ({reference})")
        else:
            if outcome is STOPPED:
                publisher.fail_call(call.id, TOOL_INTERRUPTED)
            elif outcome is ABANDONED:
                publisher.fail_call(call.id, f"{TOOL_INTERRUPTED}: {call.name} did not stop, its outcome is unknown")
            else:
                publisher.succeed(call.id, await self._tools.bound(outcome))
        # The last settlement travels with the end of the step; earlier ones are committed as they come.
        if self._streaming or publisher.unsettled:
            publisher.submit()
