"""Permission requests and questions of children: shown at every ancestor, and answered there."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from tests.cli.conftest import Machine, Ran
from tests.outside.scripted_provider import PATIENCE, Model, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest, text_of, tools_of

from holdfast import ApiError, Holdfast, PermissionRequest, PromptInput, QuestionRequest, Session
from holdfast.embedded.pieces import Done, PermissionPiece
from holdfast.schema.live_event import (
    PermissionAskedLive,
    PermissionRepliedLive,
    QuestionAskedLive,
    QuestionRejectedLive,
    QuestionRepliedLive,
)
from holdfast.schema.location import Location
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

ASKING = {"permissions": [{"action": "edit", "resource": "*", "effect": "ask"}]}
WRITE = calling("write", path="new.txt", content="x\n")
COLOUR = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red", "description": "Red"}]}


async def soon(hf: Holdfast, found: Callable[[], Any]) -> Any:
    """What is found once there is something. It is looked for after each event."""
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while not (result := await found()):
            await anext(live)
    return result


async def begin(hf: Holdfast, text: str = "root") -> Session:
    session = await hf.sessions.create()
    await hf.sessions.prompt(session.id, prompt=PromptInput(text=text))
    return session


async def permission(hf: Holdfast, session: Session | str) -> PermissionRequest:
    id = session if isinstance(session, str) else session.id
    request: PermissionRequest = (await soon(hf, lambda: hf.permissions.list(id)))[0]
    return request


async def question(hf: Holdfast, session: Session) -> QuestionRequest:
    request: QuestionRequest = (await soon(hf, lambda: hf.questions.list(session.id)))[0]
    return request


def three_deep(world: World, *turns: Turn) -> Cast:
    """A tree in which the Session at depth three plays these turns."""
    world.configure(**ASKING)
    cast = Cast(root=[delegating("a")], a=[delegating("b")], b=[delegating("c")], c=list(turns))
    world.model.always = cast
    return cast


async def at_depth_three(hf: Holdfast) -> Session:
    sessions = (await hf.sessions.list()).items
    (found,) = [item for item in sessions if item.id not in {other.parent_id for other in sessions}]
    return found


async def test_a_request_at_depth_three_is_listed_and_answered_at_every_ancestor(world: World) -> None:
    """API-540, API-541, API-542, SES-360, TOL-275: with the ids of all Sessions above; not through other Sessions, nor
    the other way round."""
    three_deep(world, WRITE)
    async with world.host() as hf:
        session = await begin(hf)
        stranger = await hf.sessions.create()
        request = await permission(hf, session)
        line = [*(request.ancestors or ()), request.session_id]
        assert len(line) == 4
        assert [(await hf.sessions.get(id)).parent_id for id in line] == [None, *line[:-1]]
        assert line[0] == session.id
        for id in line:
            assert await hf.permissions.list(id) == [request]
            assert await hf.permissions.get(id, request_id=request.id) == request
        assert (await hf.permissions.list_requests()).data == [request]
        assert await hf.permissions.list(stranger.id) == []
        for refused in (
            hf.permissions.get(stranger.id, request_id=request.id),
            hf.permissions.reply(stranger.id, request_id=request.id, reply="once"),
        ):
            with pytest.raises(ApiError) as unknown:
                await refused
            assert (unknown.value.status, unknown.value.code) == (404, "PermissionNotFoundError")
        (wait,) = [wait for wait in await hf.sessions.waits(session.id) if wait.kind == "permission"]
        assert (wait.what, wait.id) == (f"permission for the child {line[-1]}: edit new.txt", request.id)
        (own,) = [wait for wait in await hf.sessions.waits(line[-1]) if wait.kind == "permission"]
        assert own.what == "permission: edit new.txt"
        asked = await hf.permissions.create(session.id, action="edit", resources=["other"])
        with pytest.raises(ApiError) as above:
            await hf.permissions.get(line[-1], request_id=asked.id)
        assert above.value.status == 404
        await hf.permissions.reply(session.id, request_id=asked.id, reply="reject")
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        assert (world.project / "new.txt").read_text() == "x\n"
        assert text_of(await newest(hf, session)) == "root done"


async def test_the_stream_of_the_root_carries_requests_of_descendants(world: World) -> None:
    """API-540, API-543: asked and answered, and nothing else of them."""
    three_deep(world, WRITE)
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(session.id, live=True))) as live:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
            heard: list[Any] = []
            async for event in live:
                if getattr(event.data, "session_id", None) != session.id:
                    heard.append(event.data)
                match event.data:
                    case PermissionAskedLive(id=id):
                        await hf.permissions.reply(session.id, request_id=id, reply="once")
                    case PermissionRepliedLive():
                        break
        asked, replied = heard
        assert isinstance(asked, PermissionAskedLive)
        assert asked.ancestors == replied.ancestors
        assert asked.ancestors is not None
        assert (asked.ancestors[0], len(asked.ancestors)) == (session.id, 3)
        await hf.sessions.wait(session.id)


async def test_a_request_at_depth_three_is_seen_at_the_root_within_a_tenth_of_a_second(world: World) -> None:
    """API-543: the median of fifty."""
    three_deep(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        deepest = await at_depth_three(hf)
        delays: list[float] = []
        async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(session.id, live=True))) as live:
            await anext(live)
            for number in range(50):
                started = time.perf_counter()
                asking = asyncio.create_task(
                    hf.permissions.create(deepest.id, action="edit", resources=[f"{number}.txt"])
                )
                async for event in live:
                    if isinstance(event.data, PermissionAskedLive):
                        assert event.data.session_id == deepest.id
                        break
                delays.append(time.perf_counter() - started)
                await asking
        assert statistics.median(delays) < 0.1


@pytest.mark.parametrize("dismissed", [False, True])
async def test_questions_of_a_child_are_answered_at_the_root(world: World, dismissed: bool) -> None:
    """API-541, API-542: and dismissed there, which ends only the child's turn."""
    asker = {"mode": "subagent", "permissions": [{"action": "*", "resource": "*", "effect": "allow"}]}
    world.configure(agents={"asker": asker})
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "a", "agent": "asker"})],
        a=[delegating({"prompt": "b", "agent": "asker"})],
        b=[calling("question", questions=[COLOUR])],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(session.id, live=True))) as live:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
            async for event in live:
                if isinstance(event.data, QuestionAskedLive):
                    break
            request = await question(hf, session)
            assert request.ancestors is not None
            assert (request.ancestors[0], len(request.ancestors)) == (session.id, 2)
            (wait,) = [wait for wait in await hf.sessions.waits(session.id) if wait.kind == "question"]
            assert wait.what == f"an answer for the child {request.session_id}: Which colour?"
            stranger = await hf.sessions.create()
            with pytest.raises(ApiError) as unknown:
                await hf.questions.reject(stranger.id, request_id=request.id)
            assert unknown.value.code == "QuestionNotFoundError"
            if dismissed:
                await hf.questions.reject(session.id, request_id=request.id)
            else:
                await hf.questions.reply(session.id, request_id=request.id, answers=[["red"]])
            async for event in live:
                if isinstance(event.data, QuestionRepliedLive | QuestionRejectedLive):
                    assert event.data.ancestors == request.ancestors
                    break
        await hf.sessions.wait(session.id)
        assert len(cast.requests["b"]) == (1 if dismissed else 2)
        assert len(cast.requests["a"]) == 2
        assert text_of(await newest(hf, session)) == "root done"


