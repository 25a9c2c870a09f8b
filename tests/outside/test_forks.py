"""Forks: a Session that begins with the conversation of another one, and goes its own way from there."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.cli.conftest import Machine
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.test_compaction_story import LONG, small
from tests.outside.test_permission_story import ASK, asked
from tests.outside.world import World, answer, ask, events, position, text_of, types, until

from holdfast import (
    ApiError,
    ForkBefore,
    ForkThrough,
    Holdfast,
    InvalidRequest,
    ModelRef,
    NotFound,
    PromptInput,
    Session,
)
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.prompt import FileInput
from holdfast.schema.session_message import CompactionMessage, UserMessage

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def talked(hf: Holdfast, *names: str) -> Session:
    session = await hf.sessions.create()
    for name in names:
        await ask(hf, session, name, id=f"msg_{name}")
    return session


async def shown(hf: Holdfast, session: Session | str) -> list[str]:
    """The ids of all messages of a Session, oldest first, read in small pages."""
    id = session if isinstance(session, str) else session.id
    page = await hf.sessions.messages(id, limit=3, order="asc")
    found: list[str] = []
    while page.items:
        found += [message.id for message in page.items]
        if page.next is None:
            break
        page = await hf.sessions.messages(id, cursor=page.next)
    backwards = [message.id for message in (await hf.sessions.messages(id, limit=200)).items]
    assert backwards[::-1] == found
    return found


async def through(hf: Holdfast, session: Session) -> Session:
    return await hf.sessions.fork(session.id, boundary=ForkThrough())


async def before(hf: Holdfast, session: Session, message_id: str) -> Session:
    return await hf.sessions.fork(session.id, boundary=ForkBefore(message_id=message_id))


async def test_a_fork_shares_the_messages_and_goes_its_own_way(world: World) -> None:
    """SES-029, SES-317, SES-319, SES-320, SES-321, API-496: the same messages under the same ids; a record of where it
    came from; nothing used and nothing to do yet; from then on two conversations."""
    async with world.host() as hf:
        session = await talked(hf, "one", "two")
        await hf.sessions.rename(session.id, title="Work")
        shared = await shown(hf, session)
        fork = await through(hf, session)
        assert await shown(hf, fork) == shared
        for id in (fork.id, session.id):
            assert (await hf.sessions.message(id, message_id="msg_one")).id == "msg_one"
        assert fork.fork is not None
        assert (fork.fork.session_id, fork.fork.root_id) == (session.id, session.id)
        assert (fork.fork.boundary.type, fork.fork.boundary.message_id) == ("through", shared[-1])
        assert (fork.title, fork.parent_id, fork.cost, fork.tokens.input) == ("Work (fork #1)", None, 0, 0)
        assert fork.location == session.location
        assert (await through(hf, fork)).title == "Work (fork #2)"
        assert fork in (await hf.sessions.list()).items

        outcome = await hf.sessions.outcome(fork.id)
        assert (outcome.type, outcome.message_id, outcome.pending) == ("idle", None, 0)
        assert await events(hf, fork) == []

        await ask(hf, fork, "left")
        await ask(hf, session, "right")
        assert [text for role, text in world.model.requests[-2].said if role == "user"] == ["one", "two", "left"]
        assert [text for role, text in world.model.requests[-1].said if role == "user"] == ["one", "two", "right"]
        assert (await shown(hf, fork))[: len(shared)] == (await shown(hf, session))[: len(shared)] == shared
        assert min(position(event) for event in await events(hf, fork)) > fork.fork.through_seq
        assert (await hf.sessions.outcome(fork.id)).type == "completed"
        assert await hf.verify() == []


async def test_a_fork_before_a_message_ends_there(world: World) -> None:
    """SES-317, SES-319: before the first message it is empty; an unnamed Session has an unnamed fork, which is named
    after its own exchange."""
    async with world.host() as hf:
        session = await talked(hf, "one", "two", "three")
        shared = await shown(hf, session)
        fork = await before(hf, session, "msg_two")
        assert await shown(hf, fork) == shared[:2]
        assert fork.fork is not None
        assert (fork.fork.boundary.type, fork.fork.boundary.message_id) == ("before", "msg_two")
        assert fork.title.startswith("New session - ")
        assert text_of(await answer(hf, fork, "other")) == "done"
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "other"]
        empty = await before(hf, session, "msg_one")
        assert await shown(hf, empty) == []
        assert text_of(await answer(hf, empty, "first")) == "done"
        assert [text for role, text in world.model.last.said if role == "user"] == ["first"]
        with pytest.raises(InvalidRequest):
            await through(hf, await before(hf, session, "msg_one"))


async def test_what_cannot_be_forked_is_refused(world: World) -> None:
    """SES-317, API-496: unknown and foreign messages and Sessions are not found; without messages there is nothing to
    share; a boundary has one of two forms."""
    async with world.host() as hf:
        session, other = await talked(hf, "one"), await talked(hf, "two")
        for message_id in ("msg_unknown", "msg_two"):
            with pytest.raises(NotFound) as missing:
                await before(hf, session, message_id)
            assert missing.value.code == "MessageNotFoundError"
        with pytest.raises(NotFound) as unknown:
            await hf.sessions.fork("ses_unknown", boundary=ForkThrough())
        assert unknown.value.code == "SessionNotFoundError"
        with pytest.raises(InvalidRequest) as empty:
            await through(hf, await hf.sessions.create())
        assert (empty.value.kind, empty.value.field) == ("empty_session", "boundary")
        for boundary in ({"type": "after"}, {"type": "before"}, {"type": "before", "messageID": "x"}, None):
            with pytest.raises(InvalidRequest):
                await hf.sessions.fork(session.id, boundary=boundary)  # type: ignore[arg-type]
        fork = await before(hf, other, "msg_two")
        with pytest.raises(NotFound):
            await before(hf, fork, "msg_two")


@pytest.mark.parametrize("npm", ["@ai-sdk/openai-compatible", "@ai-sdk/openai"])
async def test_the_first_request_of_a_fork_begins_with_the_bytes_of_its_source(world: World, npm: str) -> None:
    """SES-322, CTX-112, LLM-384: after tools and a change of the context; also for a fork of a fork whose source is
    gone. The cache key is that of the first Session; the header still names the fork."""
    world.write("AGENTS.md", "Be brief.\n")
    world.configure(provider={"mock": world.provider(npm)})
    world.model.plays(calling("read", path="hello.txt"))
    async with world.host() as hf:
        session = await talked(hf, "one")
        world.write("AGENTS.md", "Be very brief.\n")
        await ask(hf, session, "two")
        parent = world.model.last
        fork = await through(hf, session)
        await ask(hf, fork, "three")
        child = world.model.last
        second = await through(hf, fork)
        await hf.sessions.delete(fork.id)
        await ask(hf, second, "four")
        grandchild = world.model.last
        for shorter, longer in ((parent, child), (child, grandchild)):
            assert longer.raw.startswith(shorter.raw.rstrip(b'"}]'))
        assert parent.body.get("prompt_cache_key") == grandchild.body.get("prompt_cache_key")
        assert child.headers["x-session-affinity"] == grandchild.headers["x-session-affinity"] == session.id
        assert (child.headers["x-session-id"], grandchild.headers["x-session-id"]) == (fork.id, second.id)
        context = await hf.sessions.request_context(second.id)
        assert isinstance(context, RequestContextInfo)
        assert context.prefix_breaks == ()
        await hf.sessions.generate(second.id, prompt="And in one word?")
    assert world.model.last.body.get("prompt_cache_key") == parent.body.get("prompt_cache_key")


async def test_a_fork_from_before_a_change_of_the_context_is_told_of_it(world: World) -> None:
    """CTX-112, SES-322: the baseline stays; what the model was told after the boundary, the fork is told again."""
    world.write("AGENTS.md", "Be brief.\n")
    async with world.host() as hf:
        session = await talked(hf, "one")
        first = world.model.last
        world.write("AGENTS.md", "Write in verse.\n")
        await ask(hf, session, "two", id="msg_two")
        assert "Write in verse." in str(world.model.last.messages)
        fork = await before(hf, session, "msg_two")
        await ask(hf, fork, "other")
        request = world.model.last
        assert request.raw.startswith(first.raw.rstrip(b'"}]'))
        assert "Write in verse." in str(request.body["messages"][1:])
        await ask(hf, fork, "again")
        assert str(world.model.last.body["messages"]).count("Write in verse.") == 1


async def test_a_fork_during_a_turn_ends_before_the_unfinished_answer(world: World) -> None:
    """SES-318, SES-321: never half an answer and no running call; the source works on undisturbed."""
    end = asyncio.Event()
    world.model.plays(calling("read", path="hello.txt"), Turn(text="slow", end=end))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, id="msg_one", prompt=PromptInput(text="one"))
        await until(hf, session, lambda event: event.type.endswith("text.started"))
        fork = await through(hf, session)
        messages = (await hf.sessions.messages(fork.id, order="asc")).items
        assert messages[0].id == "msg_one"
        assert len(messages) == 2
        assert fork.fork is not None
        assert (fork.fork.boundary.type, fork.fork.boundary.message_id) == ("through", messages[-1].id)
        assert (await hf.sessions.outcome(fork.id)).type == "idle"
        end.set()
        await hf.sessions.wait(session.id)
        assert await shown(hf, fork) == [message.id for message in messages]
        await ask(hf, fork, "two")
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two"]
        assert await hf.verify() == []


async def test_a_call_that_waits_for_a_person_is_not_shared(world: World) -> None:
    """SES-318, SES-319: the request stays with the source."""
    world.configure(permissions=ASK)
    world.model.plays(Turn(calls=(Call("write", {"path": "a.txt", "content": "a"}),)))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, id="msg_one", prompt=PromptInput(text="one"))
        (request,) = await asked(hf, session)
        fork = await through(hf, session)
        assert await shown(hf, fork) == ["msg_one"]
        assert await hf.permissions.list(fork.id) == []
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        assert await shown(hf, fork) == ["msg_one"]


async def test_a_staged_revert_ends_a_fork_of_everything(world: World) -> None:
    """SES-318, SES-319: the fork is of what the next prompt would see, and has no revert of its own."""
    async with world.host() as hf:
        session = await talked(hf, "one", "two", "three")
        shared = await shown(hf, session)
        await hf.sessions.stage_revert(session.id, message_id="msg_two")
        fork = await through(hf, session)
        assert await shown(hf, fork) == shared[:3]
        assert fork.revert is None
        assert await shown(hf, await before(hf, session, "msg_three")) == shared[:4]


async def test_nothing_that_happens_to_the_source_shows_in_the_fork(world: World) -> None:
    """SES-323, SES-325, SES-327, SES-328: reverted, compacted, deleted; rebuilt in between. A reverted id
    stays spent while the fork shows it; the messages go with the last fork."""
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, "one", "two", "three")
        shared = await shown(hf, session)
        fork = await through(hf, session)
        await hf.sessions.stage_revert(session.id, message_id="msg_one")
        await hf.sessions.commit_revert(session.id)
        assert await shown(hf, session) == ["msg_one"]
        for message_id in shared[1:]:
            with pytest.raises(NotFound):
                await hf.sessions.message(session.id, message_id=message_id)
        assert await shown(hf, fork) == shared
        with pytest.raises(ApiError):
            await hf.sessions.prompt(session.id, id="msg_two", prompt=PromptInput(text="two"))
        await ask(hf, session, LONG)
        await ask(hf, session, "four")
        await hf.sessions.compact(session.id)
        assert await shown(hf, fork) == shared
        second = await before(hf, fork, "msg_three")
        assert await hf.verify() == []
        await hf.sessions.delete(session.id)
        with pytest.raises(NotFound):
            await hf.sessions.get(session.id)
        assert session.id not in {found.id for found in (await hf.sessions.list()).items}
        with pytest.raises(ApiError):
            await hf.sessions.create(id=session.id)
        for _ in range(2):
            assert await shown(hf, fork) == shared
            assert await shown(hf, second) == shared[:4]
            assert await hf.verify() == []
            assert await hf.rebuild() == 3
        await ask(hf, fork, "five")
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two", "three", "five"]
        await hf.sessions.delete(fork.id)
        assert await shown(hf, second) == shared[:4]
        await hf.sessions.delete(second.id)
        assert await hf.verify() == []


async def test_a_fork_goes_back_into_the_history_it_shares(world: World) -> None:
    """SES-324, SES-327: a revert to a shared message, and a shared checkpoint that is undone; the source keeps both."""
    small(world, context=100_000)
    async with world.host() as hf:
        session = await talked(hf, "one", "two")
        await ask(hf, session, LONG)
        await hf.sessions.compact(session.id)
        shared = await shown(hf, session)
        fork = await through(hf, session)
        await hf.sessions.undo_compaction(fork.id)
        assert await shown(hf, fork) == shared[:-1]
        assert isinstance((await hf.sessions.context(session.id))[0], CompactionMessage)
        assert not isinstance((await hf.sessions.context(fork.id))[0], CompactionMessage)
        await ask(hf, fork, "three")
        await hf.sessions.stage_revert(fork.id, message_id="msg_one")
        await ask(hf, fork, "other")
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "other"]
        assert (await shown(hf, fork))[0] == "msg_one"
        assert len(await shown(hf, fork)) == 3
        assert await shown(hf, session) == shared
        assert await hf.verify() == []
        kept = await shown(hf, fork)
        await hf.rebuild()
        assert (await shown(hf, fork), await shown(hf, session)) == (kept, shared)


async def test_attachments_are_shared_and_outlive_the_source(world: World) -> None:
    """SES-325, SES-029: the fork sends the stored bytes, also when Session and file are gone."""
    file = world.write("notes.txt", "REMEMBER THIS\n")
    world.configure(provider={"mock": world.provider(modalities={"input": ["text", "image"], "output": ["text"]})})
    async with world.host() as hf:
        session = await hf.sessions.create()
        data = f"data:image/png;base64,{PIXEL}"
        files = (FileInput(uri=file.as_uri()), FileInput(uri=data))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="see", files=files))
        await hf.sessions.wait(session.id)
        parent = world.model.last
        fork = await through(hf, session)
        await hf.sessions.delete(session.id)
        file.unlink()
        await ask(hf, fork, "again")
        assert world.model.last.raw.startswith(parent.raw.rstrip(b'"}]'))
        assert b"REMEMBER THIS" in world.model.last.raw
        assert PIXEL.encode() in world.model.last.raw
        assert await hf.verify() == []


async def test_the_options_of_a_shared_prompt_apply_in_the_fork(world: World) -> None:
    """SES-206, SES-291: to the answer that the fork gives in place of the source's, and to a synthetic input after it,
    until the fork has a prompt of its own. The source may be gone."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, id="msg_a", text="go", system="Be brief.", tools={"*": False})
        await hf.sessions.wait(session.id)
        reply = (await hf.sessions.messages(session.id)).items[0]
        fork = await hf.sessions.fork(session.id, boundary=ForkBefore(message_id=reply.id))
        await hf.sessions.delete(session.id)
        await hf.sessions.run(fork.id)
        first = world.model.last
        await hf.sessions.synthetic(fork.id, text="more")
        await hf.sessions.wait(fork.id)
        second = world.model.last
        await ask(hf, fork, "next")
    briefly = [("Be brief." in str(request.body), request.tools == []) for request in (first, second)]
    assert briefly == [(True, True)] * 2
    assert "Be brief." not in str(world.model.last.body)


