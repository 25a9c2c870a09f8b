"""Which node executes a Session: a limit for each, directories that only some serve, and a node that drains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.core.conftest import MODEL, Pair, event_types, new_session, user_texts
from tests.core.runtime.test_takeover import quick as quick
from tests.core.runtime.test_takeover import serve, until_asked
from tests.core.runtime.test_tree_changes import child

from holdfast.core.runtime import execution
from holdfast.core.runtime.placement import ServedElsewhere
from holdfast.core.session.nodes import NodeInfo
from holdfast.core.session.ownership import Ownership
from holdfast.core.snapshot.copy_record import CopyFolder, CopyRecord
from holdfast.llm.offline import Call, Turn
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")


async def test_a_node_without_room_gives_the_session_to_one_that_has(pair: Pair) -> None:
    """STO-107: the second Session is executed by the other node, although nobody asked that one."""
    pair.a.placement.limit(most=1)
    await serve(pair.a, pair.b)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    second = await new_session(pair.a)
    await pair.a.sessions.prompt(second.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(second.id)
    gate.set()
    await pair.a.sessions.wait(pair.session.id)
    assert len(pair.model_a.requests) == 1
    assert (await event_types(pair.b, second.id))[-1] == "step.ended"


async def test_without_another_node_a_session_waits_for_room(pair: Pair) -> None:
    """STO-107: in its turn, visibly; an interruption ends the wait."""
    pair.a.placement.limit(most=1)
    await serve(pair.a)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    second, third = await new_session(pair.a), await new_session(pair.a)
    await pair.a.sessions.prompt(second.id, HELLO)
    await pair.a.sessions.prompt(third.id, HELLO)
    async with asyncio.timeout(5):
        while not (waits := await pair.a.sessions.waits(second.id)):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
    assert "this server executes" in waits[0].ends
    await pair.a.sessions.interrupt(third.id)
    gate.set()
    await pair.a.sessions.wait(second.id)
    assert len(pair.model_a.requests) == 2
    assert await pair.a.sessions.active() == []


async def test_children_need_no_room_of_their_own(pair: Pair) -> None:
    """STO-107: otherwise a parent would wait for a child that waits for the parent."""
    pair.a.placement.limit(most=1)
    below = await child(pair.a, pair.session, f"{pair.session.id}_1")
    await pair.a.sessions.switch_model(below.id, MODEL)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await pair.a.sessions.prompt(below.id, HELLO)
    await pair.a.sessions.wait(below.id)
    gate.set()
    await pair.a.sessions.wait(pair.session.id)


async def test_a_session_goes_to_a_node_that_serves_its_directory(pair: Pair, project: Path) -> None:
    """STO-109"""
    pair.a.placement.limit(roots=["/nowhere"])
    await pair.a.takeover.start(NodeInfo(name="a", roots=("/nowhere",)))
    await pair.b.takeover.start(NodeInfo(name="b", roots=(str(project),)))
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert pair.model_a.requests == []


async def test_a_session_whose_directory_nobody_serves_waits_for_a_node_that_does(pair: Pair, project: Path) -> None:
    """STO-109: visibly, and until such a node starts."""
    pair.a.placement.limit(roots=["/nowhere"])
    await pair.a.takeover.start(NodeInfo(name="a", roots=("/nowhere",)))
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await pair.a.sessions.wait(pair.session.id)
    (wait,) = [wait for wait in await pair.b.sessions.waits(pair.session.id) if wait.kind == "blocked"]
    assert f"No running node serves {project}" in wait.what
    await pair.b.takeover.start(NodeInfo(name="b", roots=(str(project),)))
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert await pair.b.sessions.waits(pair.session.id) == []


async def test_nodes_that_do_not_have_a_directory_do_not_pass_it_on_for_ever(pair: Pair, tmp_path: Path) -> None:
    """STO-109: each is asked once."""
    asked: list[str] = []

    async def ask(owner_id: str, session_id: str, kind: str) -> None:
        asked.append(kind)
        await Ownership.ask_node(owner, owner_id, session_id, kind)

    for host in (pair.a, pair.b):
        host.placement._shared = True
    owner = pair.a._ownership
    for host in (pair.a, pair.b):
        host._ownership.ask_node = ask  # type: ignore[method-assign]
    await serve(pair.a, pair.b)
    gone = tmp_path / "gone"
    gone.mkdir()
    session = await new_session(pair.a, location=Location(directory=str(gone)))
    gone.rmdir()
    await pair.a.sessions.prompt(session.id, HELLO)
    async with asyncio.timeout(5):
        while not await pair.a.store.blocked(session.id):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert asked == [f"take {pair.a.nodes.id}"]


async def test_a_node_that_drains_hands_over_between_two_turns(pair: Pair) -> None:
    """STO-108: the turn comes to its end, no request is broken off, and the other node takes the next one."""
    await serve(pair.a, pair.b)
    pair.model_a._turns[:] = [Turn(calls=(Call(tool="todowrite", input={"todos": []}),))]
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await pair.a.takeover.stop()
    draining = asyncio.create_task(pair.a.execution.drain(20))
    await asyncio.sleep(0)
    gate.set()
    await draining
    assert not pair.a.execution.is_executing
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert len(pair.model_a.requests) == len(pair.model_b.requests) == 1
    kinds = await event_types(pair.b, pair.session.id)
    assert "step.failed" not in kinds
    assert kinds[-1] == "step.ended"
    assert user_texts(pair.model_b.requests[0]) == ["hello"]


async def test_a_node_that_drains_admits_and_begins_nothing(pair: Pair) -> None:
    """STO-108: a prompt to it is executed by the other node."""
    await serve(pair.a, pair.b)
    pair.a.placement.draining = True
    await pair.a.takeover.stop()
    await pair.a.execution.drain(5)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert pair.model_a.requests == []


async def test_a_node_that_does_not_answer_keeps_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-107: it was asked, and is stopped. The Session is placed again, and executed where it was admitted."""
    monkeypatch.setattr(execution, "TAKEN_SECONDS", 0.05)
    pair.a.placement.limit(most=1)
    await serve(pair.a, pair.b)
    await pair.b.takeover._cancel()
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    second = await new_session(pair.a)
    await pair.a.sessions.prompt(second.id, HELLO)
    async with asyncio.timeout(5):
        while not pair.a.placement.awaits_room(second.id):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
    gate.set()
    await pair.a.sessions.wait(second.id)
    assert len(pair.model_a.requests) == 2
    assert pair.model_b.requests == []


