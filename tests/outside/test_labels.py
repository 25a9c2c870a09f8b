"""Several servers on one store that have different things under one path: labels say which is which."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.test_left_behind import asked, client_of, end, in_turn, until

from holdfast import AsyncClient, Location, PromptInput
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.session import ForkThrough, Session

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
QUESTION = PromptInput(text="what is it?")


def place(machine: Machine, label: str | None = None) -> Location:
    return Location(directory=str(machine.project), workspace_id=None if label is None else f"wrk:{label}")


async def blocked(client: AsyncClient, session: Session) -> list[str]:
    return [wait.what for wait in await client.sessions.waits(session.id) if wait.kind == "blocked"]


async def json_of(machine: Machine, *arguments: str) -> Any:
    ran = await asyncio.to_thread(machine, *arguments, "--json")
    assert ran.code == 0, ran
    return json.loads(ran.out)


def use_places(machine: Machine, provider: Provider, *places: str, **settings: Any) -> None:
    """Each server asks for the model that its variable PLACE names, so that requests tell who sent them."""
    machine.use_provider(provider.url, models={place: {} for place in places}, settings=settings)
    path = machine.home / "config" / "opencode" / "opencode.json"
    path.write_text(path.read_text(encoding="utf-8").replace("mock/m", "mock/{env:PLACE}"), encoding="utf-8")
    in_turn(provider, Provider.answer)


def asked_from(provider: Provider) -> list[str]:
    return [body["model"] for body in asked(provider)]


async def until_asked_from(provider: Provider, *places: str) -> None:
    async def met() -> bool:
        return asked_from(provider) == [*places]

    await until(met)


async def test_a_session_is_executed_only_where_its_label_is(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-220, STO-221, STO-222: prompts to a server with another label go to the one that has the Session's; when that
    one is gone the Session waits, visibly, until one with the label starts."""
    use_places(holdfast, provider, "left", "right", "later")
    project = str(holdfast.project)
    left = serve("--root", f"team-a={project}", "--node-name", "left", PLACE="left")
    right = serve("--root", f"team-b={project}", "--node-name", "right", PLACE="right")
    async with client_of(left, holdfast) as client:
        session = await client.sessions.create(location=place(holdfast))
        assert session.location == place(holdfast, "team-a")
    async with client_of(right, holdfast) as client:
        own = await client.sessions.create(location=place(holdfast))
        assert own.location == place(holdfast, "team-b")
        await client.sessions.prompt(session.id, prompt=QUESTION)
        assert (await client.sessions.outcome(session.id)).type == "completed"
        assert asked_from(provider) == ["left"]

        end(left, signal.SIGKILL)
        await client.sessions.prompt(session.id, prompt=QUESTION)
        expected = f"No running node serves {project} with the label team-a. They serve: right team-b={project}."

        async def listed() -> list[str]:
            items = (await client.sessions.overview(open=True)).items
            waits = [wait.what for each in items if each.session.id == session.id for wait in each.waits]
            return [what for what in waits if expected in what]

        await until(listed)
        (what,) = await blocked(client, session)
        assert expected in what
        assert expected in json.dumps(await json_of(holdfast, "sessions", "waits", session.id))
        assert asked_from(provider) == ["left"]

        serve("--root", f"team-a={project}", PLACE="later")
        await until_asked_from(provider, "left", "later")
        assert (await client.sessions.outcome(session.id)).type == "completed"
        assert await blocked(client, session) == []


