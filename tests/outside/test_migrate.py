"""Sessions move from a file to a server and back: what every client sees stays the same."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HOLDFAST, Machine, Server, invoke
from tests.outside import (
    test_budgets,
    test_compaction_story,
    test_delegation,
    test_forks,
    test_forms,
    test_inbox_operations,
    test_permission_story,
    test_revert_and_move_story,
    test_session_trees,
    test_shell_messages,
    test_structured_output,
    test_subagents,
)
from tests.outside.scripted_provider import calling
from tests.outside.test_docs import BLOCK
from tests.outside.test_forks import through
from tests.outside.test_left_behind import client_of, end, new_session, until
from tests.outside.world import World, ask
from tests.stores import stores
from tests.stores.stores import STORES

from holdfast import Holdfast, PromptInput
from holdfast.client.transport import Request
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Envelope

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("postgres", reason="moves between a file and a server of its own"),
]
Story = Callable[[World], Awaitable[None]]
STORIES: list[Story] = [
    test_forks.test_a_fork_goes_back_into_the_history_it_shares,
    test_forks.test_attachments_are_shared_and_outlive_the_source,
    test_budgets.test_the_usage_of_a_session_is_told,
    test_compaction_story.test_a_checkpoint_can_be_inspected_and_undone,
    test_subagents.test_several_tasks_run_side_by_side,
    test_delegation.test_a_model_looks_after_its_background_tasks,
    test_permission_story.test_a_model_asks_and_a_person_answers,
    test_forms.test_a_form_is_made_answered_and_read,
    test_inbox_operations.test_a_cancelled_input_stays_cancelled,
    test_revert_and_move_story.test_a_move_takes_the_session_and_its_context_along,
    test_session_trees.test_one_call_tells_the_whole_tree,
    test_shell_messages.test_a_command_becomes_a_message_that_the_model_reads_in_its_place,
    test_structured_output.test_an_answer_that_does_not_match_is_asked_for_again,
]
OF_A_SESSION = [
    endpoint.path
    for endpoint in API
    if endpoint.method == "GET"
    and endpoint.path.startswith("/api/session/{sessionID}")
    and endpoint.path.count("{") == 1
    and endpoint.envelope != Envelope.STREAM
]
"""Everything that can be asked about a Session by its id."""
LISTS = ("/api/session?limit=100", "/api/session?limit=100&order=asc", "/api/session/interrupted")


@pytest.fixture(autouse=True)
def _files_are_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests choose their stores themselves."""
    monkeypatch.setattr(stores, "on_postgres", lambda: False)


