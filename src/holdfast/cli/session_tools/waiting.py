"""Waits for a Session: until it has nothing to do, somebody has to answer it, or the time is over. It is only watched:
whoever stops waiting leaves it at work."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import brief
from holdfast.cli.screen import fields
from holdfast.cli.session_tools.requests import open_requests
from holdfast.cli.session_tools.results import ANSWER_CHARACTERS, Status, cut
from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.insight import Outcome
    from holdfast.schema.typed_event import Event

    Report = Callable[[float, float | None, str | None], Awaitable[None]]

LOOK_SECONDS = 5.0
"""How often to look for requests whose event did not arrive, and to say what the Session waits for."""
SUBSCRIBE_SECONDS = 2.0
"""How long a prompt is held back until its events are followed."""
MOST_REPORTS = 10
"""Reports of progress that may follow each other at once; one more each 0.2 s."""
REPORTS_PER_SECOND = 5.0
ASKED = ("permission.v2.asked", "question.v2.asked", "form.created")


class Waiting:
    def __init__(self, client: AsyncClient, session_id: str, seconds: float, report: Report) -> None:
        self._client = client
        self._session_id = session_id
        self._seconds = seconds
        self._report = report
        self._began = asyncio.get_running_loop().time()
        self._asked = asyncio.Event()
        self._followed = asyncio.Event()
        self._reported = 0.0
        self._allowed = float(MOST_REPORTS)

    async def status(self, begin: Callable[[], Awaitable[object]] | None = None) -> Status:
        """Calls `begin` first, while events are followed already."""
        if self._seconds <= 0:
            if begin is not None:
                await begin()
            return await self._now()
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = [loop.create_task(self._watch())]
        try:
            if begin is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SUBSCRIBE_SECONDS):
                        await self._followed.wait()
                await begin()
            outcome = loop.create_task(self._client.sessions.outcome(self._session_id))
            tasks.append(outcome)
            return await self._until(outcome)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _until(self, outcome: asyncio.Task[Outcome]) -> Status:
        while True:
            asked = asyncio.ensure_future(self._asked.wait())
            try:
                await asyncio.wait(
                    (outcome, asked),
                    timeout=max(0.0, min(LOOK_SECONDS, self._left)),
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                asked.cancel()
            self._asked.clear()
            if outcome.done():
                return await self._ended(outcome.result())
            status = await self._now()
            if status.requests or self._left <= 0:
                return status
            if status.waits:
                await self._tell(f"waiting for {status.waits[0]}")

    async def _watch(self) -> None:
        """Take notice of what happens; without events the Session is looked at from time to time."""

        def followed() -> None:
            self._followed.set()
            self._asked.set()

        options = Options(on_heartbeat=followed)
        stream = self._client.sessions.tree_events(self._session_id, replay=False, options=options)
        with suppress(ApiError, ClientError):
            async with aclosing(aiter(stream)) as events:
                async for event in events:
                    if event.type in ASKED:
                        self._asked.set()
                    elif (line := _line(event)) is not None:
                        await self._tell(line)
        followed()

    async def _tell(self, line: str) -> None:
        passed = asyncio.get_running_loop().time() - self._began
        self._allowed = min(MOST_REPORTS, self._allowed + REPORTS_PER_SECOND * (passed - self._reported))
        if self._allowed >= 1:
            self._allowed -= 1
            self._reported = max(passed, self._reported + 0.001)  # progress has to grow
            await self._report(round(self._reported, 3), self._seconds, line)

    @property
    def _left(self) -> float:
        return self._seconds - (asyncio.get_running_loop().time() - self._began)

    async def _now(self) -> Status:
        """Without waiting for anything."""
        waits = await self._client.sessions.waits(self._session_id)
        requests = await open_requests(self._client, self._session_id)
        if requests:
            return Status(session=self._session_id, state="asking", requests=requests)
        if not waits and self._session_id not in await self._client.sessions.active():
            return await self._ended(await self._client.sessions.outcome(self._session_id))
        described = [f"{wait.what}, until {wait.ends}" for wait in waits]
        budgets = bool(waits) and all(wait.kind == "budget" for wait in waits)
        return Status(session=self._session_id, state="waiting" if budgets else "working", waits=described)

    async def _ended(self, outcome: Outcome) -> Status:
        requests = await open_requests(self._client, self._session_id)
        text = None
        if outcome.message_id is not None and outcome.type == "completed":
            message = await self._client.sessions.message(self._session_id, message_id=outcome.message_id)
            text = cut(message.text, ANSWER_CHARACTERS) if isinstance(message, AssistantMessage) else None
        return Status(
            session=self._session_id,
            state="asking" if requests else outcome.type,
            answer=text,
            error=outcome.error,
            requests=requests,
            pending=outcome.pending,
        )


def _line(event: Event) -> str | None:
    """What to tell of an event, on one line."""
    kind = event.type.removeprefix("session.next.")
    if kind not in ("tool.called", "tool.failed", "retried", "step.started", "compaction.started"):
        return None
    data: dict[str, Any] = fields(event)
    match kind:
        case "tool.called":
            return f"{data['tool']} {brief(_arguments(data['input']))}".rstrip()
        case "tool.failed" | "retried":
            return brief(data["error"]["message"])
        case "step.started":
            return f"{data['model']['providerID']}/{data['model']['id']} answers"
        case _:
            return "summarising older history"


def _arguments(given: dict[str, Any]) -> str:
    return " ".join(str(value) for value in given.values() if isinstance(value, str | int | float))