async def test_work_that_a_killed_server_left_waits_for_its_label(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-222: a server with another label does not go on with it."""
    use_places(holdfast, provider, "left", "right", "later", recovery="continue")
    in_turn(provider, provider.hang, Provider.answer)
    left = serve("--root", f"team-a={holdfast.project}", PLACE="left")
    right = serve("--root", str(holdfast.project), PLACE="right")
    async with client_of(left, holdfast) as client:
        session = await client.sessions.create(location=place(holdfast))
        await client.sessions.prompt(session.id, prompt=QUESTION)
        await until_asked_from(provider, "left")
    async with client_of(right, holdfast) as client:
        end(left, signal.SIGKILL)
        (what,) = await until(lambda: blocked(client, session))
        assert f"No running node serves {holdfast.project} with the label team-a." in what
        serve("--root", f"team-a={holdfast.project}", PLACE="later")
        await until_asked_from(provider, "left", "later")
        assert (await client.sessions.outcome(session.id)).type == "completed"


async def test_a_session_without_a_label_needs_a_root_without_one(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-222, STO-224: a server that has the directory with a label leaves it to others, until it serves the directory
    without a label too, or the Session is moved to where it is and so gets the label."""
    use_places(holdfast, provider, "plain", "labelled", "both")
    project = str(holdfast.project)
    plain = serve("--root", project, PLACE="plain")
    async with client_of(plain, holdfast) as client:
        first, second = [await client.sessions.create(location=place(holdfast)) for _ in range(2)]
        assert first.location == place(holdfast)
    end(plain, signal.SIGTERM)
    labelled = serve("--root", f"team-a={project}", PLACE="labelled")
    async with client_of(labelled, holdfast) as client:
        await client.sessions.prompt(first.id, prompt=QUESTION)
        (what,) = await until(lambda: blocked(client, first))
        assert f"No running node serves {project}. They serve: " in what
        assert f" team-a={project}." in what
        await client.sessions.move(second.id, directory=project)
        assert (await client.sessions.get(second.id)).location == place(holdfast, "team-a")
        await client.sessions.prompt(second.id, prompt=QUESTION)
        assert (await client.sessions.outcome(second.id)).type == "completed"
        assert asked_from(provider) == ["labelled"]
        serve("--root", project, "--root", f"team-a={project}", PLACE="both")
        await until_asked_from(provider, "labelled", "both")
        assert (await client.sessions.outcome(first.id)).type == "completed"


async def test_what_reads_files_is_refused_where_the_label_is_another(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-223: requests for a Location with another label, and for files of a Session that has one. Terminals are
    started where the label is."""
    use_places(holdfast, provider, "left", "right")
    left = serve("--root", f"team-a={holdfast.project}", PLACE="left")
    right = serve("--root", f"team-b={holdfast.project}", PLACE="right")
    expected = (
        f"does not serve {holdfast.project} with the label team-a; here its label is team-b. Ask a node that does"
    )
    async with client_of(left, holdfast) as here, client_of(right, holdfast) as there:
        session = await here.sessions.create(location=place(holdfast))
        await here.sessions.prompt(session.id, prompt=PromptInput(text="@hello.txt"), resolve=True)
        assert (await here.sessions.outcome(session.id)).type == "completed"
        (message, *_) = await there.sessions.context(session.id)
        mention = PromptInput(text="look at @hello.txt")
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: there.files.list(location=session.location),
            lambda: there.sessions.create(location=session.location),
            lambda: there.sessions.prompt(session.id, prompt=mention, resolve=True),
            lambda: there.sessions.move(session.id, directory=str(holdfast.project)),
            lambda: there.sessions.stage_revert(session.id, message_id=message.id),
        ]
        for attempt in attempts:
            with pytest.raises(HoldfastError, match=expected):
                await attempt()
        terminal = (await there.ptys.create(command="/bin/cat", location=session.location)).data
        assert terminal.id in [pty.id for pty in (await here.ptys.list(location=session.location)).data]
        assert (await there.ptys.get(terminal.id, location=session.location)).location.workspace_id == "wrk:team-a"
        await there.ptys.remove(terminal.id, location=session.location)
        assert [entry.path for entry in (await here.files.list(location=session.location)).data] == ["hello.txt"]
        assert (await there.files.list(location=place(holdfast))).location.workspace_id == "wrk:team-b"


async def test_a_label_outlives_its_server_and_goes_to_forks(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-220, STO-221: it is part of the Session: a fork has it, and rows that are made again from events have it. The
    configuration names it as the option does."""
    use_places(holdfast, provider, "left")
    left = serve("--root", f"team-a/disk1={holdfast.project}", PLACE="left")
    async with client_of(left, holdfast) as client:
        session = await client.sessions.create(location=place(holdfast))
        await client.sessions.prompt(session.id, prompt=QUESTION)
        assert (await client.sessions.outcome(session.id)).type == "completed"
        fork = await client.sessions.fork(session.id, boundary=ForkThrough())
        assert fork.location == place(holdfast, "team-a/disk1")
        listed = await client.sessions.list(workspace="wrk:team-a/disk1")
        assert {found.id for found in listed.items} == {session.id, fork.id}
    end(left, signal.SIGTERM)
    assert holdfast("doctor", "--rebuild").code == 0
    use_places(holdfast, provider, "left", storage={"roots": ["~/elsewhere", f"team-a/disk1={holdfast.project}"]})
    async with client_of(serve(PLACE="left"), holdfast) as client:
        assert (await client.sessions.get(session.id)).location == place(holdfast, "team-a/disk1")
        await client.sessions.prompt(session.id, prompt=QUESTION)
        assert (await client.sessions.outcome(session.id)).type == "completed"


@pytest.mark.parametrize(
    ("roots", "reason"),
    [
        (["=/srv"], "'' in '=/srv' is no label"),
        (["team a=/srv"], "'team a' in 'team a=/srv' is no label"),
        (["-a=/srv"], "is no label"),
        ([f"{'x' * 65}=/srv"], "is no label; expected up to 64 letters"),
        (["team-a=srv"], "'srv' is no absolute path"),
        (["team-a=/srv", "team-b=/srv/"], "/srv has two labels, team-a and team-b; a directory has one"),
        ([f"v{number}=/srv/{number}" for number in range(101)], "101 directories with a label; at most 100"),
    ],
)
def test_a_label_that_cannot_be_used_ends_the_start(holdfast: Machine, roots: list[str], reason: str) -> None:
    """STO-225: in options and in the configuration, with the reason."""
    ran = holdfast("serve", "--port", "0", *(text for root in roots for text in ("--root", root)))
    assert ran.code == 2
    assert reason in " ".join(ran.err.split())
    holdfast.configure_user(holdfast={"storage": {"roots": roots}})
    ran = holdfast("serve", "--port", "0")
    assert ran.code == 1
    assert "opencode.json: holdfast.storage.roots cannot be used" in ran.complaint
    assert reason in ran.complaint


@pytest.mark.store("postgres", reason="on a file every process is on the machine that has the directories")
async def test_a_machine_has_the_labels_of_its_configuration(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-220, STO-222: a process that does not serve has them too; a server without roots leaves labelled Sessions
    alone."""
    use_places(holdfast, provider, "left", "right")
    right = serve(PLACE="right")
    path = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["holdfast"]["storage"] = {"roots": [f"team-a={holdfast.project}"]}
    path.write_text(json.dumps(document), encoding="utf-8")
    ran = await asyncio.to_thread(holdfast, "run", "--standalone", "what is it?", PLACE="left")
    assert ran.code == 0, ran
    async with client_of(right, holdfast) as client:
        session = await client.sessions.get(ran.session)
        assert session.location == place(holdfast, "team-a")
        await client.sessions.prompt(session.id, prompt=QUESTION)
        (what,) = await until(lambda: blocked(client, session))
        assert f"No running node serves {holdfast.project} with the label team-a." in what
        assert asked_from(provider) == ["left"]
