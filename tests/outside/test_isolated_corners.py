"""Isolated subagents under attack: applied side by side, with odd repositories, odd files and lost copies."""

from __future__ import annotations

import pytest
from tests.outside.isolation import isolated, shell, states
from tests.outside.scripted_provider import Call, Turn
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast.schema.session_message import ToolCompleted

pytestmark = pytest.mark.anyio


async def test_two_children_that_changed_one_file_are_applied_side_by_side(world: World) -> None:
    """TOL-490: no change that was reported as applied is lost."""
    world.write("many.txt", "".join(f"{number}\n" for number in range(20)))
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("first"), isolated("last"))],
        first=[shell("sed -i s/^0$/first/ many.txt")],
        last=[shell("sed -i s/^19$/last/ many.txt")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        children = [state.structured["sessionID"] for state in await states(hf, session)]
        applying = Turn(calls=tuple(Call("apply_subagent", {"sessionID": child}) for child in children))
        cast.parts["root"] += [Turn(text="fine"), applying]
        await ask(hf, session, "apply both")
        ended = (await states(hf, session))[2:]
    lines = (world.project / "many.txt").read_text().splitlines()
    applied = [isinstance(state, ToolCompleted) for state in ended]
    assert [lines[0] == "first", lines[-1] == "last"] == applied
    assert True in applied