async def test_a_plain_no_ends_the_childs_turn_and_nothing_else(world: World) -> None:
    """SES-361: the sibling's request stays open, the parent reads that the child was stopped, and goes on."""
    world.configure(**ASKING)
    cast = world.model.always = Cast(root=[delegating("a", "b")], a=[WRITE], b=[WRITE])
    async with world.host() as hf:
        session = await begin(hf)
        requests = await soon(hf, lambda: _two(hf, session))
        await hf.permissions.reply(session.id, request_id=requests[0].id, reply="reject")
        await hf.sessions.wait(requests[0].session_id)
        assert await hf.permissions.list(session.id) == [requests[1]]
        await hf.permissions.reply(session.id, request_id=requests[1].id, reply="once")
        await hf.sessions.wait(session.id)
        states = {part.state.status: part.state for part in tools_of((await _steps(hf, session))[0])}
        failed, completed = states["error"], states["completed"]
        assert isinstance(failed, ToolError)
        assert isinstance(completed, ToolCompleted)
        assert requests[0].session_id in failed.error.message
        assert "interrupted" in failed.error.message
        assert completed.structured["sessionID"] == requests[1].session_id
        assert len(cast.requests["root"]) == 2
        assert text_of(await newest(hf, session)) == "root done"


async def _two(hf: Holdfast, session: Session) -> list[PermissionRequest] | None:
    found = await hf.permissions.list(session.id)
    return found if len(found) == 2 else None


async def _nothing_waits(hf: Holdfast, session: Session) -> bool:
    return not await hf.permissions.list(session.id)


async def _says(hf: Holdfast, session: Session, text: str) -> bool:
    return text_of(await newest(hf, session)) == text


