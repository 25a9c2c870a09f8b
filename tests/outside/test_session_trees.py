"""Trees of Sessions as users see them: lists, one call for the whole tree, interruption, deletion, recovery."""

from __future__ import annotations

import asyncio

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.test_subagents import states
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest, text_of

from holdfast import ApiError, Budget, Holdfast, PromptInput, Session
from holdfast.schema.session import ForkThrough
from holdfast.schema.session_message import SyntheticMessage
from holdfast.schema.tree import TreeNode

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 30}}
ASK_BASH = {"permission": {"bash": "ask"}}


async def prompted(hf: Holdfast, text: str = "root") -> Session:
    session = await hf.sessions.create()
    await hf.sessions.prompt(session.id, prompt=PromptInput(text=text))
    return session


async def node_where(hf: Holdfast, session: Session, depth: int, state: str) -> TreeNode:
    async with asyncio.timeout(PATIENCE):
        while True:
            for node in (await hf.sessions.tree(session.id)).nodes:
                if (node.depth, node.state) == (depth, state):
                    return node
            await asyncio.sleep(0.005)


async def test_lists_tell_roots_from_children(world: World) -> None:
    """API-565: `parentID` takes an id, or `null` for roots, and cursors keep it."""
    world.model.always = Cast(root=[delegating("a", "b", "c")])
    async with world.host() as hf:
        session, other = await hf.sessions.create(), await hf.sessions.create()
        await ask(hf, session, "root")
        roots = (await hf.sessions.list(parent_id="null")).items
        assert [root.id for root in roots] == [other.id, session.id]
        assert [root.children for root in roots] == [None, 3]
        page = await hf.sessions.list(parent_id=session.id, limit=2)
        rest = await hf.sessions.list(cursor=page.next)
        children = [*page.items, *rest.items]
        assert len(page.items) == 2
        assert len({child.id for child in children}) == 3
        assert {child.parent_id for child in children} == {session.id}
        assert len((await hf.sessions.list()).items) == 5
        with pytest.raises(ApiError) as refused:
            await hf.sessions.list(parent_id="nobody")
        assert refused.value.status == 400


async def test_children_are_archived_with_their_root(world: World) -> None:
    """SES-406: lists of archived Sessions, and of others, take the children with their root."""
    world.model.always = Cast(root=[delegating("a")], a=[delegating("b")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await hf.sessions.archive(session.id)
        assert (await hf.sessions.list(archived=False)).items == []
        assert len((await hf.sessions.list(archived=True)).items) == 3
        await hf.sessions.archive(session.id, archived=False)
        assert len((await hf.sessions.list(archived=False)).items) == 3


async def test_one_call_tells_the_whole_tree(world: World) -> None:
    """API-566, SES-400: states, tasks, own usage and the sums, each Session before its children."""
    world.configure(agent={"general": ASK_BASH})
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "description": "first"}, {"prompt": "c", "agent": "explore"})],
        a=[delegating({"prompt": "b", "description": "second"})],
        c=[Turn(text="nothing", usage=USAGE)],
        b=[calling("bash", command="ls")],
    )
    async with world.host() as hf:
        session = await prompted(hf)
        below = await node_where(hf, session, 2, "waiting")
        await node_where(hf, session, 1, "idle")
        tree = await hf.sessions.tree(session.id)
        by_task = {node.task.description if node.task else "": node for node in tree.nodes}
        root, first, second, other = (by_task[name] for name in ("", "first", "second", "a task"))
        places = [node.id for node in tree.nodes]
        assert places.index(second.id) == places.index(first.id) + 1  # which of two children began first is open
        assert [(node.depth, node.agent or "", node.state) for node in (root, first, second, other)] == [
            (0, "", "waiting"),
            (1, "general", "waiting"),
            (2, "general", "waiting"),
            (1, "explore", "idle"),
        ]
        assert (tree.ancestors, tree.count) == ((), 4)
        assert second.id == below.id
        statuses = [node.task and node.task.status for node in (root, first, second, other)]
        assert statuses == [None, "running", "running", "completed"]
        assert root.total.sessions == 4
        assert [node.tokens.input for node in (root, first, second, other)] == [0, 0, 0, 70]
        assert [node.total.tokens.input for node in (root, first, second, other)] == [70, 0, 0, 70]
        assert root.total.tokens.cache.read == 30
        wait = first.waits[0]
        assert (wait.kind, wait.session_id) == ("subagent", second.id)
        assert wait.cause is not None
        assert (wait.cause.kind, wait.cause.session_id) == ("permission", second.id)
        assert "permission: bash" in root.waits[0].what
        part = await hf.sessions.tree(second.id)
        assert [ancestor.id for ancestor in part.ancestors] == [session.id, first.id]
        assert [node.id for node in part.nodes] == [second.id]
        cut = await hf.sessions.tree(session.id, limit=2)
        assert ([node.id for node in cut.nodes], cut.count) == ([places[0], cut.nodes[1].id], 4)
        assert cut.nodes[1].depth == 1
        assert cut.nodes[0].total == root.total
        await hf.sessions.interrupt(session.id)
        assert {node.state for node in (await hf.sessions.tree(session.id)).nodes} == {"idle"}
        ended = {node.id: node.task and node.task.status for node in (await hf.sessions.tree(session.id)).nodes}
        statuses = [ended[node.id] for node in (root, first, second, other)]
        assert statuses == [None, "cancelled", "cancelled", "completed"]


