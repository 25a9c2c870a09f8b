"""A user's program that embeds Holdfast with tools and context of its own. It is type-checked, and runs offline."""

import asyncio
import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, assert_never

import msgspec
from pydantic import BaseModel, Field

from holdfast import (
    ABSENT,
    DISMISS,
    Absent,
    ActivityFailed,
    Answer,
    ApiError,
    AssistantMessage,
    ClientError,
    Done,
    DurableEvent,
    Event,
    FormPiece,
    Holdfast,
    HoldfastSettings,
    HoldfastSync,
    JsonCodec,
    LiveEvent,
    Location,
    ModelRef,
    Options,
    Page,
    Patience,
    PermissionDecision,
    PermissionPiece,
    PermissionReply,
    PermissionRequest,
    Piece,
    PromptInput,
    QuestionDecision,
    QuestionPiece,
    QuestionRequest,
    ReasoningPiece,
    RetryPiece,
    Session,
    SessionMessage,
    Source,
    StructuredOutputFailed,
    TextPart,
    TextPiece,
    ToolContext,
    ToolFailure,
    ToolFinished,
    ToolPart,
    ToolProgressed,
    ToolStarted,
    asgi,
    check_outcome,
    connect,
    connect_sync,
    follow,
    follow_sync,
)
from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import StepEnded, ToolSuccess
from holdfast.testing import Failure, ModelRequest, ScriptedModel, Structured, ToolCall

MODEL = ModelRef(provider_id="demo", id="scripted")
HERE = Path(__file__).parent


@dataclass
class Ticket:
    number: int
    title: str


class Filter(msgspec.Struct):
    open: bool = True
    labels: tuple[str, ...] = ()


class Change(BaseModel):
    number: int = Field(description="The ticket.", ge=1)
    title: str


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

    @hf.tool(approval=True)
    async def remove_ticket(number: int) -> str:
        """Remove a ticket for good."""
        return f"{number} is gone"

    def forwards(first: int, second: int) -> bool:
        return first < second

    @hf.tool(name="merge", approval=forwards)
    async def merge_tickets(first: int, second: int) -> str:
        """Make one ticket of two."""
        return f"{second} is {first} now"

    @hf.tool(name="count_tickets")
    def count(filter: Filter) -> int:
        """Count the tickets."""
        return tracker.count() if filter.open else 0

    @hf.tool
    async def change(change: Change, reason: Annotated[str, "Why."]) -> list[Change]:
        """Change a ticket."""
        return [change] if reason else []

    def close_ticket(number: int) -> str:
        """Close a ticket."""
        return f"closed {number}"

    remove = hf.tools.register({"close_ticket": close_ticket})
    remove()
    kept: int = count(Filter())  # a decorated function stays what it was
    assert kept == tracker.count()
    assert inspect.iscoroutinefunction(ticket)


def tracker_source(tracker: Tracker) -> Source[int]:
    async def load() -> int | Absent:
        return tracker.count() or ABSENT

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


def show(piece: Piece) -> str:
    match piece:
        case TextPiece(text=text, replaces=replaces):
            return f"whole: {text}" if replaces else text
        case ReasoningPiece(reasoning=thought):
            return thought
        case ToolStarted(tool=tool, input=given):
            return f"{tool} {given['number']}"
        case ToolProgressed(output=output) | ToolFinished(output=output, error=None):
            return output
        case ToolFinished(error=error):
            return error or ""
        case PermissionPiece(request=request):
            return request.action
        case QuestionPiece(request=question):
            return question.questions[0].question
        case FormPiece(request=form):
            return form.title
        case RetryPiece(attempt=attempt):
            return str(attempt)
        case Done(answer=answer):
            return answer.text
        case _:
            assert_never(piece)


def decide(request: PermissionRequest) -> PermissionDecision:
    return "once" if request.action == "read" else PermissionReply("reject", message="Not here.")


async def reply(request: QuestionRequest) -> QuestionDecision:
    return [question.options[0].label for question in request.questions] or DISMISS


def kind(message: SessionMessage) -> str:
    if message.type == "user":
        return f"{message.text} {len(message.files or ())}"  # only a user's message has files
    return message.text


async def converse(hf: Holdfast) -> Answer:
    stop = hf.on_permission(decide)
    hf.on_permission(lambda request: "once")
    hf.on_question(reply)
    answer: Answer = await hf.run(
        "What is ticket 7?",
        model="demo/scripted",
        agent="build",
        system="Be brief.",
        tools=["ticket"],
        files=[HERE / "turns.json"],
        directory=HERE,
        timeout=60,
        interrupt=True,
    )
    cost: float = answer.cost
    output: int = answer.tokens.output
    assert cost == 0.0
    assert output >= 0
    assert kind(answer.messages[0]) == "What is ticket 7? 1"
    shown = ""
    async for piece in hf.stream(answer.session, "And now?", tools={"ticket": False}):
        shown += piece.text
        assert show(piece) is not None
    assert shown == "The script is over."
    stop()
    return answer


async def asked(hf: Holdfast, blocking: HoldfastSync) -> list[object]:
    ticket: Ticket = await hf.ask("Which ticket?", into=Ticket, model="demo/scripted", timeout=5)
    several: list[Change] = blocking.ask("Which changes?", into=list[Change], retry_count=1)
    return [ticket, *several, await hf.ask("Which?", into={"type": "object"})]


def converse_blocking(hf: HoldfastSync) -> list[str]:
    hf.on_permission(decide)
    answer: Answer = hf.run("What is ticket 7?", model=MODEL)
    return [piece.text for piece in hf.stream(answer.session.id, PromptInput(text="And now?"))]


async def scripted(home: Path, settings: HoldfastSettings) -> list[str]:
    def last(request: ModelRequest) -> str:
        return request.prompt

    model = ScriptedModel("hi", ToolCall("ticket", number=7), ["so", ToolCall("ticket", number=8)], last)
    model.reply(Failure(401), Structured({"number": 7}))
    async with model.host(home, **settings) as hf:
        return [(await hf.run("hello")).text, *(request.system for request in model.requests)]


async def main() -> None:
    environment = {**os.environ, "HOLDFAST_SCRIPT": str(HERE / "turns.json")}
    tracker = Tracker([Ticket(7, "The export button is hidden.")])
    async with Holdfast(HERE, environment=environment) as hf:
        add_tools(hf, tracker)
        await converse(hf)
    async with Holdfast(
        HERE, environment=environment, preset="allow", unattended="deny", sandbox="off", config={}
    ) as hf:
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