class Moving:
    """A world whose Sessions go from a file to a server and on to another file."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.server = STORES.pool.server.address(STORES.pool.new())
        self.back = world.home / "data2"
        for name in ("HOLDFAST_DATABASE", "HOLDFAST_DATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {**world.environment, "HOLDFAST_DATA": str(world.data)}.items():
            monkeypatch.setenv(name, value)

    def there(self) -> dict[str, Any]:
        return migrated("--to", self.server)

    def back_again(self) -> dict[str, Any]:
        return migrated("--from", self.server, "--to", f"sqlite://{self.back}/holdfast.db")

    def host(self, place: str, **options: Any) -> Holdfast:
        chosen: dict[str, dict[str, Any]]
        chosen = {"file": {}, "server": {"database": self.server}, "back": {"data": self.back}}
        return self.world.host(recover=False, **chosen[place], **options)


@pytest.fixture
def moving(world: World, monkeypatch: pytest.MonkeyPatch) -> Moving:
    return Moving(world, monkeypatch)


def migrated(*arguments: str) -> dict[str, Any]:
    ran = invoke("migrate", "--json", *arguments)
    assert ran.code == 0, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    return result


READ_AT = re.compile(rb'(?<="start":)[0-9]+,"end":[0-9]+')
"""Of a timeline: it ends when it is read."""


async def told(host: Holdfast) -> dict[str, bytes]:
    """All answers about all Sessions, and whether rows agree with events."""
    found: dict[str, bytes] = {}

    async def ask_for(target: str) -> bytes:
        response = await host._transport.send(Request("GET", target, {}, timeout=30))
        body = await response.read()
        if target.endswith("/timeline"):
            body = READ_AT.sub(b"", body, count=1)
        found[target] = b"%d " % response.status + body
        return found[target]

    listed = json.loads((await ask_for(LISTS[0])).partition(b" ")[2])
    for target in LISTS[1:]:
        await ask_for(target)
    ids = [session["id"] for session in listed["data"]]
    assert ids
    for id in ids:
        for path in OF_A_SESSION:
            await ask_for(path.replace("{sessionID}", id))
        await ask_for(f"/api/session?limit=100&parentID={id}")
        await ask_for(f"/api/session/{id}/history?limit=100")
    found["doctor"] = repr(await host.verify()).encode()
    return found


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__.removeprefix("test_"))
async def test_every_answer_is_the_same_after_a_story(story: Story, world: World, moving: Moving) -> None:
    """STO-160, STO-167, STO-169."""
    await story(world)
    async with moving.host("file") as host:
        before = await told(host)
    assert before["doctor"] == b"[]"
    done = moving.there()
    async with moving.host("server") as host:
        there = await told(host)
    assert there == before
    again = moving.back_again()
    async with moving.host("back") as host:
        back = await told(host)
    assert back == before
    assert (done["sessions"], done["events"]) == (again["sessions"], again["events"])


async def test_a_session_goes_on_at_its_new_place(world: World, moving: Moving) -> None:
    """STO-160, STO-168: with its history and its todos. A fork that was made before goes on, and one is made."""
    todos = [{"content": "a\0b", "status": "pending", "priority": "high"}]
    world.model.plays(calling("todowrite", todos=todos))
    async with moving.host("file") as host:
        session = await host.sessions.create()
        await host.sessions.put_instruction(session.id, key="branch", value="\uf8f1 \0 main")
        await ask(host, session, "note \0 this \uf8f1")
        forks = [await through(host, session)]
    moving.there()
    for place in ("server", "back"):
        if place == "back":
            moving.back_again()
        async with moving.host(place) as host:
            assert [entry.value for entry in await host.sessions.instructions(session.id)] == ["\uf8f1 \0 main"]
            assert [todo.content for todo in await host.sessions.todos(session.id)] == ["a\0b"]
            await ask(host, session, "and?")
            assert ("user", "note \0 this \uf8f1") in world.model.last.said
            forks.append(await through(host, session))
            for fork in forks:
                await ask(host, fork, "go on")
                assert ("user", "note \0 this \uf8f1") in world.model.last.said
            assert await host.verify() == []
            assert await host.rebuild() == 1 + len(forks)
            assert await host.verify() == []


async def test_open_questions_and_queued_input_wait_at_the_new_place(world: World, moving: Moving) -> None:
    """STO-172: the work of a process that ended is there, and an answer goes on with it."""
    world.configure(permission={"bash": "ask"})
    world.model.plays(calling("bash", command="echo hi > made.txt", description="d"))
    async with moving.host("file") as host:
        session = await host.sessions.create()
        await host.sessions.prompt(session.id, prompt=PromptInput(text="make it"))
        async with asyncio.timeout(30):
            await until(lambda: host.permissions.list(session.id))
        await host.sessions.prompt(session.id, prompt=PromptInput(text="then"), delivery="queue")
    async with moving.host("file") as host:
        before = await told(host)
    moving.there()
    async with moving.host("server") as host:
        assert await told(host) == before
        (asked,) = await host.permissions.list(session.id)
        await host.permissions.reply(session.id, request_id=asked.id, reply="once")
        async with asyncio.timeout(30):
            await host.sessions.wait(session.id)
        assert (world.project / "made.txt").read_text() == "hi\n"
        assert (await host.sessions.outcome(session.id)).type == "completed"
        assert await host.sessions.pending(session.id) == []


async def test_files_of_the_data_directory_stay(world: World, moving: Moving, tmp_path: Path) -> None:
    """STO-171: and are named."""
    async with moving.host("file") as host:
        await ask(host, await host.sessions.create(), "hello")
    (world.data / "credentials.json").write_text("{}")
    done = moving.there()
    assert "credentials.json" in done["files"]
    assert done["data"] == str(world.data)
    assert not any(name.startswith("holdfast.db") for name in done["files"])
    assert (world.data / "credentials.json").exists()


async def test_requests_of_callers_that_ended_are_gone_at_the_target(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """STO-172: nobody waits for an answer any more, so that none is asked for."""
    holdfast.configure_user(model="demo/echo", permission={"bash": "ask"})
    address = STORES.pool.server.address(STORES.pool.new())
    holdfast.environment["HOLDFAST_DATABASE"] = "sqlite"
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        sent = asyncio.ensure_future(client.sessions.shell(session_id, command="echo x > run.txt"))
        await until(lambda: client.permissions.list(session_id))
        await asyncio.to_thread(end, server, signal.SIGKILL)
        assert isinstance((await asyncio.gather(sent, return_exceptions=True))[0], Exception)
    moved = await asyncio.to_thread(holdfast, "migrate", "--to", address)
    assert moved.code == 0, moved.err
    async with client_of(serve(HOLDFAST_DATABASE=address), holdfast) as client:
        assert await client.permissions.list(session_id) == []
        assert await client.sessions.waits(session_id) == []


async def test_a_running_node_is_named_and_its_database_is_refused_afterwards(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """STO-162, STO-163: on PostgreSQL as for a file."""
    address = STORES.pool.server.address(STORES.pool.new())
    holdfast.environment["HOLDFAST_DATABASE"] = address
    assert (await asyncio.to_thread(holdfast, "run", "--model", "demo/echo", "hi")).code == 0
    server = serve("--node-name", "north")
    to = f"sqlite://{holdfast.home}/new/holdfast.db"
    refused = await asyncio.to_thread(holdfast, "migrate", "--to", to)
    assert f"is in use by the server north (process {server.process.pid}); stop it first" in refused.complaint
    await asyncio.to_thread(end, server, signal.SIGTERM)
    assert (await asyncio.to_thread(holdfast, "migrate", "--to", to)).code == 0
    for command in (("serve", "--port", "0"), ("sessions",)):
        ran = await asyncio.to_thread(holdfast, *command)
        assert ran.code == 1
        assert f"its Sessions were moved to {holdfast.home}/new/holdfast.db" in ran.complaint
    cancelled = await asyncio.to_thread(holdfast, "migrate", "--cancel")
    assert (cancelled.code, (await asyncio.to_thread(holdfast, "sessions")).code) == (0, 0)


def test_a_server_that_cannot_be_used_is_told(holdfast: Machine) -> None:
    """STO-175: a database that is not there, and a role that is not there; the source stays as it was."""
    holdfast.environment["HOLDFAST_DATABASE"] = "sqlite"
    assert holdfast("sessions").code == 0
    server = STORES.pool.server
    missing, stranger = server.address("nothing"), server.address("postgres", user="stranger")
    for address, reason in ((missing, 'database "nothing" does not exist'), (stranger, "stranger")):
        ran = holdfast("migrate", "--to", address)
        assert ran.code == 1
        assert reason in ran.complaint
    assert holdfast("sessions").code == 0


def test_the_commands_of_the_page_work_with_a_server(holdfast: Machine) -> None:
    """STO-160, STO-164: those that need one, in their order; what the page shows as output is left out."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "move-sessions.md").read_text(encoding="utf-8")
    address = STORES.pool.server.address(STORES.pool.new())
    holdfast.environment["PATH"] = f"{Path(HOLDFAST).parent}:{holdfast.environment['PATH']}"
    assert holdfast("run", "--model", "demo/echo", "hello", HOLDFAST_DATABASE="sqlite").code == 0
    blocks = [code for language, _, code in BLOCK.findall(page) if language == "text" and not code.startswith("moved")]
    assert len(blocks) == 4
    for block in blocks:
        code = block.replace("postgresql://holdfast@db.example/holdfast", f"'{address}'").replace(
            "/home/me", str(holdfast.home)
        )
        if code.startswith("holdfast migrate --cancel"):  # the copy is complete by now
            code = code.splitlines()[0]
        ran = subprocess.run(
            ["sh", "-e"],
            input=code,
            cwd=holdfast.project,
            env=holdfast.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, f"{code}\n{ran.stdout}\n{ran.stderr}"
