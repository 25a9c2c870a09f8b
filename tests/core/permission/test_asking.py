"""Judging a wish, asking a person, and what comes of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import SES, Story, raw, record
from tests.core.permission.desk import ASK, HERE, REPLIED, Desk, Heard, rule, soon, want
from tests.stores.stores import OpenedDatabase, on_postgres

from holdfast.core.clock import Ids
from holdfast.core.database.errors import StorageFull
from holdfast.core.permission.errors import (
    FEEDBACK_CHARACTERS,
    NOBODY_TO_ASK,
    TOO_MANY_WAIT,
    DeniedByPerson,
    DeniedByRule,
    DeniedWithFeedback,
    PermissionDenied,
    PermissionNotFound,
)
from holdfast.core.permission.permission import Asked, Unattended
from holdfast.core.permission.requests import MOST_PENDING, DuplicateRequest
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import decode_any
from holdfast.schema.location import Location
from holdfast.schema.permission import PermissionRequest, PermissionSource
from holdfast.schema.session_event import AgentSwitched, Moved, SessionDeleted

pytestmark = pytest.mark.anyio


async def test_an_allowed_action_makes_no_request(desk: Desk) -> None:
    """TOL-086: returned at once, and no request is made."""
    desk.rules["build"] = [rule("allow")]
    await soon(desk.permissions.assert_allowed(want()))
    assert await _events(desk) == []


async def test_a_denied_action_is_blocked_with_its_rules(desk: Desk) -> None:
    """TOL-086, TOL-095: the rules with a say come along; the model reads what was denied and nothing else."""
    rules = [rule("allow"), rule("deny", "edit", "secret/*"), rule("ask", "read")]
    desk.rules["build"] = rules
    with pytest.raises(DeniedByRule) as caught:
        await desk.permissions.assert_allowed(want("edit", "public/a", "secret/b"))
    assert caught.value.rules == tuple(rules[:2])
    assert str(caught.value) == "Permission denied: edit secret/b"
    assert await _events(desk) == []


async def test_saved_approvals_are_among_the_rules_of_a_block(desk: Desk) -> None:
    """TOL-086: all effective rules, approvals last."""
    await _save(desk, "edit", "b")
    desk.rules["build"] = [rule("deny", "edit", "a")]
    with pytest.raises(DeniedByRule) as caught:
        await desk.permissions.assert_allowed(want("edit", "a"))
    assert caught.value.rules == (rule("deny", "edit", "a"), rule("allow", "edit", "b"))


async def test_ask_evaluates_without_waiting(desk: Desk) -> None:
    """TOL-086, TOL-087: each answer has an id; only `ask` leaves a request, which never shows the agent."""
    desk.rules["build"] = [rule("allow", "read"), rule("deny", "bash")]
    source = PermissionSource(message_id="msg_1", call_id="call_1")
    wish = want("edit", "a", "b", save=("*",), metadata={"diff": "+x"}, source=source, id="per_mine")
    allowed, denied = await desk.permissions.ask(want("read")), await desk.permissions.ask(want("bash"))
    asked = await desk.permissions.ask(wish)
    assert (allowed.effect, denied.effect) == ("allow", "deny")
    assert allowed.id.startswith("per_")
    assert allowed.id < denied.id
    assert asked == Asked("per_mine", "ask")
    request = PermissionRequest(
        id="per_mine",
        session_id=SES,
        action="edit",
        resources=("a", "b"),
        save=("*",),
        metadata={"diff": "+x"},
        source=source,
    )
    assert await desk.permissions.list() == (request,)
    assert await desk.permissions.get(SES, "per_mine") == request
    (heard,) = desk.ear.heard
    assert heard == Heard(
        ASK,
        {
            "id": "per_mine",
            "sessionID": SES,
            "action": "edit",
            "resources": ["a", "b"],
            "save": ["*"],
            "metadata": {"diff": "+x"},
            "source": {"type": "tool", "messageID": "msg_1", "callID": "call_1"},
        },
    )


async def test_an_unknown_session_is_not_found_before_any_rule(desk: Desk) -> None:
    """TOL-082: even where everything is denied."""
    desk.rules.clear()
    for attempt in (desk.permissions.ask, desk.permissions.assert_allowed):
        with pytest.raises(SessionNotFound):
            await attempt(want(session="ses_other"))


async def test_an_unknown_agent_is_denied_everything(desk: Desk) -> None:
    """TOL-081: never an empty list, which would ask."""
    with pytest.raises(DeniedByRule) as caught:
        await desk.permissions.assert_allowed(want(agent="nobody"))
    assert caught.value.rules == (rule("deny"),)


async def test_no_resource_is_a_defect(desk: Desk) -> None:
    """TOL-079: a tool that names nothing does not slip through."""
    desk.rules["build"] = [rule("allow")]
    with pytest.raises(ValueError, match="at least one resource"):
        await desk.permissions.assert_allowed(want().replace(resources=()))


@pytest.mark.parametrize("reply", ["once", "always"])
async def test_an_approved_call_goes_on(desk: Desk, reply: Any) -> None:
    """TOL-086, TOL-091: asked, approved, released; nothing waits afterwards."""
    task, request = await desk.wait(want())
    assert await desk.permissions.for_session(SES) == (request,)
    await desk.permissions.reply(SES, request.id, reply)
    await soon(task)
    assert await desk.permissions.list() == ()
    assert desk.ear.heard[1:] == [Heard(REPLIED, {"sessionID": SES, "requestID": request.id, "reply": reply})]


async def test_observers_hear_a_reply_before_the_call_goes_on(desk: Desk) -> None:
    """TOL-091: announced first, released then."""
    task, request = await desk.wait(want())
    released: list[bool] = []
    stop = desk.log.bus.listen(lambda heard: released.append(task.done()) if heard.type == REPLIED else None)
    await desk.permissions.reply(SES, request.id, "once")
    await soon(task)
    stop()
    assert released == [False]


async def test_a_reject_without_a_message_declines_the_call(desk: Desk) -> None:
    """TOL-092, TOL-334: it is no refusal that a tool could turn into a result."""
    task, request = await desk.wait(want())
    await desk.permissions.reply(SES, request.id, "reject", message="  ")
    with pytest.raises(DeniedByPerson) as caught:
        await soon(task)
    assert not isinstance(caught.value, PermissionDenied)
    assert caught.value.request_id == request.id


async def test_a_reject_with_words_corrects(desk: Desk) -> None:
    """TOL-092, TOL-094, TOL-334: the model reads what the user said, up to a bound."""
    task, request = await desk.wait(want())
    words = "use the other file " + "x" * FEEDBACK_CHARACTERS
    await desk.permissions.reply(SES, request.id, "reject", message=words)
    with pytest.raises(DeniedWithFeedback) as caught:
        await soon(task)
    assert caught.value.feedback == words
    assert str(caught.value).startswith("The user rejected this action and said: use the other file xx")
    assert len(str(caught.value)) < FEEDBACK_CHARACTERS + 100


@pytest.mark.parametrize("message", [None, " \n", "no"])
async def test_a_reject_declines_whatever_else_the_session_waits_for(
    desk: Desk, story: Story, message: str | None
) -> None:
    """TOL-093: each with its own reply, and with the words that were said; other Sessions go on waiting."""
    await Story(story.database, story.log, "ses_two").begin()
    first, request = await desk.wait(want())
    second, sibling = await desk.wait(want("bash", "ls"))
    other, stranger = await desk.wait(want(session="ses_two"))
    await desk.permissions.reply(SES, request.id, "reject", message=message)
    for waiting in (first, second):
        with pytest.raises(DeniedWithFeedback if message == "no" else DeniedByPerson):
            await soon(waiting)
    replies = [(item["requestID"], item["reply"]) for item in await desk.ear.count(REPLIED, 2)]
    assert replies == [(request.id, "reject"), (sibling.id, "reject")]
    assert await desk.permissions.list() == (stranger,)
    assert not other.done()


async def test_answering_twice_is_not_found(desk: Desk) -> None:
    """TOL-091: also when both answers come at once."""
    task, request = await desk.wait(want())
    answers = [desk.permissions.reply(SES, request.id, "once") for _ in range(3)]
    outcomes = await soon(asyncio.gather(*answers, return_exceptions=True))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "NoneType",
        "PermissionNotFound",
        "PermissionNotFound",
    ]
    await soon(task)
    assert len(await desk.ear.count(REPLIED, 1)) == 1


@pytest.mark.parametrize(("session_id", "known"), [(SES, False), ("ses_two", True), ("ses_nowhere", True)])
async def test_an_unknown_request_and_another_sessions_look_alike(
    desk: Desk, story: Story, session_id: str, known: bool
) -> None:
    """TOL-091, TOL-102, TOL-103: an unknown id, and an id that belongs to another Session."""
    await Story(story.database, story.log, "ses_two").begin()
    request_id = (await desk.permissions.ask(want())).id if known else "per_unknown"
    for attempt in (
        desk.permissions.get(session_id, request_id),
        desk.permissions.reply(session_id, request_id, "once"),
    ):
        with pytest.raises(PermissionNotFound) as caught:
            await attempt
        assert caught.value.request_id == request_id
    assert await desk.permissions.for_session("ses_two") == ()
    assert len(await desk.permissions.for_session(SES)) == known


async def test_another_location_neither_sees_nor_answers(desk: Desk, ids: Ids, clock: ManualClock) -> None:
    """TOL-103: a request belongs to the Location where it was made."""
    task, request = await desk.wait(want())
    for location in (Location(directory="/w/there"), Location(directory=HERE.directory, workspace_id="wrk_1")):
        other = Desk(desk.log, desk.database, ids, clock, location=location)
        assert await other.permissions.list() == ()
        assert await other.permissions.for_session(SES) == ()
        with pytest.raises(PermissionNotFound):
            await other.permissions.reply(SES, request.id, "once")
        await other.close()
    assert not task.done()


async def test_a_second_request_with_the_same_id_is_a_defect(desk: Desk) -> None:
    """TOL-088: and the first one does not notice."""
    task, request = await desk.wait(want(id="per_same"))
    with pytest.raises(DuplicateRequest):
        await desk.permissions.assert_allowed(want("bash", "ls", id="per_same"))
    assert await desk.permissions.list() == (request,)
    assert len(desk.ear.heard) == 1
    await desk.permissions.reply(SES, request.id, "once")
    await soon(task)


async def test_a_request_that_cannot_be_recorded_was_never_made(
    desk: Desk, database: OpenedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-088: publishing failed, so nothing waits and nobody was told; the same id can be used again."""

    def full(*_: object) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(StorageFull("/disk"))
        return future

    with monkeypatch.context() as patch:
        patch.setattr(database, "submit", full)
        with pytest.raises(StorageFull):
            await desk.permissions.assert_allowed(want(id="per_again"))
    assert await desk.permissions.list() == ()
    assert desk.ear.heard == []
    _, request = await desk.wait(want(id="per_again"))
    assert request.id == "per_again"