async def test_a_wait_names_the_child_and_the_cause(world: World) -> None:
    """SES-401: from the root down to the request of a person."""
    world.configure(agent={"general": ASK_BASH})
    world.model.always = Cast(
        root=[delegating("a")],
        a=[delegating({"prompt": "b", "description": "look"})],
        b=[calling("bash", command="ls")],
    )
    async with world.host() as hf:
        session = await prompted(hf)
        asker = await node_where(hf, session, 2, "waiting")
        (wait,) = [wait for wait in await hf.sessions.waits(session.id) if wait.kind == "subagent"]
        assert wait.session_id == asker.parent_id
        assert wait.cause is not None
        assert (wait.cause.kind, wait.cause.session_id) == ("permission", asker.id)
        assert f"subagent {asker.parent_id} (general: a task), which waits for permission: bash" in wait.what
        assert not [found for found in await hf.sessions.waits(session.id) if found.kind == "tool"]
        await hf.sessions.interrupt(session.id)


async def test_an_interruption_takes_background_children_on_request(world: World) -> None:
    """SES-402, API-568: everything below stops, and nobody is woken by what that brings."""
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True}), Turn(text="slow", end=asyncio.Event())],
        a=[delegating({"prompt": "b", "background": True}), Turn(text="slow", end=asyncio.Event())],
        b=[Turn(text="slow", end=asyncio.Event())],
    )
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(5)
        assert len(await hf.sessions.active()) == 3
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(session.id, background=True)
        assert await hf.sessions.active() == {}
        requests = len(world.model.requests)
        tree = await hf.sessions.tree(session.id)
        assert [node.task and node.task.status for node in tree.nodes] == [None, "cancelled", "cancelled"]
        (told,) = await hf.sessions.pending(session.id)
        assert "did not finish: it was interrupted" in told.prompt.text
        assert len(world.model.requests) == requests
        world.model.always = Cast()
        await ask(hf, session, "go on")
        assert any(isinstance(m, SyntheticMessage) for m in await hf.sessions.context(session.id))


async def test_a_deletion_takes_the_children_with_it(world: World) -> None:
    """SES-403, API-569: deepest first, after an interruption; forks of children stay."""
    world.model.always = Cast(
        root=[delegating("a", {"prompt": "c", "background": True}), Turn(text="slow", end=asyncio.Event())],
        a=[delegating("b")],
        c=[Turn(text="slow", end=asyncio.Event())],
    )
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(6)
        tree = await hf.sessions.tree(session.id)
        assert len(tree.nodes) == 4
        child = next(node for node in tree.nodes if node.task and node.task.status == "completed")
        fork = await hf.sessions.fork(child.id, boundary=ForkThrough())
        said = [message.id for message in await hf.sessions.context(fork.id)]
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.delete(session.id)
        assert [found.id for found in (await hf.sessions.list()).items] == [fork.id]
        assert [message.id for message in await hf.sessions.context(fork.id)] == said
        assert await hf.sessions.active() == {}
        assert await hf.verify() == []


async def test_a_deletion_may_keep_the_children(world: World) -> None:
    """SES-404, API-569: they have no parent any more, and go on."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True})],
        a=[delegating("b"), Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await world.model.asked(5)
        (_, child, grandchild) = (await hf.sessions.tree(session.id)).nodes
        await hf.sessions.delete(session.id, children="keep")
        kept = await hf.sessions.get(child.id)
        assert kept.parent_id is None
        assert (await hf.sessions.get(grandchild.id)).parent_id == child.id
        assert [root.id for root in (await hf.sessions.list(parent_id="null")).items] == [child.id]
        gate.set()
        await hf.sessions.wait(child.id)
        assert text_of(await newest(hf, kept)) == "found it"
        with pytest.raises(ApiError):
            await hf.sessions.get(session.id)


async def test_deleting_a_child_ends_the_call_of_its_parent(world: World) -> None:
    """SES-403: the parent hears of it and goes on."""
    world.model.always = Cast(root=[delegating("a")], a=[Turn(text="slow", end=asyncio.Event())])
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(2)
        child = await node_where(hf, session, 1, "running")
        await hf.sessions.delete(child.id)
        await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert state.status == "error"
        assert text_of(await newest(hf, session)) == "root done"


async def test_a_tree_that_waits_for_a_budget_says_so_and_can_be_stopped(world: World) -> None:
    """SES-400, SES-402: the child waits for the budget of the root, and an interruption ends that."""
    world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        child = await node_where(hf, session, 1, "waiting")
        (wait,) = child.waits
        assert (wait.kind, wait.id) == ("budget", session.id)
        assert "1 turns reserved" in wait.what
        (root, _) = (await hf.sessions.tree(session.id)).nodes
        assert root.state == "waiting"
        assert root.waits[0].cause is not None
        assert root.waits[0].cause.kind == "budget"
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(session.id, background=True)
        assert {node.state for node in (await hf.sessions.tree(session.id)).nodes} == {"idle"}
        assert len(world.model.requests) == 1
