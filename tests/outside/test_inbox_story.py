"""A prompt on its way into the conversation: admitted, repeated, withdrawn, steered, queued, promoted."""

from __future__ import annotations

import asyncio

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, answers, ask, events, newest, of_type, position, types, until

from holdfast import ApiError, PromptInput
from holdfast.schema.prompt import FileInput
from holdfast.schema.session_event import PromptAdmitted, Prompted
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

GO = PromptInput(text="go")


async def test_admission_is_recorded_apart_from_execution(world: World) -> None:
    """SES-031, SES-033, SES-034, SES-035: with `resume: false` the receipt is all that happens: it names the sequence
    of its event, the delivery is `steer`, nobody is asked, and neither messages nor context show it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(session.id, prompt=GO, resume=False)
        (admitted,) = await events(hf, session)

        assert (receipt.session_id, receipt.prompt.text, receipt.delivery) == (session.id, "go", "steer")
        assert receipt.admitted_seq == position(admitted)
        assert receipt.promoted_seq is None
        assert isinstance(admitted.data, PromptAdmitted)
        assert (admitted.data.message_id, admitted.data.delivery) == (receipt.id, "steer")
        assert receipt.time_created == admitted.data.timestamp
        assert (await hf.sessions.messages(session.id)).items == await hf.sessions.context(session.id) == []
        assert await hf.sessions.pending(session.id) == [receipt]
        assert await hf.sessions.active() == {}
        with pytest.raises(ApiError) as absent:
            await hf.sessions.message(session.id, message_id=receipt.id)
        assert absent.value.code == "MessageNotFoundError"
    assert world.model.requests == []


async def test_a_receipt_does_not_wait_for_the_answer(world: World) -> None:
    """SES-031, API-118, EVT-060: while the model is silent, every prompt is answered at once; all of them are seen."""
    silent = asyncio.Event()
    world.model.plays(Turn(text="first", begin=silent))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await world.model.asked(1)
        receipts = [
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=text)) for text in ("two", "three", "four")
        ]
        assert [receipt.promoted_seq for receipt in receipts] == [None] * 3
        assert len(world.model.requests) == 1
        silent.set()
        await hf.sessions.wait(session.id)
    assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two", "three", "four"]


async def test_a_retry_gives_the_same_receipt_and_appends_nothing(world: World) -> None:
    """SES-037, SES-040, SES-041: one after the other and at the same time, before and after promotion; no files and an
    empty list of files are the same prompt."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        again = [
            hf.sessions.prompt(session.id, id="msg_mine", prompt=GO, resume=False),
            hf.sessions.prompt(session.id, id="msg_mine", prompt=PromptInput(text="go", files=()), resume=False),
            hf.sessions.prompt(session.id, id="msg_mine", prompt=GO, resume=False),
        ]
        first, *others = await asyncio.gather(*again)
        assert others == [first] * 2
        assert await types(hf, session) == ["prompt.admitted"]
        assert world.model.requests == []

        await ask(hf, session, "go", id="msg_mine")  # this retry wakes
        assert [role for role, _ in world.model.last.said] == ["user"]
        told = await types(hf, session)
        late = await hf.sessions.prompt(session.id, id="msg_mine", prompt=GO)
        await hf.sessions.wait(session.id)
        assert late.promoted_seq == position(next(e for e in await events(hf, session) if of_type("prompted")(e)))
        assert (late.admitted_seq, late.time_created) == (first.admitted_seq, first.time_created)
        assert await types(hf, session) == told
    assert len(world.model.requests) == 1


async def test_without_an_id_each_call_is_an_input_of_its_own(world: World) -> None:
    """SES-036, SES-043: two equal calls admit two inputs, each with its own sequences."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipts = [await hf.sessions.prompt(session.id, prompt=GO, resume=False) for _ in range(2)]
        assert len({receipt.id for receipt in receipts}) == 2
        await ask(hf, session, "now")
        assert [text for _, text in world.model.last.said] == ["go", "go", "now"]
        found = await events(hf, session)
    for name in ("prompt.admitted", "prompted"):
        sequences = [position(event) for event in found if of_type(name)(event)]
        assert len(set(sequences)) == 3


async def test_an_id_used_for_something_else_is_a_conflict(world: World) -> None:
    """SES-038, SES-039: another text, delivery or Session, or the id of any visible message; nothing is written and
    nothing is woken."""
    async with world.host() as hf:
        session, other = await hf.sessions.create(), await hf.sessions.create()
        await ask(hf, other, "hello")
        taken = (await newest(hf, other)).id
        await hf.sessions.prompt(session.id, id="msg_mine", prompt=GO, resume=False)
        before = len(world.model.requests)
        for target, id, text, delivery in (
            (session, "msg_mine", "else", None),
            (session, "msg_mine", "go", "queue"),
            (other, "msg_mine", "go", None),
            (session, taken, "go", None),
        ):
            with pytest.raises(ApiError) as conflict:
                await hf.sessions.prompt(target.id, id=id, prompt=PromptInput(text=text), delivery=delivery)  # type: ignore[arg-type]
            assert (conflict.value.status, conflict.value.code) == (409, "ConflictError")
            assert conflict.value.body["resource"] == id
        await hf.sessions.wait(other.id)
        assert await types(hf, session) == ["prompt.admitted"]
        assert (await types(hf, other)).count("prompt.admitted") == 1
    assert len(world.model.requests) == before


async def test_promotion_makes_the_message_that_was_admitted(world: World) -> None:
    """SES-046, SES-047, SES-191, EVT-057: the same id; created when the person sent it, not when the model saw it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(session.id, prompt=GO, resume=False)
        await ask(hf, session, "later", delivery="queue")
        user = (await hf.sessions.context(session.id))[0]
        (promoted,) = [
            e for e in await events(hf, session) if isinstance(e.data, Prompted) and e.data.prompt.text == "go"
        ]

        assert isinstance(user, UserMessage)
        assert (user.id, user.text, user.files, user.agents) == (receipt.id, "go", None, None)
        assert isinstance(promoted.data, Prompted)
        assert user.time.created == promoted.data.timestamp == receipt.time_created
        assert receipt.admitted_seq < position(promoted)
        assert await hf.sessions.pending(session.id) == []
        assert await hf.verify() == []