async def test_an_interrupted_call_takes_its_request_away(desk: Desk) -> None:
    """TOL-089, TOL-090: observers are told, the log says why, and nobody can approve it any more."""
    task, request = await desk.wait(want())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    replied = await desk.ear.count(REPLIED, 1)
    assert replied == [{"sessionID": SES, "requestID": request.id, "reply": "reject"}]
    assert await desk.permissions.list() == ()
    with pytest.raises(PermissionNotFound):
        await desk.permissions.reply(SES, request.id, "once")
    assert (await _events(desk))[-1]["cause"] == "interrupted"


async def test_wherever_a_call_is_cut_its_request_is_closed(desk: Desk) -> None:
    """TOL-088, TOL-089, TOL-090: a cancellation at any moment leaves nothing that waits, and nothing asked without
    an end."""
    for turns in range(25):
        task = asyncio.create_task(desk.permissions.assert_allowed(want()))
        for _ in range(turns):
            await asyncio.sleep(0.0005 if on_postgres() else 0)  # a round trip has no fixed number of turns
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await soon(desk.permissions.close())
    assert await desk.permissions.list() == ()
    stored = await _events(desk)
    asked = [event["request"]["id"] for event in stored if "request" in event]
    closed = {event["requestID"]: event["cause"] for event in stored if "request" not in event}
    assert asked
    assert closed == dict.fromkeys(asked, "interrupted")
    assert {item.data["requestID"] for item in desk.ear.heard if item.type == REPLIED} == set(asked)