async def test_instruction_entries_stay_with_their_session(world: World) -> None:
    """SES-319, CTX-219: the model of the fork is told to disregard what it knows of them."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.put_instruction(session.id, key="branch", value="main")
        await ask(hf, session, "one")
        fork = await through(hf, session)
        await ask(hf, fork, "two")
        assert await hf.sessions.instructions(fork.id) == []
        assert "The instruction entry `branch` was removed." in str(world.model.last.body["messages"][1:])
        await ask(hf, session, "three")
    assert "was removed" not in str(world.model.last.body)


async def test_the_todo_list_comes_along_unless_it_was_replaced_later(world: World) -> None:
    """SES-319"""
    todos = [{"content": "write tests", "status": "pending", "priority": "high"}]
    world.model.plays(calling("todowrite", todos=todos))
    async with world.host() as hf:
        session = await talked(hf, "one", "two")
        listed = await hf.sessions.todos(session.id)
        assert [todo.content for todo in listed] == ["write tests"]
        assert await hf.sessions.todos((await through(hf, session)).id) == listed
        assert await hf.sessions.todos((await before(hf, session, "msg_two")).id) == listed
        assert await hf.sessions.todos((await before(hf, session, "msg_one")).id) == []
        assert await hf.verify() == []


async def test_two_hundred_forks_of_forks(world: World) -> None:
    """SES-326: each adds a message of its own; the last one shows all of them, also when all others are gone."""
    async with world.host() as hf:
        current = await talked(hf, "one")
        chain = [current]
        for number in range(200):
            current = await through(hf, current)
            chain.append(current)
            if number % 20 == 0:
                await ask(hf, current, f"step {number}")
        users = [
            message.text
            for message in (await hf.sessions.messages(current.id, limit=200, order="asc")).items
            if isinstance(message, UserMessage)
        ]
        assert users == ["one", *(f"step {number}" for number in range(0, 200, 20))]
        assert current.fork is not None
        assert current.fork.root_id == chain[0].id
        everything = await shown(hf, current)
        for session in chain[:-1]:
            await hf.sessions.delete(session.id)
        assert await shown(hf, current) == everything
        await ask(hf, current, "last")
        assert [text for role, text in world.model.last.said if role == "user"] == [*users, "last"]


async def test_a_moved_or_archived_source_leaves_the_fork_where_it_is(world: World) -> None:
    """SES-323"""
    world.repository()
    (world.project / "sub").mkdir()
    async with world.host() as hf:
        session = await talked(hf, "one")
        fork = await through(hf, session)
        await hf.sessions.move(session.id, directory=str(world.project / "sub"))
        await hf.sessions.archive(session.id)
        found = await hf.sessions.get(fork.id)
        assert (found.location.directory, found.time.archived) == (str(world.project), None)
        moved = await through(hf, session)
        assert moved.location.directory == str(world.project / "sub")
        assert moved.time.archived is None
        await ask(hf, moved, "two")
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two"]
        assert "prompted" in await types(hf, moved)


async def test_another_process_forks_what_this_one_works_on(world: World) -> None:
    """SES-318, SES-323: two hosts on one database; both Sessions go on, each in its own process."""
    end = asyncio.Event()
    world.model.plays(Turn(text="first"), Turn(text="slow", end=end))
    async with world.host() as one, world.host() as two:
        session = await talked(one, "one")
        await one.sessions.prompt(session.id, id="msg_two", prompt=PromptInput(text="two"))
        await until(one, session, lambda event: event.type.endswith("text.started") and position(event) > 9)
        fork = await through(two, session)
        shared = await shown(two, fork)
        assert shared[-1] == "msg_two"
        await ask(two, fork, "three")
        assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two", "three"]
        end.set()
        await one.sessions.wait(session.id)
        assert (await shown(one, fork))[: len(shared)] == shared
        assert (await shown(two, session))[: len(shared)] == shared
        assert await two.verify() == []


def test_the_command_line_forks_and_shows_where_a_session_comes_from(holdfast: Machine) -> None:
    """API-497, SES-320"""

    async def begin() -> Session:
        async with holdfast.host() as hf:
            session = await hf.sessions.create(model=ModelRef(id="echo", provider_id="demo"))
            await ask(hf, session, "one", id="msg_one")
            return session

    source = asyncio.run(begin()).id
    made = holdfast("sessions", "fork", source)
    assert made.code == 0
    fork = made.out.strip()
    lines = holdfast("sessions").out.splitlines()
    assert lines[0].split()[-2:] == ["FORK", "OF"]
    assert next(line for line in lines if line.startswith(fork)).split()[-1] == source
    assert f"fork of    {source}, through msg_" in holdfast("sessions", "show", fork).out
    empty = json.loads(holdfast("sessions", "fork", source, "--before", "msg_one", "--json").out)
    assert empty["fork"]["boundary"] == {"type": "before", "messageID": "msg_one"}
    refused = holdfast("sessions", "fork", source, "--before", "msg_unknown")
    assert refused.code == 1
    assert "msg_unknown" in refused.err
