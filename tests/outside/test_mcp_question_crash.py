"""A call whose server asks a person, in a process that ends at every commit."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.session.support_day_crash import Camera
from tests.outside.mcp_world import known, servers
from tests.outside.scripted_provider import PATIENCE
from tests.outside.test_mcp_questions import NAME, NEW, OLD, ORDER, SIZE, Asking
from tests.outside.tree_script import Cast
from tests.outside.world import World, answers, tools_of

from holdfast import Holdfast, PromptInput
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.store("sqlite", reason="copies of the file at each sync"),
]

ASKED = [{"action": "shop_*", "resource": "*", "effect": "ask"}]


class ShopCamera(Camera):
    """Each picture also has what the server had been asked until then."""

    heard: Path

    def _take(self, wal: str, *, torn: bool) -> None:
        super()._take(wal, torn=torn)
        if self.pictures and self.heard.exists() and not (copy := self.pictures[-1] / "heard.jsonl").exists():
            shutil.copy(self.heard, copy)


@pytest.fixture
def camera(tmp_path: Path, synced_commits: None) -> Iterator[ShopCamera]:
    camera = ShopCamera(tmp_path / "pictures")
    yield camera
    camera.unregister()


async def to_the_end(hf: Holdfast, session_id: str) -> None:
    """As a person brings it to its end: allows the call, answers what is asked, goes on with what was left."""
    async with asyncio.timeout(PATIENCE):
        while await hf.sessions.pending(session_id) or await hf.sessions.active() or await hf.sessions.interrupted():
            for request in await hf.permissions.list(session_id):
                await hf.permissions.reply(session_id, request_id=request.id, reply="once")
            for form in await hf.forms.list(session_id):
                answer: dict[str, Any] = {"size": 7} if form.fields[0].key == "size" else {"name": "Ada"}
                await hf.forms.reply(session_id, form_id=form.id, answer=answer)
            for left in await hf.sessions.interrupted():
                if left.stage != "waiting" and not await hf.forms.list(session_id):
                    await hf.sessions.recover(left.session_id, decision="continue")
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_crash_at_every_commit(world: World, camera: ShopCamera, version: str) -> None:
    """MCP-255, MCP-256, MCP-257: the call is completed or told as interrupted. With 2026-07-28 the server is called
    once and acts once, wherever the process ended."""
    shop = Asking(world.home, version, [SIZE, NAME])
    servers(world, shop, permissions=ASKED)
    world.model.always = Cast(go=[ORDER])
    camera.heard = shop.folder / "heard.jsonl"
    async with world.host() as hf:
        await known(hf, shop)
        session = await hf.sessions.create()
        camera.on = True
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await to_the_end(hf, session.id)
        camera.on = False
    whole = [picture for picture in camera.pictures if picture.name.endswith("whole")]
    assert len(whole) > 6
    completed = 0
    for picture in whole:
        camera.heard.unlink(missing_ok=True)
        if (before := picture / "heard.jsonl").exists():
            shutil.copy(before, camera.heard)
        async with world.host(data=picture) as hf:
            await to_the_end(hf, session.id)
            (message, *_) = answers(await hf.sessions.context(session.id))
            states = [part.state for part in tools_of(message)]
            assert await hf.verify() == []
        assert all(isinstance(state, ToolCompleted | ToolError) for state in states), picture.name
        calls = [json.dumps(call, sort_keys=True) for call in shop.heard()]
        if any(isinstance(state, ToolCompleted) for state in states):
            completed += 1
            assert shop.acted >= 1
        if version == NEW:
            assert shop.acted <= 1, picture.name
            assert len(set(calls)) == len(calls), picture.name
    assert completed > len(whole) // 2
