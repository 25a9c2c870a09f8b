"""What MCP servers ask, put to people as forms of a call, over several processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import SES, Story
from tests.core.permission.desk import HERE, soon

from holdfast.core.clock import Ids
from holdfast.core.event.log import EventLog
from holdfast.core.form.forms import Forms
from holdfast.core.mcp.people import FormPeople
from holdfast.core.mcp.seam import CallFor
from holdfast.core.permission.permission import Unattended
from holdfast.core.permission.requests import RequestServices
from holdfast.core.session.ancestors import Ancestors
from holdfast.core.work_time import measuring
from holdfast.mcp.errors import Challenge, NeedsAuthorization, ProtocolError, RpcError
from holdfast.mcp.input import Elicitation, ElicitationAnswer, InputRequired, RootsRequest
from holdfast.schema.form import Form
from holdfast.schema.question import QuestionTool

pytestmark = pytest.mark.anyio

WHOM = CallFor(SES, "msg_1", "call_1", "build")
NAME = Elicitation(message="Who?", requested_schema={"properties": {"name": {"type": "string"}}})
AGE = Elicitation(message="How old?", requested_schema={"properties": {"age": {"type": "integer"}}})
VISIT = Elicitation(message="Pay", mode="url", url="https://pay.example/1", elicitation_id="e1")


class Desk:
    """The people of one process."""

    def __init__(self, story: Story, ids: Ids, clock: ManualClock, unattended: Unattended = "wait") -> None:
        self.ending = False
        self.signals = story.log.signals
        services = RequestServices(story.log, story.database, ids, clock, HERE, unattended, ending=lambda: self.ending)
        self.forms = Forms(services, Ancestors(story.database, story.log.signals))
        self.people = FormPeople(self.forms, lambda server: None)
        self.tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.tasks.append(task)
        return task

    async def open(self, count: int = 1) -> list[Form]:
        """The open forms, once there are as many."""
        async with asyncio.timeout(5):
            with self.signals.follow(SES) as dirty:
                while True:
                    dirty.clear()
                    if len(found := await self.forms.list()) == count:
                        return list(found)
                    await dirty.wait()

    async def die(self) -> None:
        """As a process ends that is shut down: what waits for a person stays."""
        self.ending = True
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        await soon(self.people.close())
        await soon(self.forms.close())


@pytest.fixture
async def story(database: Any, log: EventLog) -> Story:
    story = Story(database, log)
    await story.begin()
    return story


@pytest.fixture
async def desks(story: Story, ids: Ids, clock: ManualClock) -> AsyncIterator[Any]:
    made: list[Desk] = []

    def new(unattended: Unattended = "wait") -> Desk:
        made.append(Desk(story, ids, clock, unattended))
        return made[-1]

    yield new
    for desk in made:
        await desk.die()


async def test_a_question_waits_over_processes_and_its_answer_is_given_once(desks: Any) -> None:
    """MCP-255, MCP-261: the same question in a later process gets the stored answer; a second time in one execution it
    is another form."""
    first = desks()
    first.start(first.people.elicit("shop", NAME, WHOM))
    (form,) = await first.open()
    await first.die()
    second = desks()
    assert await second.forms.list() == (form,)
    await second.forms.reply(SES, form.id, {"name": "Ada"})
    accepted = ElicitationAnswer(action="accept", content={"name": "Ada"})
    assert await soon(second.people.elicit("shop", NAME, WHOM)) == accepted
    again = second.start(second.people.elicit("shop", NAME, WHOM))
    (other,) = await second.open()
    assert other.id != form.id
    await second.die()
    third = desks()
    assert await soon(third.people.elicit("shop", NAME, WHOM)) == accepted
    again = third.start(third.people.elicit("shop", NAME, WHOM))
    await asyncio.sleep(0)
    await third.forms.reply(SES, other.id, {"name": "Bob"})
    assert await soon(again) == ElicitationAnswer(action="accept", content={"name": "Bob"})


async def test_required_input_is_restored_with_its_state_and_taken_together(desks: Any) -> None:
    """MCP-256, MCP-262: of several rounds the newest counts, even if its questions are the same; the state is not in
    the form."""
    required = InputRequired({"a": NAME, "b": AGE, "r": RootsRequest()}, "state-1")
    first = desks()
    assert await first.people.pending("shop", WHOM) is None
    work = first.start(first.people.input("shop", required, WHOM))
    name, age = await first.open(2)
    assert "state-1" not in repr((name, age))
    await first.forms.reply(SES, name.id, {"name": "Ada"})
    await first.die()
    second = desks()
    assert await second.people.pending("shop", WHOM) == required
    assert await second.people.pending("other", WHOM) is None
    (left,) = await second.open()
    assert left.id == age.id
    work = second.start(second.people.input("shop", required, WHOM))
    await second.forms.reply(SES, age.id, {"age": 3})
    given = await soon(work)
    assert given == {
        "a": ElicitationAnswer(action="accept", content={"name": "Ada"}),
        "b": ElicitationAnswer(action="accept", content={"age": 3}),
    }
    assert await soon(second.people.input("shop", required, WHOM)) == given  # the server refused the token, say
    once_more = InputRequired({"a": NAME, "b": AGE, "r": RootsRequest()}, "state-2")
    second.start(second.people.input("shop", once_more, WHOM))
    forms = await second.open(2)
    assert not {name.id, age.id} & {form.id for form in forms}
    await second.die()
    third = desks()
    restored = await third.people.pending("shop", WHOM)
    assert restored == once_more
    work = third.start(third.people.input("shop", restored, WHOM))
    await asyncio.sleep(0)
    for form in forms:
        await third.forms.cancel(SES, form.id, declined=form.fields[0].key == "age")
    assert await soon(work) == {"a": ElicitationAnswer(action="cancel"), "b": ElicitationAnswer(action="decline")}


async def test_a_call_is_kept_while_any_of_its_forms_is_open(desks: Any, story: Story) -> None:
    """MCP-255, MCP-257: and is answered when all are; after they were taken it is not."""
    desk = desks()

    async def rows() -> list[tuple[bool, bool]]:
        key = {"session_id": SES, "message_id": "msg_1", "call_id": "call_1"}
        found = await story.database.fetch("request.of_call", key)
        return [(row[3] is not None, bool(row[5])) for row in found]

    work = desk.start(desk.people.input("shop", InputRequired({"a": NAME, "b": AGE}, "s"), WHOM))
    name, age = await desk.open(2)
    await desk.forms.reply(SES, age.id, {"age": 3})
    assert await rows() == [(False, False), (True, False)]
    await desk.forms.reply(SES, name.id, {"name": "Ada"})
    await soon(work)
    assert await rows() == [(True, True), (True, True)]


async def test_the_end_of_a_call_cancels_its_forms(desks: Any, story: Story) -> None:
    """MCP-258: the server reads a cancel, and nothing is left that a later process would go on with."""
    desk = desks()
    work = desk.start(desk.people.elicit("shop", NAME, WHOM))
    await desk.open()
    await soon(desk.people.ended(WHOM))
    assert await soon(work) == ElicitationAnswer(action="cancel")
    await desk.open(0)
    key = {"session_id": SES, "message_id": "msg_1", "call_id": "call_1"}
    ((*_, resumable, taken),) = await story.database.fetch("request.of_call", key)
    assert (resumable, taken) == (1, 1)


async def test_a_form_that_no_later_execution_asks_for_ends_with_the_call(desks: Any) -> None:
    """MCP-258: of a server that asks something else each time."""
    first = desks()
    first.start(first.people.elicit("shop", NAME, WHOM))
    (form,) = await first.open()
    await first.die()
    second = desks()
    work = second.start(second.people.elicit("shop", AGE, WHOM))
    stale, fresh = await second.open(2)
    assert stale == form
    await second.forms.reply(SES, fresh.id, {"age": 3})
    assert (await soon(work)).action == "accept"
    await soon(second.people.ended(WHOM))
    assert await second.forms.list() == ()


async def test_a_question_that_the_server_takes_back_is_cancelled(desks: Any) -> None:
    """MCP-258"""
    desk = desks()
    work = desk.start(desk.people.elicit("shop", NAME, WHOM))
    await desk.open()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await desk.open(0)


async def test_the_wait_for_a_person_is_no_work_of_the_call(desks: Any, clock: ManualClock) -> None:
    """SES-372: wherever the question of the server comes in."""
    desk = desks()
    with measuring(clock) as measured:
        await desk.people.pending("shop", WHOM)
    work = desk.start(desk.people.elicit("shop", NAME, WHOM))
    (form,) = await desk.open()
    while not measured._waits:  # noqa: ASYNC110 - the form is recorded before anybody waits for it
        await asyncio.sleep(0)
    clock.advance(5_000)
    await desk.forms.reply(SES, form.id, {"name": "Ada"})
    await soon(work)
    clock.advance(7)
    assert measured.worked == 7


async def test_a_completed_visit_answers_its_form(desks: Any) -> None:
    """MCP-253: of that server and that visit only."""
    desk = desks()
    work = desk.start(desk.people.elicit("shop", VISIT, WHOM))
    await desk.open()
    desk.people.completed("other", "e1")
    desk.people.completed("shop", "e2")
    assert not desk.people._tasks
    desk.people.completed("shop", "e1")
    assert await soon(work) == ElicitationAnswer(action="accept")
    desk.people.completed("shop", "e1")
    assert not desk.people._visits


async def test_a_notice_of_a_visit_answers_no_other_question(desks: Any) -> None:
    """MCP-253: a form is answered by a person, whatever its server announces."""
    desk = desks()
    desk.people.completed("shop", "")
    desk.people.completed("shop", "e1")
    named = Elicitation(message="Who?", requested_schema=NAME.requested_schema, elicitation_id="e1")
    for request in (NAME, named):
        work = desk.start(desk.people.elicit("shop", request, WHOM))
        (form,) = await desk.open()
        await desk.forms.reply(SES, form.id, {"name": "Ada"})
        assert await soon(work) == ElicitationAnswer(action="accept", content={"name": "Ada"})


async def test_what_a_result_asks_for_has_a_bounded_size(desks: Any) -> None:
    """MCP-341"""
    desk = desks()
    with pytest.raises(ProtocolError, match="1048576 bytes"):
        await desk.people.input("shop", InputRequired({"a": NAME}, "x" * 1024 * 1024), WHOM)
    assert await desk.forms.list() == ()


async def test_where_nobody_is_there_nobody_is_asked(desks: Any) -> None:
    """MCP-254"""
    desk = desks(unattended="deny")
    assert await desk.people.elicit("shop", NAME, WHOM) == ElicitationAnswer(action="cancel")
    given = await desk.people.input("shop", InputRequired({"a": NAME}), WHOM)
    assert given == {"a": ElicitationAnswer(action="cancel")}
    assert await desk.forms.list() == ()


async def test_what_cannot_be_shown_is_told_to_the_server(desks: Any) -> None:
    """MCP-252, MCP-254"""
    desk = desks()
    bad = Elicitation(message="x", requested_schema={"properties": {"deep": {"type": "object"}}})
    with pytest.raises(RpcError, match="deep") as refused:
        await desk.people.elicit("shop", bad, WHOM)
    assert refused.value.code == -32602
    with pytest.raises(ProtocolError, match="deep"):
        await desk.people.input("shop", InputRequired({"a": NAME, "b": bad}), WHOM)
    assert await desk.forms.list() == ()


class Arrived:
    """An authorization whose credential is stored when the wait begins."""

    integration_id = "mcp_1"

    def __init__(self, seen: str | None) -> None:
        self.authorizer = self
        self._seen = seen

    def credential(self) -> Any:
        return SimpleNamespace(access=self._seen) if self._seen is not None else None

    async def arrival(self, refused: str | None) -> Any:
        return SimpleNamespace(access="new")


def with_credential(desk: Desk, seen: str | None) -> FormPeople:
    return FormPeople(desk.forms, lambda server: cast("Any", Arrived(seen)))


async def test_a_credential_that_arrives_before_the_form_is_not_missed(desks: Any) -> None:
    """MCP-344: since the refusal, or while the form is recorded."""
    desk = desks()
    needs = NeedsAuthorization(Challenge("https://a.example", 401, {}), "", "old")
    assert await soon(with_credential(desk, "new").authorize("shop", needs, WHOM))
    assert await desk.forms.held(SES, QuestionTool(message_id="msg_1", call_id="call_1")) == []
    for seen in (None, "old"):
        assert await soon(with_credential(desk, seen).authorize("shop", needs, WHOM))
        assert await desk.forms.list() == ()
