"""What a child may do: what its own agent may, and no more than every ancestor."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import ApiError, Holdfast, PermissionRequest, PromptInput, Session

pytestmark = pytest.mark.anyio


def rule(effect: str, action: str, resource: str = "*") -> dict[str, str]:
    return {"action": action, "resource": resource, "effect": effect}


def primary(*rules: dict[str, str]) -> dict[str, Any]:
    return {"mode": "primary", "permissions": [rule("allow", "*"), *rules]}


WRITE = calling("write", path="new.txt", content="x\n")


def writing(world: World) -> Cast:
    """The root gives a task to `a`, that one to `b`, and `b` writes a file."""
    cast = Cast(root=[delegating("a")], a=[delegating("b")], b=[WRITE])
    world.model.always = cast
    return cast


async def waiting(hf: Holdfast, session: Session) -> PermissionRequest:
    """The request of a tree, once there is one."""
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while not (found := await hf.permissions.list(session.id)):
            await anext(live)
    return found[0]


async def test_a_denial_of_a_grandparent_holds_for_the_grandchild(world: World) -> None:
    """TOL-430, TOL-434: whatever the agents between them may do; the model reads whose rule it was."""
    world.configure(agents={"lead": primary(rule("deny", "edit", "*.txt"))})
    cast = writing(world)
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await ask(hf, session, "root")
    assert "Permission denied: edit new.txt" in cast.requests["b"][-1].results[-1]
    assert f"(the agent lead of Session {session.id} may not do it" in cast.requests["b"][-1].results[-1]
    assert not (world.project / "new.txt").exists()


async def test_what_an_ancestor_asks_for_is_asked_in_the_child(world: World) -> None:
    """TOL-430, TOL-433: once; a saved approval holds for the whole tree."""
    world.configure(agents={"lead": primary(rule("ask", "edit"))})
    cast = writing(world)
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        request = await waiting(hf, session)
        assert not (world.project / "new.txt").exists()
        await hf.permissions.reply(session.id, request_id=request.id, reply="always")
        await hf.sessions.wait(session.id)
        assert (world.project / "new.txt").read_text() == "x\n"
        cast.parts["again"] = [delegating("b")]
        await ask(hf, await hf.sessions.create(agent="lead"), "again")
    assert len(cast.requests["b"]) == 4


async def test_an_agent_that_is_switched_at_the_root_counts_at_once(world: World) -> None:
    """TOL-431: a child that is at work may not edit any more when its root goes to plan mode."""
    gate = asyncio.Event()
    cast = world.model.always = Cast(root=[delegating("a")], a=[Turn(calls=WRITE.calls, begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        await hf.sessions.switch_agent(session.id, agent="plan")
        gate.set()
        await hf.sessions.wait(session.id)
    assert f"(the agent plan of Session {session.id} may not do it" in cast.requests["a"][-1].results[-1]
    assert not (world.project / "new.txt").exists()


async def test_an_ancestor_whose_agent_is_gone_denies_everything(world: World) -> None:
    """TOL-432: the configuration is edited while the child works."""
    gate = asyncio.Event()
    world.configure(agents={"lead": primary()})
    cast = world.model.always = Cast(root=[delegating("a")], a=[WRITE, Turn(calls=WRITE.calls, begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        world.configure()
        await hf.config.reload()
        gate.set()
        await hf.sessions.wait(session.id)
    assert f"(the agent lead of Session {session.id} does not exist" in cast.requests["a"][-1].results[-1]


async def test_tools_and_skills_that_an_ancestor_denies_are_not_offered(world: World) -> None:
    """TOL-435: the model of the child does not hear of them."""
    world.write(".opencode/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up\n---\nTidy.\n")
    lead = primary(rule("deny", "webfetch"), rule("deny", "skill", "tidy"))
    world.configure(agents={"lead": lead})
    cast = writing(world)
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(agent="lead"), "root")
        for name in ("root", "a", "b"):
            request = cast.requests[name][0]
            assert "webfetch" not in request.tools
            assert "write" in request.tools
            assert "<name>tidy</name>" not in request.system
        cast.requests.clear()
        await ask(hf, await hf.sessions.create(), "root")
        for name in ("root", "a", "b"):
            assert "webfetch" in cast.requests[name][0].tools
            assert "<name>tidy</name>" in cast.requests[name][0].system


async def test_looking_does_not_show_what_an_ancestor_may_not_read(world: World) -> None:
    """TOL-436: `grep` of a child, and a skill that a person attaches to its prompt."""
    world.write(".opencode/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up\n---\nTidy.\n")
    world.write("secret/key.txt", "hello canary\n")
    world.configure(agents={"lead": primary(rule("deny", "read", "secret/*"), rule("deny", "skill", "tidy"))})
    cast = world.model.always = Cast(root=[delegating("a")], a=[calling("grep", pattern="hello")])
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await ask(hf, session, "root")
        (found,) = cast.requests["a"][-1].results
        assert "hello world" in found
        assert "canary" not in found
        (child,) = [item for item in (await hf.sessions.list()).items if item.parent_id == session.id]
        with pytest.raises(ApiError) as refused:
            await hf.sessions.skill(child.id, skill="tidy")
        assert refused.value.status == 400


async def test_a_child_elsewhere_has_the_fences_of_its_parents_location(world: World) -> None:
    """TOL-430: an agent of the same name that its own Location defines does not count."""
    world.configure(agents={"lead": primary()})
    world.write("opencode.json", '{"permission": {"edit": {"*.txt": "deny"}}}')
    there = world.home / "there"
    there.mkdir()
    cast = world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await ask(hf, session, "root")
        (child,) = [item for item in (await hf.sessions.list()).items if item.parent_id == session.id]
        await hf.sessions.move(child.id, directory=str(there))
        cast.parts["a"] = [Turn(text="a done"), WRITE]
        await ask(hf, child.id, "more")
    assert f"(the agent lead of Session {session.id} may not do it" in cast.requests["a"][-1].results[-1]
    assert not (there / "new.txt").exists()