async def test_a_replier_that_goes_away_does_not_stop_its_reply(desk: Desk) -> None:
    """TOL-091: the answer and all that follows from it happen."""
    first, request = await desk.wait(want())
    second, _ = await desk.wait(want("bash", "ls"))
    reply = asyncio.create_task(desk.permissions.reply(SES, request.id, "reject"))
    await asyncio.sleep(0)
    reply.cancel()
    for task in (first, second):
        with pytest.raises(DeniedByPerson):
            await soon(task)


async def test_closing_declines_every_waiting_request(desk: Desk) -> None:
    """TOL-090, TOL-100: waiting calls end, observers are told, later calls find nobody."""
    waiting = [await desk.wait(want("edit", name)) for name in "abc"]
    await desk.permissions.ask(want("edit", "d"))
    await soon(desk.permissions.close())
    for task, _ in waiting:
        with pytest.raises(DeniedByPerson):
            await soon(task)
    assert len(await desk.ear.count(REPLIED, 4)) == 4
    assert await desk.permissions.list() == ()
    with pytest.raises(DeniedByPerson):
        await soon(desk.permissions.assert_allowed(want()))


async def test_closing_declines_also_when_the_log_was_closed_before(desk: Desk) -> None:
    """TOL-100: whichever part of the runtime goes first, no call hangs."""
    task, _ = await desk.wait(want())
    await desk.log.close()
    await soon(desk.permissions.close())
    with pytest.raises(DeniedByPerson):
        await soon(task)