async def _steps(hf: Holdfast, session: Session) -> list[Any]:
    return [message for message in await hf.sessions.context(session.id) if message.type == "assistant"]


async def test_a_request_of_a_child_survives_a_restart(world: World) -> None:
    """API-542, SES-252: the same request, answerable at the root, and the tree goes on by itself."""
    three_deep(world, WRITE)
    async with world.host() as hf:
        session = await begin(hf)
        request = await permission(hf, session)
    async with world.host() as hf:
        assert await permission(hf, session) == request
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await soon(hf, lambda: _says(hf, session, "root done"))
        assert (world.project / "new.txt").read_text() == "x\n"
        assert await hf.permissions.list(session.id) == []


async def test_a_child_in_another_directory_is_answered_there(world: World) -> None:
    """API-541, API-542: what is saved for good is saved for the child's directory."""
    cast = three_deep(world)
    there = world.home / "there"
    there.mkdir()
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        deepest = await at_depth_three(hf)
        await hf.sessions.move(deepest.id, directory=str(there))
        cast.parts["c"] = [Turn(text="c done"), WRITE]
        await hf.sessions.prompt(deepest.id, prompt=PromptInput(text="more"))
        request = await permission(hf, session)
        assert (await hf.permissions.list_requests()).data == []
        assert (await hf.permissions.list_requests(location=Location(directory=str(there)))).data == [request]
        await hf.permissions.reply(session.id, request_id=request.id, reply="always")
        await hf.sessions.wait(deepest.id)
        assert (there / "new.txt").read_text() == "x\n"
        assert await hf.permissions.list_saved() == []
        (saved,) = await hf.permissions.list_saved(location=Location(directory=str(there)))
        assert saved.resource == "new.txt"


async def test_functions_for_a_session_answer_for_its_descendants(world: World) -> None:
    """API-545: the nearest first, the host's last; they see who asks."""
    three_deep(world, WRITE)
    order: list[str] = []
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def of_root(request: PermissionRequest) -> Any:
            order.append(f"root {request.ancestors is not None and request.ancestors[0] == session.id}")
            return "once"

        async def of_host(request: PermissionRequest) -> Any:
            order.append("host")

        async def of_parent(request: PermissionRequest) -> Any:
            order.append("parent")

        hf.on_permission(of_root, session=session)
        hf.on_permission(of_host)
        await ask(hf, session, "root")
        assert order == ["root True"]
        assert (world.project / "new.txt").exists()

        deepest = await at_depth_three(hf)
        hf.on_permission(of_parent, session=deepest.parent_id)
        asked = await hf.permissions.create(deepest.id, action="edit", resources=["other.txt"])
        assert asked.effect == "ask"
        await soon(hf, lambda: _nothing_waits(hf, session))
        assert order == ["root True", "parent", "root True"]


async def test_a_function_that_comes_later_finds_what_waits_below(world: World) -> None:
    """API-545."""
    three_deep(world, WRITE)
    async with world.host() as hf:
        session = await begin(hf)
        request = await permission(hf, session)
        assert request.ancestors is not None
        hf.on_permission(lambda request: "once", session=request.ancestors[1])
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (world.project / "new.txt").exists()


async def test_a_streamed_answer_yields_the_requests_of_descendants(world: World) -> None:
    """API-545: as pieces, to be answered by whoever reads them."""
    three_deep(world, WRITE)
    async with world.host() as hf:
        session = await hf.sessions.create()
        async for piece in hf.stream(session, "root"):
            match piece:
                case PermissionPiece(request=request):
                    assert request.session_id != session.id
                    await hf.permissions.reply(session.id, request_id=request.id, reply="once")
                case Done(answer=answer):
                    assert answer.message.text == "root done"
        assert (world.project / "new.txt").exists()


async def test_the_command_line_answers_for_children(holdfast: Machine, model: Model) -> None:
    """API-544: the person reads which Session asks."""
    model.always = Cast(root=[delegating("a")], a=[WRITE])
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": model.url, "apiKey": "sk-scripted"}}
    mock = {**provider, "models": {"m": {"tool_call": True}}}
    document = {"model": "mock/m", "provider": {"mock": mock}, "holdfast": {"titles": False}, **ASKING}
    folder = holdfast.home / "config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(document), encoding="utf-8")

    def sit() -> Ran:
        person = holdfast.at_terminal("run", "root")
        person.wait_for("the child session ses_")
        person.wait_for("permission to edit")
        person.wait_for("your answer:")
        person.type("y\n")
        return person.leave()

    ran = await asyncio.to_thread(sit)
    assert (ran.code, ran.out) == (0, "root done\n")
    assert (holdfast.project / "new.txt").exists()
