"""Questions: asked, answered, dismissed; by whom, and with what."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import SES, Story, opened
from tests.core.permission.desk import Heard, soon
from tests.core.question.desk import ASKED, REJECTED, REPLIED, QuestionDesk, question

from holdfast.core.clock import Ids
from holdfast.core.database.unit import Fence, Statement, Unit
from holdfast.core.permission.permission import Unattended
from holdfast.core.permission.requests import MOST_PENDING
from holdfast.core.question.errors import (
    NOBODY_TO_ASK,
    TOO_MANY_WAIT,
    Dismissed,
    InvalidAnswers,
    QuestionNotFound,
    Unanswerable,
)
from holdfast.core.question.question import ANSWER_CHARACTERS
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.ownership import Lease
from holdfast.core.session.store import SessionStore
from holdfast.schema.codec import decode_any
from holdfast.schema.location import Location
from holdfast.schema.question import Question, QuestionRequest, QuestionTool
from holdfast.schema.session_event import QuestionAsked

pytestmark = pytest.mark.anyio


async def test_a_question_waits_for_its_answers(desk: QuestionDesk) -> None:
    """TOL-105, TOL-106, TOL-107: one list of labels per question, in order; the events carry the whole of it."""
    tool = QuestionTool(message_id="msg_1", call_id="call_1")
    asked = (question("red", "blue", multiple=True), question(), question("a", custom=False))
    task = asyncio.create_task(desk.questions.ask(SES, asked, tool))
    (heard,) = await desk.ear.count(ASKED, 1)
    (request,) = await desk.questions.for_session(SES)
    assert request.id.startswith("que_")
    assert (request.questions, request.tool) == (asked, tool)
    assert heard["id"] == request.id
    assert heard["tool"] == {"messageID": "msg_1", "callID": "call_1"}
    assert heard["questions"][0] == {
        "question": "Shall we?",
        "header": "Go",
        "options": [
            {"label": "red", "description": "means red"},
            {"label": "blue", "description": "means blue"},
        ],
        "multiple": True,
    }
    answers = [["blue", "red"], ["in my own words"], []]
    await desk.questions.reply(SES, request.id, answers)
    assert await soon(task) == (("blue", "red"), ("in my own words",), ())
    assert await desk.questions.list() == ()
    assert desk.ear.heard[1:] == [Heard(REPLIED, {"sessionID": SES, "requestID": request.id, "answers": answers})]


async def test_a_dismissed_question_is_no_answer(desk: QuestionDesk) -> None:
    """TOL-107, TOL-108: observers hear who dismissed what."""
    task, request = await desk.ask()
    await desk.questions.reject(SES, request.id)
    with pytest.raises(Dismissed) as caught:
        await soon(task)
    assert caught.value.request_id == request.id
    assert desk.ear.heard[1:] == [Heard(REJECTED, {"sessionID": SES, "requestID": request.id})]


@pytest.mark.parametrize("answer", [True, False])
async def test_observers_hear_the_end_before_the_call_goes_on(desk: QuestionDesk, answer: bool) -> None:
    """TOL-107: announced first, released then."""
    task, request = await desk.ask()
    released: list[bool] = []
    kinds = (REPLIED, REJECTED)
    stop = desk.log.bus.listen(lambda heard: released.append(task.done()) if heard.type in kinds else None)
    await (desk.questions.reply(SES, request.id, [["yes"]]) if answer else desk.questions.reject(SES, request.id))
    await soon(asyncio.wait({task}))
    stop()
    assert released == [False]


async def test_an_unknown_or_answered_question_is_not_found(desk: QuestionDesk, story: Story) -> None:
    """TOL-108, TOL-110: unknown, another Session's, or answered already; for replies and rejections alike."""
    await Story(story.database, story.log, "ses_two").begin()
    task, request = await desk.ask()

    async def refused(session_id: str, request_id: str) -> None:
        for attempt in (
            desk.questions.reply(session_id, request_id, [["yes"]]),
            desk.questions.reject(session_id, request_id),
        ):
            with pytest.raises(QuestionNotFound) as caught:
                await attempt
            assert caught.value.request_id == request_id

    await refused(SES, "que_unknown")
    await refused("ses_two", request.id)
    assert await desk.questions.for_session("ses_two") == ()
    assert not task.done()
    await desk.questions.reply(SES, request.id, [["yes"]])
    await refused(SES, request.id)
    assert await soon(task) == (("yes",),)


async def test_another_location_cannot_answer_a_question(desk: QuestionDesk, ids: Ids, clock: ManualClock) -> None:
    """TOL-105: it does not even see it."""
    task, request = await desk.ask()
    other = QuestionDesk(desk.log, desk.database, ids, clock, location=Location(directory="/w/there"))
    assert await other.questions.list() == ()
    with pytest.raises(QuestionNotFound):
        await other.questions.reject(SES, request.id)
    await other.close()
    assert not task.done()


@pytest.mark.parametrize(
    ("questions", "answers", "reason"),
    [
        ([question()], [["yes"], ["no"]], "2 answers to 1 questions"),
        ([question()], [["yes", "no"]], "question 1 takes one answer"),
        ([question(), question(multiple=False)], [[], ["a", "b"]], "question 2 takes one answer"),
        ([question(custom=False)], [["maybe"]], "question 1 takes only what it offers"),
        ([question(custom=False, multiple=True)], [["yes", "maybe"]], "question 1 takes only what it offers"),
        ([question()], [["x" * (ANSWER_CHARACTERS + 1)]], "at most 4000 characters"),
    ],
)
async def test_answers_that_do_not_fit_leave_the_question_waiting(
    desk: QuestionDesk, questions: list[Question], answers: list[list[str]], reason: str
) -> None:
    """TOL-109: a typed refusal; afterwards a fitting answer is still welcome."""
    task, request = await desk.ask(*questions)
    with pytest.raises(InvalidAnswers, match=reason):
        await desk.questions.reply(SES, request.id, answers)
    assert await desk.questions.list() == (request,)
    assert len(desk.ear.heard) == 1
    await desk.questions.reply(SES, request.id, [["yes"]])
    assert await soon(task) == (("yes",),)