async def test_a_session_that_leaves_ends_its_requests(desk: Desk, story: Story) -> None:
    """TOL-103, TOL-322: what was asked here cannot be approved there."""
    task, request = await desk.wait(want())
    await story.tell(Moved, location=Location(directory="/w/there"))
    with pytest.raises(DeniedByPerson):
        await soon(task)
    with pytest.raises(DeniedByPerson):
        await soon(desk.permissions.assert_allowed(want()))
    assert (await _events(desk))[-1] | {"timestamp": 0} == {
        "timestamp": 0,
        "sessionID": SES,
        "requestID": request.id,
        "reply": "reject",
        "cause": "interrupted",
    }


async def test_a_deleted_session_ends_its_requests(desk: Desk, story: Story) -> None:
    """TOL-089, TOL-090: there is no row left to answer."""
    task, _ = await desk.wait(want())
    await story.log.publish(SessionDeleted(session_id=SES, info=record()))
    with pytest.raises(DeniedByPerson):
        await soon(task)
    assert len(await desk.ear.count(REPLIED, 1)) == 1


async def test_a_session_has_a_bounded_number_of_requests(desk: Desk, story: Story) -> None:
    """TOL-101: the next one is denied with a reason; another Session may still ask, and room is made by answers."""
    await Story(story.database, story.log, "ses_two").begin()
    requests = [(await desk.permissions.ask(want("edit", str(number)))).id for number in range(MOST_PENDING)]
    assert (await desk.permissions.ask(want())).effect == "deny"
    with pytest.raises(DeniedByRule) as caught:
        await desk.permissions.assert_allowed(want())
    assert TOO_MANY_WAIT in str(caught.value)
    assert (await desk.permissions.ask(want(session="ses_two"))).effect == "ask"
    await desk.permissions.reply(SES, requests[0], "once")
    assert (await desk.permissions.ask(want())).effect == "ask"