async def test_a_node_that_is_idle_again_says_that_it_has_room(pair: Pair) -> None:
    """STO-107"""
    pair.a.placement.limit(most=1)
    await serve(pair.a)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await pair.a.nodes.report()
    assert [node.room for node in await pair.b.nodes.living()] == [0]
    gate.set()
    await pair.a.sessions.wait(pair.session.id)
    async with asyncio.timeout(5):
        while [node.room for node in await pair.b.nodes.living()] != [1]:  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)


async def test_the_node_that_made_a_copy_serves_it_whatever_its_roots(pair: Pair, tmp_path: Path) -> None:
    """STO-152: also if the copy was removed; a directory beside it is not served."""
    copies = pair.a.paths.data / "copies"
    folder = CopyFolder(copies)
    folder.create()
    folder.write(CopyRecord("ses_copied", source="/x", repository="/x/.git", trees="/y", state="removed"))
    pair.a.placement.limit(roots=[str(tmp_path / "elsewhere")])
    inside = str(folder.path / "ses_copied" / "src")
    assert pair.a.placement.serves(Location(directory=inside))
    assert not pair.a.placement.serves(Location(directory=str(folder.path / "ses_other")))


async def test_a_session_with_a_label_goes_to_a_node_that_has_the_label(pair: Pair, project: Path) -> None:
    """STO-222: a node that serves the same path without it does not execute the Session."""
    roots = {pair.a: (str(project),), pair.b: (f"team-a={project}",)}
    for host, name in ((pair.a, "a"), (pair.b, "b")):
        host.placement.limit(roots=roots[host])
        await host.takeover.start(NodeInfo(name=name, roots=roots[host]))
    session = await new_session(pair.b, location=pair.b.location)
    assert session.location == Location(directory=str(project), workspace_id="wrk:team-a")
    await pair.a.sessions.prompt(session.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(session.id)
    assert pair.model_a.requests == []


@pytest.mark.store("sqlite", reason="on a database server a process without roots leaves labelled Sessions alone")
async def test_on_one_machine_a_process_without_roots_executes_every_label(pair: Pair, project: Path) -> None:
    """STO-222: there a path is the same for all. It is also asked to, by a node with other roots."""
    pair.a.placement.limit(roots=["/nowhere"])
    await pair.a.takeover.start(NodeInfo(name="a", roots=("/nowhere",)))
    await serve(pair.b)
    session = await new_session(pair.b, location=Location(directory=str(project), workspace_id="wrk:team-a"))
    await pair.a.sessions.prompt(session.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(session.id)
    assert pair.model_a.requests == []


async def test_a_workspace_that_is_no_label_is_refused_where_directories_have_labels(pair: Pair, project: Path) -> None:
    """STO-223: no node would execute its Sessions; where a root without a label has the directory, they are."""
    foreign = Location(directory=str(project), workspace_id="wrk_01")
    pair.a.placement.limit(roots=[f"team-a={project}"])
    with pytest.raises(ServedElsewhere, match=f"does not serve {project}; here its label is team-a"):
        pair.a.placement.located(foreign)
    pair.a.placement.limit(roots=[f"team-a={project}", str(project)])
    assert pair.a.placement.located(foreign) == foreign


async def test_a_node_without_room_that_alone_serves_a_directory_takes_it_in_turn(
    pair: Pair, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-107, STO-109: the node that was asked for it leaves it there, however long that lasts, and is not blocked."""
    monkeypatch.setattr(execution, "TAKEN_SECONDS", 0.05)
    pair.a.placement.limit(roots=["/nowhere"])
    await pair.a.takeover.start(NodeInfo(name="a", roots=("/nowhere",)))
    pair.b.placement.limit(roots=[str(project)], most=1)
    await pair.b.takeover.start(NodeInfo(name="b", roots=(str(project),)))
    gate = pair.model_b.hold(0)
    await pair.b.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_b)
    await pair.b.nodes.report()
    assert [node.room for node in await pair.a.nodes.others()] == [0]
    second = await new_session(pair.a)
    await pair.a.sessions.prompt(second.id, HELLO)
    async with asyncio.timeout(30):
        while not pair.b.placement.awaits_room(second.id):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # long enough to be placed again a few times
    assert await pair.a.store.blocked(second.id) is None
    gate.set()
    await pair.b.sessions.wait(second.id)
    assert (len(pair.model_a.requests), len(pair.model_b.requests)) == (0, 2)