async def test_a_caller_that_goes_away_never_separates_admission_from_its_start(world: World) -> None:
    """SES-032: cancelled at any point, a prompt is either not there at all or is worked on."""
    async with world.host() as hf:
        left = []
        for steps in range(14):
            left.append(session := await hf.sessions.create())
            prompting = asyncio.create_task(hf.sessions.prompt(session.id, prompt=GO))
            for _ in range(steps):
                await asyncio.sleep(0)
            prompting.cancel()
            await asyncio.wait({prompting})
        await ask(hf, await hf.sessions.create(), "one commit after all of theirs")
        admitted = 0
        for session in left:
            await hf.sessions.wait(session.id)
            assert await hf.sessions.pending(session.id) == []
            told = await types(hf, session)
            assert told.count("prompt.admitted") == told.count("prompted") == told.count("step.ended") <= 1
            admitted += told.count("prompt.admitted")
        assert admitted > 0


async def test_steers_join_running_work_together_and_queued_inputs_wait_for_its_end(world: World) -> None:
    """SES-051, SES-053, SES-055, SES-056, SES-088: turn 1 runs while A and B are queued; turn 2 sees A; two steers join
    turn 3; B comes last. Each request says which inputs the model had seen."""
    gates = [asyncio.Event() for _ in range(2)]
    world.model.plays(Turn(text="1", begin=gates[0]), Turn(text="2", begin=gates[1]))
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def send(text: str, delivery: str) -> None:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=text), delivery=delivery)  # type: ignore[arg-type]

        await send("start", "steer")
        await world.model.asked(1)
        await send("A", "queue")
        await send("B", "queue")
        gates[0].set()
        await world.model.asked(2)
        await send("S1", "steer")
        await send("S2", "steer")
        gates[1].set()
        await hf.sessions.wait(session.id)
    seen = [[text for role, text in request.said if role == "user"] for request in world.model.requests]
    assert seen == [
        ["start"],
        ["start", "A"],
        ["start", "A", "S1", "S2"],
        ["start", "A", "S1", "S2", "B"],
    ]


async def test_a_queued_input_waits_for_the_calls_of_the_turn_before(world: World) -> None:
    """SES-053, SES-087, SES-089: a turn that called a tool goes on first; a steer joins that continuation, a queued one
    does not."""
    gate = asyncio.Event()
    first = Turn(calls=calling("read", path="hello.txt").calls, begin=gate)
    world.model.plays(first, Turn(text="read it"), Turn(text="queued"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="later"), delivery="queue")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="now"), delivery="steer")
        gate.set()
        await hf.sessions.wait(session.id)
    assert [[role for role, _ in request.said] for request in world.model.requests] == [
        ["user"],
        ["user", "assistant", "tool", "user"],
        ["user", "assistant", "tool", "user", "assistant", "user"],
    ]
    assert [request.said[-1][1] for request in world.model.requests[1:]] == ["now", "later"]


async def test_a_waiting_steer_is_taken_before_what_was_queued_earlier(world: World) -> None:
    """SES-055: at the start of a drain."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="queued"), delivery="queue", resume=False)
        await ask(hf, session, "steered")
    assert [request.said[-1][1] for request in world.model.requests] == ["steered", "queued"]
    assert len(world.model.requests[0].said) == 1


async def test_pending_input_can_be_listed_and_withdrawn(world: World) -> None:
    """SES-045: in order of admission; withdrawing twice is fine; a promoted one conflicts, an unknown one is not found;
    the model never sees it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for name in ("one", "two"):
            await hf.sessions.prompt(session.id, id=f"msg_{name}", prompt=PromptInput(text=name), resume=False)
        assert [input.id for input in await hf.sessions.pending(session.id)] == ["msg_one", "msg_two"]
        for _ in range(2):
            await hf.sessions.withdraw(session.id, message_id="msg_one")
        await ask(hf, session, "go")
        assert [text for _, text in world.model.last.said] == ["two", "go"]
        for id, status, tag in (("msg_two", 409, "ConflictError"), ("msg_never", 404, "MessageNotFoundError")):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.withdraw(session.id, message_id=id)
            assert (refused.value.status, refused.value.code) == (status, tag)
        assert await hf.verify() == []


async def test_the_media_type_of_a_file_is_found_at_admission(world: World) -> None:
    """SES-042, API-117: of a data address, of a folder, by the extension; names and spans are kept."""
    (world.project / "docs").mkdir()
    world.write("page.html", "<p>hi</p>")
    files = (
        FileInput(uri="data:text/csv;base64,YSxiCg==", name="table"),
        FileInput(uri=f"file://{world.project}/docs/"),
        FileInput(uri=f"file://{world.project}/page.html"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.prompt(session.id, prompt=PromptInput(text="look", files=files), resume=False)
        assert receipt.prompt.files is not None
        assert [(file.mime, file.name) for file in receipt.prompt.files] == [
            ("text/csv", "table"),
            ("application/x-directory", None),
            ("text/html", None),
        ]
        await until(hf, session, of_type("prompt.admitted"))
        assert answers(await hf.sessions.context(session.id)) == []