async def test_the_log_keeps_request_and_reply(desk: Desk) -> None:
    """TOL-087, TOL-101: with the agent, which only the log knows; all of it private."""
    task, request = await desk.wait(want(save=("*",)))
    await desk.permissions.reply(SES, request.id, "reject", message="no")
    with pytest.raises(DeniedWithFeedback):
        await soon(task)
    asked, replied = await _events(desk)
    assert asked["agent"] == "build"
    assert asked["request"] == {
        "id": request.id,
        "sessionID": SES,
        "action": "edit",
        "resources": ["a.txt"],
        "save": ["*"],
    }
    assert (replied["requestID"], replied["reply"], replied["message"]) == (request.id, "reject", "no")
    assert "cause" not in replied
    assert (await desk.log.history(SES))[0] == []


async def test_requests_are_a_projection_of_the_log(desk: Desk) -> None:
    """TOL-101: answered and waiting ones can be thrown away and made again, row for row."""
    task, request = await desk.wait(want())
    await desk.permissions.reply(SES, request.id, "once")
    await soon(task)
    _, waiting = await desk.wait(want("bash", "ls"))
    assert [found async for found in desk.log.verify([SES])] == []
    await desk.log.rebuild(SES)
    assert await desk.permissions.list() == (waiting,)


async def test_rules_are_read_anew_and_the_agent_is_not(desk: Desk, story: Story) -> None:
    """TOL-322, TOL-347, SES-119: a rule edited meanwhile counts, a switch of the Session's agent does not."""
    desk.rules["free"] = [rule("allow")]
    task, request = await desk.wait(want())
    await story.tell(AgentSwitched, message_id="msg_switch", agent="free")
    assert not task.done()
    desk.rules["build"] = [rule("deny", "edit")]
    await desk.permissions.reply(SES, request.id, "once")
    with pytest.raises(DeniedByRule) as caught:
        await soon(task)
    assert caught.value.rules == (rule("deny", "edit"),)
    desk.rules["build"] = [rule("allow")]
    await soon(desk.permissions.assert_allowed(want()))


async def test_nothing_is_held_while_a_person_thinks(desk: Desk, story: Story) -> None:
    """TOL-346: everyone else can write meanwhile, from outside too."""
    task, request = await desk.wait(want())
    assert raw(story.database.path, "insert into project (id, worktree, time_created) values ('x', '/x', 1)") == []
    await story.note(1)
    assert not task.done()
    await desk.permissions.reply(SES, request.id, "once")
    await soon(task)


@pytest.mark.parametrize("policy", ["deny", "allow"])
async def test_the_policy_answers_where_nobody_can(
    desk: Desk, ids: Ids, clock: ManualClock, policy: Unattended
) -> None:
    """TOL-354: at once, with a reason to read, and on record; what the rules deny stays denied, what waits waits."""
    alone = Desk(desk.log, desk.database, ids, clock, unattended=policy)
    alone.rules["build"] = [rule("deny", "bash")]
    with pytest.raises(DeniedByRule):
        await soon(alone.permissions.assert_allowed(want("bash", "ls")))
    if policy == "allow":
        await soon(alone.permissions.assert_allowed(want()))
    else:
        with pytest.raises(DeniedByRule) as caught:
            await soon(alone.permissions.assert_allowed(want()))
        assert str(caught.value) == f"Permission denied: edit a.txt ({NOBODY_TO_ASK})"
    assert (await alone.permissions.ask(want())).effect == policy
    assert await alone.permissions.list() == ()
    replies = [event for event in await _events(desk) if "requestID" in event]
    assert [(event["reply"], event["cause"]) for event in replies] == [
        ("once" if policy == "allow" else "reject", "policy")
    ] * 2
    alone.permissions.unattended = "wait"
    task, _ = await alone.wait(want())
    assert not task.done()
    await alone.close()


async def _save(desk: Desk, action: str, pattern: str) -> None:
    asked = await desk.permissions.ask(want(action, pattern, save=(pattern,)))
    await desk.permissions.reply(SES, asked.id, "always")


async def _events(desk: Desk) -> list[dict[str, Any]]:
    """The payloads of all stored requests and replies."""
    stored = await desk.log.serialized(SES, limit=10_000)
    return [decode_any(event.data) for event in stored if event.type.startswith("session.next.permission.")]