@pytest.mark.parametrize(
    ("questions", "answers"),
    [
        ([question(), question()], []),
        ([question()], [["x" * ANSWER_CHARACTERS]]),
        ([question(custom=True)], [["something else"]]),
        ([question(multiple=True, custom=False)], [["yes", "no"]]),
    ],
)
async def test_answers_at_the_limits_fit(
    desk: QuestionDesk, questions: list[Question], answers: list[list[str]]
) -> None:
    """TOL-106, TOL-109: fewer answers than questions, the longest text, free text unless excluded, several choices."""
    task, request = await desk.ask(*questions)
    await desk.questions.reply(SES, request.id, answers)
    assert await soon(task) == tuple(tuple(answer) for answer in answers)


async def test_an_interrupted_call_takes_its_question_away(desk: QuestionDesk) -> None:
    """TOL-108, TOL-111: and observers are told."""
    task, request = await desk.ask()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await desk.ear.count(REJECTED, 1) == [{"sessionID": SES, "requestID": request.id}]
    assert await desk.questions.list() == ()
    assert (await _stored(desk))[-1]["cause"] == "interrupted"


async def test_closing_dismisses_every_waiting_question(desk: QuestionDesk) -> None:
    """TOL-108: waiting calls end, and later ones find nobody."""
    waiting = [await desk.ask() for _ in range(3)]
    await soon(desk.questions.close())
    for task, _ in waiting:
        with pytest.raises(Dismissed):
            await soon(task)
    with pytest.raises(Dismissed):
        await soon(desk.questions.ask(SES, (question(),)))


async def test_another_process_can_answer(desk: QuestionDesk, story: Story, clock: ManualClock) -> None:
    """TOL-105, TOL-107: one database, whoever is connected; observers of both hear of it."""
    async with opened(story.database.path) as there:
        other = QuestionDesk(there.log, there.database, Ids(clock, random.Random(3)), clock)
        task, request = await desk.ask()
        await other.questions.reply(SES, request.id, [["no"]])
        assert await soon(task) == (("no",),)
        assert len(await desk.ear.count(REPLIED, 1)) == len(await other.ear.count(REPLIED, 1)) == 1
        await other.close()


async def test_a_question_of_a_dead_process_is_closed_by_the_next_drain(desk: QuestionDesk, story: Story) -> None:
    """TOL-101, TOL-111: it is history; what this process waits for goes on."""
    left = QuestionRequest(id="que_left", session_id=SES, questions=(question(),))
    await story.tell(QuestionAsked, request=left)
    task, mine = await desk.ask()
    take = Statement("lease.take", {"session_id": SES, "owner_id": "own_new", "token": 1, "seen_token": 0})
    await story.database.submit(Unit(SES, local=(take,)))
    lease = Lease(story.log, Location(directory="/w/here"), Fence(SES, "own_new", 1), ())
    opened = (await SessionStore(story.database).left_open(SES)).requests
    await desk.questions.abandon(opened, lease)
    assert await desk.questions.list() == (mine,)
    assert await desk.ear.count(REJECTED, 1) == [{"sessionID": SES, "requestID": left.id}]
    assert not task.done()


async def test_a_session_has_a_bounded_number_of_questions(desk: QuestionDesk) -> None:
    """TOL-101: one more is not asked, and the model may read why."""
    waiting = [asyncio.create_task(desk.questions.ask(SES, (question(),))) for _ in range(MOST_PENDING)]
    await desk.ear.count(ASKED, MOST_PENDING)
    with pytest.raises(Unanswerable) as caught:
        await desk.questions.ask(SES, (question(),))
    assert str(caught.value) == TOO_MANY_WAIT
    await soon(desk.questions.close())
    assert {type(outcome) for outcome in await asyncio.gather(*waiting, return_exceptions=True)} == {Dismissed}


@pytest.mark.parametrize("policy", ["deny", "allow"])
async def test_an_unattended_question_fails_at_once(
    story: Story, ids: Ids, clock: ManualClock, policy: Unattended
) -> None:
    """TOL-354: at once, with a reason; approving everything answers no question either."""
    desk = QuestionDesk(story.log, story.database, ids, clock, unattended=policy)
    with pytest.raises(Unanswerable) as caught:
        await soon(desk.questions.ask(SES, (question(),)))
    assert str(caught.value) == NOBODY_TO_ASK
    assert await _stored(desk) == []
    await desk.close()


async def test_only_something_can_be_asked_and_only_in_a_session(desk: QuestionDesk) -> None:
    """TOL-105: no questions are a defect, an unknown Session is not found."""
    with pytest.raises(ValueError, match="at least one question"):
        await desk.questions.ask(SES, ())
    with pytest.raises(SessionNotFound):
        await desk.questions.ask("ses_other", (question(),))


async def _stored(desk: QuestionDesk) -> list[dict[str, Any]]:
    stored = await desk.log.serialized(SES, limit=1_000)
    return [decode_any(event.data) for event in stored if event.type.startswith("session.next.question.")]
