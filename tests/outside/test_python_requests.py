"""Functions that answer permission requests and questions: `hf.on_permission` and `hf.on_question`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World, until

from holdfast import (
    DISMISS,
    ActivityFailed,
    Answer,
    Holdfast,
    PermissionReply,
    PermissionRequest,
    QuestionRequest,
    Session,
    ToolPart,
)
from holdfast.schema.session_event import StepEnded

pytestmark = pytest.mark.anyio

TOUCH = calling("bash", command="touch made.txt")
QUESTION = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red", "description": "Red"}]}
ASK = calling("question", questions=[QUESTION])


@pytest.fixture
async def hf(world: World) -> AsyncIterator[Holdfast]:
    world.configure(permission={"bash": "ask", "question": "allow"})
    async with world.host() as hf:
        yield hf


async def answered(hf: Holdfast, **options: Any) -> Answer:
    async with asyncio.timeout(PATIENCE):
        return await hf.run("go", **options)


def results(answer: Answer) -> str:
    parts = [part for message in answer.messages for part in getattr(message, "content", ())]
    return " ".join(str(part.state) for part in parts if isinstance(part, ToolPart))


async def pending(hf: Holdfast, session: Session) -> PermissionRequest:
    """The request of a Session, once it is asked."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await hf.permissions.list(session.id):
                return found[0]
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["function", "coroutine", "object"])
async def test_a_function_allows_a_call(hf: Holdfast, world: World, kind: str) -> None:
    """API-504: ordinary, asynchronous, or an object that can be called; an ordinary one has a thread."""
    world.model.plays(TOUCH, Turn(text="Made."))
    seen: list[PermissionRequest] = []

    def ordinary(request: PermissionRequest) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        seen.append(request)
        return "once"

    async def asynchronous(request: PermissionRequest) -> Any:
        seen.append(request)
        return PermissionReply("once")

    class Policy:
        async def __call__(self, request: PermissionRequest) -> Any:
            seen.append(request)
            return "once"

    callbacks: dict[str, Any] = {"function": ordinary, "coroutine": asynchronous, "object": Policy()}
    hf.on_permission(callbacks[kind])
    assert (await answered(hf)).text == "Made."
    assert (world.project / "made.txt").exists()
    assert [(type(request), request.action, request.resources) for request in seen] == [
        (PermissionRequest, "bash", ("touch made.txt",))
    ]


async def test_a_rejection_with_a_message_is_read_by_the_model(hf: Holdfast, world: World) -> None:
    """API-504: without a message it ends the turn."""
    world.model.plays(TOUCH, Turn(text="As you wish."), TOUCH)
    remove = hf.on_permission(lambda request: PermissionReply("reject", "Not in this folder."))
    answer = await answered(hf)
    assert answer.text == "As you wish."
    assert "Not in this folder." in results(answer)
    remove()
    hf.on_permission(lambda request: "reject")
    with pytest.raises(ActivityFailed):
        await answered(hf)
    assert not (world.project / "made.txt").exists()


async def test_always_is_remembered(hf: Holdfast, world: World) -> None:
    """API-504: the second call is not asked about."""
    world.model.plays(TOUCH, TOUCH, Turn(text="Made."))
    seen: list[str] = []

    def allow(request: PermissionRequest) -> PermissionReply:
        seen.append(request.id)
        return PermissionReply("always", save=request.save)

    hf.on_permission(allow)
    await answered(hf)
    assert len(seen) == 1


async def test_a_session_has_its_own_function(hf: Holdfast, world: World) -> None:
    """API-504: it is asked first, newer before older; None leaves the request to the next."""
    world.model.plays(TOUCH, Turn(text="one"), TOUCH, Turn(text="two"))
    mine, other = await hf.sessions.create(), await hf.sessions.create()
    asked: list[str] = []

    def named(name: str, reply: Any) -> Any:
        def function(request: PermissionRequest) -> Any:
            asked.append(name)
            return reply

        return function

    hf.on_permission(named("older", "once"))
    hf.on_permission(named("newer", None))
    hf.on_permission(named("session", None), session=mine)
    await answered(hf, session=mine)
    await answered(hf, session=other.id)
    assert asked == ["session", "newer", "older", "newer", "older"]


async def test_what_was_asked_before_is_answered(hf: Holdfast, world: World) -> None:
    """API-504: for the host and for one Session."""
    world.model.plays(TOUCH, TOUCH, Turn(text="done"), Turn(text="done"))
    first, second = await hf.sessions.create(), await hf.sessions.create()
    running = [asyncio.create_task(answered(hf, session=session)) for session in (first, second)]
    for session in (first, second):
        await pending(hf, session)
    hf.on_permission(lambda request: "once", session=first)
    assert (await running[0]).text == "done"
    assert not running[1].done()
    hf.on_permission(lambda request: "once")
    assert (await running[1]).text == "done"


