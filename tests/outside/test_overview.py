"""What all Sessions do, what waits for people, and the state of the server, as clients see it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask
from tests.stores.stores import on_postgres

from holdfast import ApiError, Budget, Conflict, Holdfast, Location, PromptInput, Session, connect
from holdfast.schema.form import GLOBAL, StringField
from holdfast.schema.overview import DoctorReport, OpenRequest, OverviewSession

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
COLOUR = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red", "description": "Red"}]}
FIELDS = (StringField(key="name", title="Your name"),)
USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 30}}


async def until(met: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := await met()):  # noqa: ASYNC110 - what another task records is read
            await asyncio.sleep(0.005)
    return found


async def begin(hf: Holdfast, text: str, **options: Any) -> Session:
    session = await hf.sessions.create(**options)
    await hf.sessions.rename(session.id, title=text)
    await hf.sessions.prompt(session.id, prompt=PromptInput(text=text))
    return session


async def open_work(hf: Holdfast, **chosen: Any) -> dict[str, OverviewSession]:
    """By title; a child has the title of its task."""
    return {told.session.title: told for told in (await hf.sessions.overview(open=True, **chosen)).items}


async def told_as(hf: Holdfast, title: str, state: str) -> OverviewSession:
    async def found() -> OverviewSession | None:
        told = (await open_work(hf)).get(title)
        return told if told is not None and told.state == state else None

    result: OverviewSession = await until(found)
    return result


async def requests(hf: Holdfast, *kinds: str) -> list[OpenRequest]:
    """Once there is one of each of these kinds, and no other."""

    async def found() -> list[OpenRequest] | None:
        listed = await hf.sessions.open_requests()
        return listed if sorted(request.kind for request in listed) == sorted(kinds) else None

    result: list[OpenRequest] = await until(found)
    return result


async def test_open_work_of_every_kind_is_told_with_what_it_waits_for(world: World) -> None:
    """WEB-300, WEB-301, WEB-306, WEB-308: and an idle Session is not among it."""
    world.configure(agent={"general": {"permission": {"bash": "ask"}}})
    end = asyncio.Event()
    world.model.always = Cast(
        runs=[Turn(text="so far", end=end)],
        asks=[calling("question", questions=[COLOUR])],
        tree=[delegating({"prompt": "middle", "description": "middle"})],
        middle=[delegating({"prompt": "deep", "description": "deep"})],
        deep=[calling("bash", command="ls", description="d")],
        pays=[calling("read", filePath="hello.txt"), calling("read", filePath="hello.txt")],
    )
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "idle")
        running = await begin(hf, "runs")
        tree, asking = await begin(hf, "tree"), await begin(hf, "asks")
        await begin(hf, "pays", budget=Budget(turns=1))
        form = await hf.sessions.create()
        await hf.sessions.rename(form.id, title="form")
        await hf.forms.create(form.id, title="Who are you?", fields=FIELDS)
        queued = await hf.sessions.create()
        await hf.sessions.rename(queued.id, title="queued")
        await hf.sessions.prompt(queued.id, prompt=PromptInput(text="later"), delivery="queue", resume=False)
        await told_as(hf, "pays", "waiting")
        await told_as(hf, "asks", "waiting")
        await until(lambda: hf.permissions.list(tree.id))
        await told_as(hf, "runs", "running")
        told = await open_work(hf)
        states = {title: (found.state, found.pending, found.requests) for title, found in told.items()}
        assert states == {
            "runs": ("running", 0, 0),
            "tree": ("waiting", 0, 1),
            "middle": ("waiting", 0, 1),
            "deep": ("waiting", 0, 1),
            "asks": ("waiting", 0, 1),
            "pays": ("waiting", 0, 0),
            "form": ("waiting", 0, 1),
            "queued": ("pending", 1, 0),
        }
        assert {told[title].root_id for title in ("tree", "middle", "deep")} == {tree.id}
        assert told["queued"].root_id == queued.id
        lines = {title: found.line or "" for title, found in told.items()}
        assert lines["tree"] == "subagent (general: middle), which waits for permission: bash ls"
        assert lines["deep"].startswith("permission: bash")
        assert lines["asks"] == "an answer: Which colour?"
        assert lines["form"] == "a form: Who are you?"
        assert lines["pays"].startswith("the budget of ")
        assert lines["queued"].startswith("a start: 1 ")
        assert lines["runs"] == "mock/m to finish its answer"
        assert told["tree"].waits[0].kind == "subagent"
        (node,) = (await hf.sessions.tree(form.id)).nodes
        assert (node.state, [wait.kind for wait in node.waits]) == ("waiting", ["form"])
        page = {item.session.id: item for item in (await hf.sessions.overview()).items}
        assert len(page) == 7  # without the children, with the idle one
        assert page[tree.id] == told["tree"]
        assert list(await open_work(hf, search="QUEUE")) == ["queued"]
        assert len(await open_work(hf, limit=2)) == 2
        await hf.sessions.archive(form.id)
        assert "form" in await open_work(hf)
        assert list(await open_work(hf, archived=True)) == ["form"]
        end.set()
        await hf.sessions.wait(running.id)
        await hf.sessions.interrupt(tree.id)
        await hf.sessions.interrupt(asking.id)
        assert sorted(await open_work(hf)) == ["form", "pays", "queued"]


async def test_an_idle_session_has_its_last_words_and_the_size_of_its_context(world: World) -> None:
    """WEB-306, WEB-307: one line; the limit is known where the Location is open, and no Location is opened for it."""
    world.configure(provider={"mock": world.provider(limit={"context": 5000, "output": 100})})
    world.model.plays(Turn(text=f"First\n\n  line {'x' * 300}", usage=USAGE))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        (told,) = (await hf.sessions.overview()).items
        assert told.line is not None
        assert told.line.startswith("First line xxx")
        assert len(told.line) == 200
        assert told.context is not None
        assert (told.context.used, told.context.limit) == (100, 5000)
        world.model.plays(calling("read", filePath="hello.txt"), Turn(text="", usage=USAGE))
        await ask(hf, session, "again")
        (told,) = (await hf.sessions.overview()).items
        assert told.line is not None
        assert told.line.startswith("First line xxx")
    other = world.home / "other"
    other.mkdir()
    async with world.host(directory=other) as hf:
        (told,) = (await hf.sessions.overview()).items
        assert told.context is not None
        assert (told.context.used, told.context.limit) == (100, None)
        assert (await hf.system.info()).locations == ()


async def test_pages_tell_every_session_once_while_sessions_change(world: World) -> None:
    """WEB-303, WEB-305: what changes moves to the front, and is found there; nothing is told twice, and what did not
    change is not left out."""
    async with world.host() as hf:
        sessions = [await hf.sessions.create() for _ in range(9)]
        await asyncio.sleep(0.002)  # what changes in the same millisecond is ordered by id
        first = await hf.sessions.overview(limit=3)
        ids = [told.session.id for told in first.items]
        assert ids == [session.id for session in sessions[:-4:-1]]
        await hf.sessions.rename(ids[1], title="told already")
        await asyncio.sleep(0.002)
        await hf.sessions.rename(sessions[0].id, title="not told yet")
        await asyncio.sleep(0.002)
        created = await hf.sessions.create()
        cursor, told = first.next, list(ids)
        while (page := await hf.sessions.overview(cursor=cursor)).items:
            assert len(page.items) <= 3
            told += [item.session.id for item in page.items]
            cursor = page.next
        assert told == [session.id for session in reversed(sessions[1:])]
        ahead = await hf.sessions.overview(cursor=first.previous)
        assert [item.session.id for item in ahead.items] == [created.id, sessions[0].id, ids[1]]
        assert {*told, *(item.session.id for item in ahead.items)} == {created.id, *(one.id for one in sessions)}
        newest = await hf.sessions.overview(limit=3)
        assert newest.items == ahead.items
        after = await hf.sessions.overview(cursor=newest.next)
        back = await hf.sessions.overview(cursor=after.previous)
        assert back.items == newest.items


async def test_a_cursor_that_was_edited_or_does_not_fit_is_refused(world: World) -> None:
    """WEB-305."""
    async with world.host() as hf:
        await hf.sessions.create()
        cursor = (await hf.sessions.overview()).next
        assert cursor is not None
        listed = (await hf.sessions.list()).next
        for given in ({"cursor": f"a{cursor}"}, {"cursor": cursor, "open": True}, {"cursor": listed}):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.overview(**given)
            assert refused.value.status == 400


TITLES = ("100% done", "100 done", "snake_case", "snakeXcase", "Grüße aus KÖLN", "a*b[c]\\d", "^up-down!", "plain")


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("100%", {"100% done"}),
        ("snake_", {"snake_case"}),
        ("DONE", {"100% done", "100 done"}),
        ("GRÜ", {"Grüße aus KÖLN"}),
        ("köln", {"Grüße aus KÖLN"}),
        ("*B[", {"a*b[c]\\d"}),
        ("]\\D", {"a*b[c]\\d"}),
        ("^U", {"^up-down!"}),
        ("P-D", {"^up-down!"}),
        ("n!", {"^up-down!"}),
        ("^p", set()),
        ("b.c", set()),
        ("nothing", set()),
    ],
)
async def test_a_search_takes_its_characters_as_they_are_and_letters_in_any_case(
    world: World, search: str, found: set[str]
) -> None:
    """WEB-304."""
    async with world.host() as hf:
        for title in TITLES:
            await hf.sessions.rename((await hf.sessions.create()).id, title=title)
        assert {told.session.title for told in (await hf.sessions.overview(search=search)).items} == found


async def test_directory_and_archived_choose_and_cursors_keep_it(world: World) -> None:
    """WEB-304, WEB-305: a search looks at directories too."""
    other = world.home / "Über"
    other.mkdir()
    async with world.host() as hf:
        here = [(await hf.sessions.create()).id for _ in range(3)]
        there = (await hf.sessions.create(location=Location(directory=str(other)))).id
        await hf.sessions.archive(here[0])
        assert await told(hf) == [there, here[2], here[1]]
        assert await told(hf, archived=True) == [here[0]]
        assert await told(hf, directory=str(other)) == [there]
        assert await told(hf, search="üBER") == [there]
        page = await hf.sessions.overview(directory=str(world.project), limit=1)
        rest = await hf.sessions.overview(cursor=page.next)
        assert [item.session.id for item in (*page.items, *rest.items)] == [here[2], here[1]]
        for refused in ("x" * 1001, "a\0b"):
            with pytest.raises(ApiError):
                await hf.sessions.overview(search=refused)


async def told(hf: Holdfast, **chosen: Any) -> list[str]:
    return [item.session.id for item in (await hf.sessions.overview(**chosen)).items]


async def test_requests_of_all_sessions_and_directories_are_listed_together(world: World) -> None:
    """WEB-310..312, WEB-314: oldest first, answered as before; the second answer is refused as before."""
    world.configure(agent={"general": {"permission": {"bash": "ask"}}})
    world.model.always = Cast(
        tree=[delegating({"prompt": "deep", "description": "deep"})],
        deep=[calling("bash", command="ls", description="d")],
        asks=[calling("question", questions=[COLOUR])],
    )
    other = world.home / "other"
    other.mkdir()
    async with world.host() as hf:
        tree = await begin(hf, "tree")
        await requests(hf, "permission")
        asking = await begin(hf, "asks", location=Location(directory=str(other)))
        await requests(hf, "permission", "question")
        await hf.forms.create(tree.id, title="Who?", fields=FIELDS)
        free = await hf.forms.create(GLOBAL, title="Anyone?", fields=FIELDS)
        permission, question, form, of_nobody = await requests(hf, "permission", "question", "form", "form")
        assert (permission.ancestors, permission.titles) == ((tree.id,), ("tree", "deep"))
        assert (permission.directory, permission.agent) == (str(world.project), "general")
        assert permission.permission is not None
        assert permission.permission.action == "bash"
        assert (question.session_id, question.directory, question.titles) == (asking.id, str(other), ("asks",))
        assert question.question is not None
        assert (form.session_id, form.ancestors) == (tree.id, ())
        assert (of_nobody.session_id, of_nobody.form) == (GLOBAL, free)
        assert [found.since for found in (permission, question, form, of_nobody)] == sorted(
            found.since for found in (permission, question, form, of_nobody)
        )
        assert {item.session.title: item.requests for item in (await hf.sessions.overview()).items} == {
            "tree": 2,
            "asks": 1,
        }
        await hf.permissions.reply(permission.session_id, request_id=permission.id, reply="once")
        with pytest.raises(ApiError) as second:
            await hf.permissions.reply(permission.session_id, request_id=permission.id, reply="reject")
        assert second.value.status == 404
        await hf.questions.reply(asking.id, request_id=question.id, answers=[["red"]])
        await hf.forms.cancel(GLOBAL, form_id=free.id)
        await hf.forms.reply(tree.id, form_id=form.id, answer={"name": "Ada"})
        with pytest.raises(ApiError):
            await hf.forms.reply(tree.id, form_id=form.id, answer={"name": "Bob"})
        assert await hf.sessions.open_requests() == []


async def test_a_killed_turn_waits_for_a_decision(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """WEB-313, WEB-320, WEB-322: what goes on by itself is not listed, and what waits for a budget is not either."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    provider.behave = provider.stall
    server = serve()
    async with asyncio.timeout(PATIENCE), connect(server.url, environment=holdfast.environment) as client:
        session = await client.sessions.create(location=Location(directory=str(holdfast.project)))
        await client.sessions.rename(session.id, title="broken")
        await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))

        async def answering() -> bool:
            return any(wait.kind == "provider" for wait in await client.sessions.waits(session.id))

        await until(answering)
        system = await client.system.info()
        (drain,) = system.drains
        assert (drain.session_id, drain.title, [wait.kind for wait in drain.waits]) == (
            session.id,
            "broken",
            ["provider"],
        )
        assert [(wait.session_id, wait.wait.kind) for wait in system.waits] == [(session.id, "provider")]
        here = system.processes[0]
        assert (here.state, here.serves, here.pid, here.sessions) == ("here", True, server.process.pid, 1)
        assert here.id == drain.owner_id
        assert await client.sessions.open_requests() == []
    server.process.send_signal(signal.SIGKILL)
    finish(server.process)
    provider.behave = Provider.answer
    async with asyncio.timeout(PATIENCE), connect(serve().url, environment=holdfast.environment) as client:

        async def decision() -> list[OpenRequest]:
            return await client.sessions.open_requests()

        (request,) = await until(decision)
        assert (request.kind, request.id, request.session_id) == ("recovery", session.id, session.id)
        assert (request.titles, request.directory) == (("broken",), str(holdfast.project))
        assert request.activity is not None
        assert request.activity.decision
        (told,) = (await client.sessions.overview(open=True)).items
        assert (told.state, told.requests, [wait.kind for wait in told.waits]) == ("unfinished", 1, ["recovery"])
        assert (await client.system.info()).drains == ()
        await client.sessions.recover(session.id, decision="continue")
        assert (await client.sessions.outcome(session.id)).type == "completed"
        assert await client.sessions.open_requests() == []


