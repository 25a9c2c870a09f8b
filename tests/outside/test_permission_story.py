"""What a person is asked before something is done, what each answer does, and the questions of a model."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.world import World, answers, ask, hands, newest, text_of, tools_of, types

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.live_event import PermissionAskedLive, PermissionRepliedLive, QuestionAskedLive
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

ASK = [{"action": "edit", "resource": "*", "effect": "ask"}, {"action": "bash", "resource": "*", "effect": "ask"}]


async def heard(live: Any, kind: type) -> Any:
    """The next live event that carries this."""
    async with asyncio.timeout(PATIENCE):
        while not isinstance((event := await anext(live)).data, kind):
            pass
    return event.data


async def asked(hf: Holdfast, session: Session, *, count: int = 1) -> list[PermissionRequest]:
    """What waits for a person, once that much does."""
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while len(found := await hf.permissions.list(session.id)) < count:
            await anext(live)
    return found


async def start(world: World, hf: Holdfast, *turns: Turn) -> Session:
    world.model.plays(*turns)
    session = await hf.sessions.create()
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
    return session


async def test_a_yes_lets_the_call_happen_and_a_second_answer_is_too_late(world: World) -> None:
    """TOL-086, TOL-087, TOL-091, TOL-102: nothing happens before; the request names the
    call, and who is connected hears of it and of the answer."""
    world.configure(permissions=ASK)
    async with world.host() as hf, aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        session = await start(world, hf, calling("write", path="new.txt", content="x\n"))
        request = await heard(live, PermissionAskedLive)
        assert not (world.project / "new.txt").exists()
        assert (request.action, request.resources) == ("edit", ("new.txt",))
        assert request.save == ("new.txt", "*")
        message = await newest(hf, session)
        assert request.source is not None
        assert (request.source.message_id, request.source.call_id) == (message.id, "call_0")
        assert [item.id for item in (await hf.permissions.list_requests()).data] == [request.id]
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        replied = await heard(live, PermissionRepliedLive)
        assert (replied.request_id, replied.reply) == (request.id, "once")
        await hf.sessions.wait(session.id)
        assert (world.project / "new.txt").read_text() == "x\n"
        with pytest.raises(ApiError) as late:
            await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        assert late.value.code == "PermissionNotFoundError"
        assert await hf.permissions.list_saved() == []


async def test_a_plain_no_stops_the_turn(world: World) -> None:
    """SES-123, SES-136, TOL-092, TOL-093, TOL-334: the open calls are interrupted, all other requests of the Session
    are declined too, the step has one end, and the model is not asked again."""
    world.configure(permissions=ASK)
    turn = Turn(calls=(Call("write", {"path": "a", "content": ""}), Call("bash", {"command": "touch b"})))
    async with world.host() as hf:
        session = await start(world, hf, turn)
        first, _ = await asked(hf, session, count=2)
        await hf.permissions.reply(session.id, request_id=first.id, reply="reject")
        await hf.sessions.wait(session.id)
        message = await newest(hf, session)
        states = [part.state for part in tools_of(message)]
        assert [state.error.message for state in states if isinstance(state, ToolError)] == [
            "Tool execution interrupted"
        ] * 2
        assert await hf.permissions.list(session.id) == []
        told = await types(hf, session)
        assert told.count("step.ended") + told.count("step.failed") == 1
    assert len(world.model.requests) == 1
    assert [path.name for path in world.project.iterdir()] == ["hello.txt"]


async def test_a_no_with_a_reason_is_read_by_the_model(world: World) -> None:
    """TOL-092, TOL-094, SES-120: the turn goes on, and the words reach it."""
    world.configure(permissions=ASK)
    async with world.host() as hf:
        session = await start(world, hf, calling("bash", command="rm -r build"))
        (request,) = await asked(hf, session)
        await hf.permissions.reply(session.id, request_id=request.id, reply="reject", message="use make clean")
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "done"
    assert "The user rejected this action and said: use make clean" in world.model.last.results[-1]


async def test_always_holds_for_what_was_shown_and_releases_what_it_covers(world: World) -> None:
    """TOL-076, TOL-096, TOL-097, TOL-098, TOL-362, TOL-364, API-131: the narrow offer is saved; the same again is not
    asked, another file is; a wider one must be chosen, and then a waiting request is let go; a configured no stays a
    no."""
    rules = [*ASK, {"action": "edit", "resource": "secret/*", "effect": "deny"}]
    world.configure(permissions=rules)
    async with world.host() as hf:
        session = await start(world, hf, calling("write", path="a.txt", content="1"))
        (request,) = await asked(hf, session)
        await hf.permissions.reply(session.id, request_id=request.id, reply="always")
        await hf.sessions.wait(session.id)
        assert [(saved.action, saved.resource) for saved in await hf.permissions.list_saved()] == [("edit", "a.txt")]
        world.model.plays(calling("write", path="a.txt", content="2"))
        await ask(hf, session, "again")
        assert (world.project / "a.txt").read_text() == "2"

        both = Turn(calls=(Call("write", {"path": "b", "content": ""}), Call("write", {"path": "c", "content": ""})))
        world.model.plays(both)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="more"))
        first, _ = await asked(hf, session, count=2)
        with pytest.raises(ApiError) as foreign:
            await hf.permissions.reply(session.id, request_id=first.id, reply="always", save=["/**"])
        assert foreign.value.code == "InvalidRequestError"
        await hf.permissions.reply(session.id, request_id=first.id, reply="always", save=["*"])
        await hf.sessions.wait(session.id)
        assert {"b", "c"} <= {path.name for path in world.project.iterdir()}
        world.model.plays(calling("write", path="secret/d", content=""))
        await ask(hf, session, "and that")
        assert "Permission denied: edit secret/d" in world.model.last.results[-1]
        for saved in await hf.permissions.list_saved():
            await hf.permissions.remove_saved(saved.id)
        assert (await hf.permissions.create(session.id, action="edit", resources=["e"])).effect == "ask"


async def test_an_answer_is_for_the_agent_that_called(world: World) -> None:
    """TOL-037, TOL-347, SES-119, CAT-068: switching while the request waits changes nothing for this call."""
    careful = {"mode": "primary", "permissions": [{"action": "bash", "resource": "*", "effect": "deny"}]}
    world.configure(permissions=ASK, agents={"careful": careful})
    async with world.host() as hf:
        session = await start(world, hf, calling("bash", command="echo ran"))
        (request,) = await asked(hf, session)
        await hf.sessions.switch_agent(session.id, agent="careful")
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        state = tools_of(answers(await hf.sessions.context(session.id))[0])[0].state
        assert isinstance(state, ToolCompleted)
    assert "bash" not in world.model.last.tools


async def test_an_interruption_takes_its_request_away(world: World) -> None:
    """TOL-089, TOL-090: nobody is left looking at a question that no longer matters."""
    world.configure(permissions=ASK)
    async with world.host() as hf:
        session = await start(world, hf, calling("bash", command="echo ran"))
        (request,) = await asked(hf, session)
        async with aclosing(aiter(hf.events.subscribe())) as live:
            await anext(live)
            await hf.sessions.interrupt(session.id)
            assert (await heard(live, PermissionRepliedLive)).request_id == request.id
        assert await hf.permissions.list(session.id) == []
        with pytest.raises(ApiError) as gone:
            await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        assert gone.value.code == "PermissionNotFoundError"


async def test_rules_are_read_in_order_and_the_last_that_matches_decides(world: World) -> None:
    """TOL-068, TOL-069, TOL-070, TOL-071, TOL-073, TOL-085, TOL-331, TOL-332, CAT-062, CAT-066, CAT-067: a star crosses
    slashes, brackets are letters, a trailing star may match nothing; an agent's rules come after everybody's."""
    everybody = [
        {"action": "deploy", "resource": "*", "effect": "allow"},
        {"action": "deploy", "resource": "site/*", "effect": "deny"},
        {"action": "deploy", "resource": "site/[a]/*", "effect": "allow"},
        {"action": "deploy", "resource": "git push *", "effect": "deny"},
        {"action": "read", "resource": "~/notes/*", "effect": "deny"},
    ]
    agent = {"mode": "primary", "permissions": [{"action": "deploy", "resource": "site/x", "effect": "allow"}]}
    world.configure(permissions=everybody, agents={"other": agent})
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def effect(action: str, resource: str, agent: str | None = None) -> str:
            given = await hf.permissions.create(session.id, action=action, resources=[resource], agent=agent)
            return given.effect

        cases = {
            "anything": "allow",
            "site/x": "deny",
            "site/deep/er": "deny",
            "site/[a]/x": "allow",
            "site/a/x": "deny",
            "git push": "deny",
            "git push -f": "deny",
            "git pushx": "allow",
        }
        assert {resource: await effect("deploy", resource) for resource in cases} == cases
        assert await effect("deploy", "site/x", "other") == "allow"
        assert await effect("deploy", "site/y", "other") == "deny"
        assert await effect("read", f"{world.home}/notes/a") == "deny"
        assert await effect("unheard", "of", "other") == "ask"
        assert await effect("deploy", "x", "nobody") == "deny"


async def test_a_tool_that_is_denied_altogether_is_not_offered(world: World) -> None:
    """TOL-010, TOL-012, TOL-013, TOL-095: hidden, and unknown when called; a later narrower yes keeps it; a denial
    names what was denied and nothing of what is there."""
    rules = [
        {"action": "edit", "resource": "*", "effect": "deny"},
        {"action": "grep", "resource": "*", "effect": "deny"},
        {"action": "grep", "resource": "TODO", "effect": "allow"},
        {"action": "read", "resource": "secret*", "effect": "deny"},
    ]
    world.configure(permissions=rules)
    world.write("secret.txt", "s3cret\n")
    async with world.host() as hf:
        use = await hands(world, hf)
        assert await use.fails("write", path="x", content="") == "Unknown tool: write"
        offered = set(world.model.last.tools)
        assert offered.isdisjoint({"write", "edit", "apply_patch"})
        assert {"grep", "read"} <= offered
        there = await use.fails("read", path="secret.txt")
        absent = await use.fails("read", path="secret.absent")
        assert there == "Permission denied: read secret.txt"
        assert "s3cret" not in str(world.model.last.body)
        assert "absent" in absent
        assert "Permission denied: grep" in await use.fails("grep", pattern="s3cret")
        await use("grep", pattern="TODO")


async def test_a_place_outside_the_project_needs_its_own_yes(world: World) -> None:
    """TOL-104, TOL-115, TOL-118, TOL-119, TOL-120, TOL-083: asked for first, by its folder; after a no nothing is read;
    a sibling with the same beginning is outside as well; an absolute path inside is not."""
    outside = world.home / "project-other"
    outside.mkdir()
    (outside / "a.txt").write_text("outside text\n")
    async with world.host() as hf:
        session = await start(world, hf, calling("read", path=str(outside / "a.txt")))
        (request,) = await asked(hf, session)
        assert (request.action, request.resources) == ("external_directory", (f"{outside}/*",))
        assert request.save == (f"{outside}/*",)
        await hf.permissions.reply(session.id, request_id=request.id, reply="reject", message="no")
        await hf.sessions.wait(session.id)
        assert "outside text" not in str(world.model.last.body)
        world.model.plays(calling("read", path=str(outside / "a.txt")))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        (request,) = await asked(hf, session)
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        assert "outside text" in world.model.last.results[-1]
        world.model.plays(calling("read", path=str(world.project / "hello.txt")))
        await ask(hf, session, "inside")
        assert "hello world" in world.model.last.results[-1]


async def test_an_unattended_request_is_denied_at_once(world: World) -> None:
    """TOL-354: with a reason; a policy that says yes is explicit."""
    world.configure(permissions=ASK)
    async with world.host(unattended="deny") as hf:
        use = await hands(world, hf)
        assert "nobody is here" in await use.fails("bash", command="touch made")
    async with world.host(unattended="allow") as hf:
        use = await hands(world, hf)
        await use("bash", command="touch made")
    assert (world.project / "made").exists()


QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
    },
    {"question": "Why?", "header": "Reason", "options": []},
]


async def question(hf: Holdfast) -> QuestionRequest:
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while not (found := (await hf.questions.list_requests()).data):
            await anext(live)
    return found[0]


async def test_a_model_asks_and_a_person_answers(world: World) -> None:
    """TOL-105, TOL-106, TOL-107, TOL-109, TOL-110, TOL-251, TOL-252, API-134: with its call; an impossible answer is
    refused and the question stays; another Session cannot answer; what was left open is said."""
    async with world.host() as hf:
        async with aclosing(aiter(hf.events.subscribe())) as live:
            await anext(live)
            session = await start(world, hf, calling("question", questions=QUESTIONS))
            request = await heard(live, QuestionAskedLive)
        assert request.id.startswith("que_")
        assert [item.header for item in request.questions] == ["Colour", "Reason"]
        assert request.tool is not None
        assert request.tool.call_id == "call_0"
        assert [item.id for item in await hf.questions.list(session.id)] == [request.id]
        other = await hf.sessions.create()
        for target, answers_given, tag in (
            (session, [["red", "blue"], []], "InvalidRequestError"),
            (session, [["red"], [], []], "InvalidRequestError"),
            (other, [["red"]], "QuestionNotFoundError"),
        ):
            with pytest.raises(ApiError) as refused:
                await hf.questions.reply(target.id, request_id=request.id, answers=answers_given)
            assert refused.value.code == tag
        await hf.questions.reply(session.id, request_id=request.id, answers=[["red"], []])
        await hf.sessions.wait(session.id)
        assert await hf.questions.list(session.id) == []
        state = tools_of(answers(await hf.sessions.context(session.id))[0])[0].state
        assert isinstance(state, ToolCompleted)
        assert state.structured == {"answers": [["red"], []]}
    told = world.model.last.results[-1]
    assert told.startswith("User answers: ")
    assert '"Which colour?"="red"' in told
    assert '"Why?"="Unanswered"' in told


async def test_a_dismissed_question_stops_the_turn(world: World) -> None:
    """TOL-108, TOL-253, TOL-254: like a declined permission; too many questions are no question at all."""
    async with world.host() as hf:
        session = await start(world, hf, calling("question", questions=QUESTIONS))
        request = await question(hf)
        await hf.questions.reject(session.id, request_id=request.id)
        await hf.sessions.wait(session.id)
        assert len(world.model.requests) == 1
        state = tools_of(await newest(hf, session))[0].state
        assert isinstance(state, ToolError)
        with pytest.raises(ApiError) as gone:
            await hf.questions.reject(session.id, request_id=request.id)
        assert gone.value.code == "QuestionNotFoundError"
        use = await hands(world, hf)
        assert (await use.fails("question", questions=QUESTIONS * 5)).startswith("Invalid tool input: ")