async def test_a_function_that_is_registered_while_another_decides_is_asked_too(hf: Holdfast, world: World) -> None:
    """API-504: if the other one leaves the request to others; each is asked once."""
    world.model.plays(TOUCH, Turn(text="Made."))
    asked: list[str] = []
    called, decided = asyncio.Event(), asyncio.Event()

    async def undecided(request: PermissionRequest) -> None:
        asked.append("undecided")
        called.set()
        await decided.wait()

    async def willing(request: PermissionRequest) -> Any:
        asked.append("willing")
        return "once"

    hf.on_permission(undecided)
    answering = asyncio.create_task(answered(hf))
    async with asyncio.timeout(PATIENCE):
        await called.wait()
        hf.on_permission(willing)
        (active,) = await hf.sessions.active()
        await hf.permissions.list(active)  # the new function has looked for requests by now
        decided.set()
        assert (await answering).text == "Made."
    assert asked == ["undecided", "willing"]


@pytest.mark.parametrize("wrong", ["raises", "returns"])
async def test_a_function_that_fails_leaves_the_request_open(
    hf: Holdfast, world: World, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    """API-505: it is told, and somebody else can answer."""
    world.model.plays(TOUCH, Turn(text="Made."))
    told = asyncio.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    def failing(request: PermissionRequest) -> Any:
        if wrong == "raises":
            raise KeyError("mine")
        return "yes"

    logging.getLogger("holdfast.embedded.attendant").addHandler(handler := Told())
    hf.on_permission(failing)
    session = await hf.sessions.create()
    running = asyncio.create_task(answered(hf, session=session))
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    logging.getLogger("holdfast.embedded.attendant").removeHandler(handler)
    request = await pending(hf, session)
    assert request.id in caplog.text
    assert ("KeyError" if wrong == "raises" else "'yes'") in caplog.text
    await hf.permissions.reply(session.id, request_id=request.id, reply="once")
    assert (await running).text == "Made."


async def test_questions_are_answered(hf: Holdfast, world: World) -> None:
    """API-504: a text, a list, none, and a dismissal."""
    for reply in ("red", ["green"], [["blue"]]):
        world.model.plays(ASK, Turn(text="Thanks."))
        remove = hf.on_question(lambda request, reply=reply: reply)  # type: ignore[misc]
        answer = await answered(hf)
        assert str(reply).strip("[]'") in results(answer)
        remove()
    seen: list[QuestionRequest] = []

    async def dismiss(request: QuestionRequest) -> Any:
        seen.append(request)
        return DISMISS

    hf.on_question(dismiss)
    world.model.plays(ASK)
    with pytest.raises(ActivityFailed):
        await answered(hf)
    assert [question.header for request in seen for question in request.questions] == ["Colour"]


async def test_another_host_on_the_same_data_answers_its_own_requests_only(hf: Holdfast, world: World) -> None:
    """API-504: a program does not decide for another one."""
    world.model.plays(TOUCH, Turn(text="Made."))
    async with world.host() as other:
        other.on_permission(lambda request: "reject")
        session = await hf.sessions.create()
        running = asyncio.create_task(answered(hf, session=session))
        request = await pending(hf, session)
        for _ in range(50):
            await asyncio.sleep(0)
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        assert (await running).text == "Made."


async def test_a_function_that_waits_holds_up_nothing(world: World) -> None:
    """API-504: neither the closing of the host nor the end of the process; the next host answers what still waits."""
    world.configure(permission={"bash": "ask"})
    world.model.plays(TOUCH, Turn(text="Made."))
    forever, asked = threading.Event(), threading.Event()

    def wait(request: PermissionRequest) -> Any:
        asked.set()
        forever.wait(PATIENCE)

    async with asyncio.timeout(PATIENCE), world.host() as hf:
        hf.on_permission(wait)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt="go")
        await asyncio.to_thread(asked.wait)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "holdfast-callback")
    async with asyncio.timeout(PATIENCE), world.host() as hf:
        hf.on_permission(lambda request: "once", session=session)
        await until(hf, session, lambda event: isinstance(event.data, StepEnded) and event.data.finish == "stop")
    forever.set()
    assert (world.project / "made.txt").exists()


async def test_a_host_that_answers_by_itself_refuses_functions(world: World) -> None:
    """API-504: the function would never be asked."""
    async with world.host(unattended="deny") as hf:
        with pytest.raises(ValueError, match="unattended='deny'"):
            hf.on_permission(lambda request: "once")


async def test_a_function_can_be_registered_before_the_host_is_open(world: World) -> None:
    """API-504."""
    world.configure(permission={"bash": "ask"})
    world.model.plays(TOUCH, Turn(text="Made."))
    hf = world.host()
    hf.on_permission(lambda request: "once")
    async with hf:
        assert (await answered(hf)).text == "Made."