async def test_the_system_tells_its_store_and_its_process(world: World) -> None:
    """WEB-320, WEB-321, WEB-322: and no password."""
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
        await hf.sessions.create()
        system = await hf.system.info()
        store = system.store
        assert (store.sessions, store.outage) == (2, None)
        assert store.events > 5
        assert store.schema >= 1
        assert store.bytes is not None
        if on_postgres():
            assert (store.kind, store.log_bytes, store.free_bytes) == ("postgresql", None, None)
            assert store.name.startswith("postgresql://")
        else:
            assert (store.kind, store.name) == ("sqlite", str(world.data / "holdfast.db"))
            assert store.version.startswith("3.")
            assert store.log_bytes is not None
            assert store.free_bytes is not None
        (here,) = [process for process in system.processes if process.state == "here"]
        assert (here.pid, here.version) == (os.getpid(), system.version)
        assert system.started <= system.now
        assert system.locations == (str(world.project),)
        assert (system.drains, system.waits) == ((), ())


async def test_the_doctor_says_what_to_do_about_each_finding(world: World) -> None:
    """WEB-330."""
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
        report = await hf.system.doctor()
        assert (report.sessions, report.findings) == (1, ())
    world.configure(permission={"bahs": "deny"})
    async with world.host() as hf:
        (finding,) = (await hf.system.doctor()).findings
        assert finding.level == "warning"
        assert "no tool here asks for bahs" in finding.what
        assert finding.fix == f"write bash instead, in {world.user_folder / 'opencode.json'}"


async def test_one_check_at_a_time_and_none_without_its_caller(world: World) -> None:
    """WEB-331: when its caller has left, another may ask."""
    async with world.host() as hf:
        for _ in range(20):
            await hf.sessions.create()
        outcomes = await asyncio.gather(hf.system.doctor(), hf.system.doctor(), return_exceptions=True)
        report, refused = sorted(outcomes, key=lambda outcome: isinstance(outcome, Conflict))
        assert isinstance(report, DoctorReport)
        assert report.sessions == 20
        assert isinstance(refused, Conflict)
        assert refused.status == 409
        leaving = asyncio.create_task(hf.system.doctor())
        await asyncio.sleep(0.01)
        leaving.cancel()

        async def free() -> DoctorReport | None:
            try:
                return await hf.system.doctor()
            except Conflict:
                return None

        assert (await until(free)).sessions == 20
