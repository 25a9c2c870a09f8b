"""A user's program that embeds Holdfast with tools and context of its own. It is type-checked, and runs offline."""

import asyncio
import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, assert_never

import msgspec

from holdfast import (
    ActivityFailed,
    ApiError,
    ClientError,
    DurableEvent,
    Event,
    Holdfast,
    HoldfastSync,
    JsonCodec,
    LiveEvent,
    Location,
    ModelRef,
    Options,
    Page,
    Patience,
    PromptInput,
    Session,
    Source,
    StructuredOutputFailed,
    ToolContext,
    ToolFailure,
    asgi,
    check_outcome,
    connect,
    connect_sync,
    follow,
    follow_sync,
)
from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import StepEnded, ToolSuccess
from holdfast.schema.session_message import AssistantMessage, SessionMessage, TextPart, ToolPart

MODEL = ModelRef(provider_id="demo", id="scripted")
HERE = Path(__file__).parent


@dataclass
class Ticket:
    number: int
    title: str


class Filter(msgspec.Struct):
    open: bool = True
    labels: tuple[str, ...] = ()


class Tracker:
    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = {ticket.number: ticket for ticket in tickets}

    async def get(self, number: int) -> Ticket:
        if number not in self._tickets:
            raise ToolFailure(f"There is no ticket {number}.")
        return self._tickets[number]

    def count(self) -> int:
        return len(self._tickets)


def add_tools(hf: Holdfast | HoldfastSync, tracker: Tracker) -> None:
    @hf.tool
    async def ticket(
        number: Annotated[int, msgspec.Meta(ge=1, description="Its number.")], context: ToolContext
    ) -> Ticket:
        """Look up a ticket."""
        called_by: str = context.session_id
        assert called_by.startswith("ses_")
        return await tracker.get(number)

    @hf.tool(name="count_tickets")
    def count(filter: Filter) -> int:
        """Count the tickets."""
        return tracker.count() if filter.open else 0

    def close_ticket(number: int) -> str:
        """Close a ticket."""
        return f"closed {number}"

    remove = hf.tools.register({"close_ticket": close_ticket})
    remove()
    kept: int = count(Filter())  # a decorated function stays what it was
    assert kept == tracker.count()
    assert inspect.iscoroutinefunction(ticket)


def tracker_source(tracker: Tracker) -> Source[int]:
    async def load() -> int:
        return tracker.count()

    return Source(
        key="tracker/tickets",
        codec=JsonCodec(int),
        load=load,
        baseline=lambda count: f"The tracker has {count} tickets.",
        update=lambda old, new: f"The tracker has {new} tickets now.",
    )


def text_of(message: SessionMessage) -> str:
    match message:
        case AssistantMessage(content=parts):
            return "".join(part.text for part in parts if isinstance(part, TextPart))
        case _:
            return ""


def tools_of(messages: list[SessionMessage]) -> list[str]:
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return [part.name for answer in answers for part in answer.content if isinstance(part, ToolPart)]


def describe(event: Event) -> str:
    match event:
        case DurableEvent(data=StepEnded(finish=finish, cost=cost)):
            return f"{event.durable.seq}: {finish}, {cost:.2f}"
        case DurableEvent(data=ToolSuccess(call_id=call)):
            return f"{event.durable.seq}: {call}"
        case DurableEvent():
            return f"{event.durable.seq}: {event.type}"
        case LiveEvent(data=TextDelta(delta=delta)):
            return delta
        case LiveEvent():
            return event.type
        case _:
            assert_never(event)


async def main() -> None:
    environment = {**os.environ, "HOLDFAST_SCRIPT": str(HERE / "turns.json")}
    tracker = Tracker([Ticket(7, "The export button is hidden.")])
    async with Holdfast(HERE, environment=environment, unattended="deny", sandbox="off", config={}) as hf:
        add_tools(hf, tracker)
        hf.context.register(tracker_source(tracker))
        session: Session = await hf.sessions.create(model=MODEL, location=Location(directory=str(HERE)))
        admission = await hf.sessions.prompt(
            session.id, prompt=PromptInput(text="What is ticket 7?"), delivery="queue", options=Options(timeout=30)
        )
        seq: int = admission.admitted_seq
        try:
            outcome = check_outcome(await hf.sessions.outcome(session.id))
        except ActivityFailed as failed:
            raise SystemExit(f"{failed.outcome.type}: {failed.outcome.error}") from failed
        page: Page[SessionMessage] = await hf.sessions.messages(session.id, order="asc")
        assert outcome.message_id == page.items[-1].id
        assert tools_of(page.items) == ["ticket"]
        async for event in follow(hf, session.id, after=seq, patience=Patience(attempts=1)):
            describe(event)
            if isinstance(event.data, StepEnded) and event.data.finish == "stop":
                break
        print(text_of(page.items[-1]))


async def values(hf: Holdfast, blocking: HoldfastSync, session: Session) -> None:
    try:
        found: Ticket = await hf.sessions.ask(session, "Which ticket?", into=Ticket)
        same: Filter = blocking.sessions.ask(session.id, PromptInput(text="Which?"), into=Filter, retry_count=1)
        several: list[Ticket] = await hf.sessions.ask(session, "Which tickets?", into=list[Ticket])
        print(found.title, same.open, len(several), await hf.sessions.ask(session, "Which?", into={"type": "object"}))
    except StructuredOutputFailed as failed:
        print(failed.outcome.code)


def blocking(url: str) -> list[str]:
    with connect_sync(url, password="secret") as client:
        return [describe(event) for event in follow_sync(client, "ses_x", live=True)]


async def remote(url: str) -> Session | None:
    async with connect(url, headers={"x-team": "tools"}) as client:
        try:
            return await client.sessions.get("ses_x")
        except ApiError as error:
            print(error.code, error.status, error.body)
        except ClientError as error:
            print(error.reason, error.status)
    return None


application = asgi(Holdfast(HERE), password="secret", hosts=["agent.example"], origins=["https://agent.example"])


if __name__ == "__main__":
    asyncio.run(main())
