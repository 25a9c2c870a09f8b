"""Questions of servers that are written with the official package, answered after a restart."""

from __future__ import annotations

import pytest
from tests.mcp.interop.conftest import ports
from tests.outside.scripted_provider import calling
from tests.outside.test_mcp_questions import forms
from tests.outside.world import World, newest, result_of, text_of

from holdfast import PromptInput

__all__ = ["ports"]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("way", "version"), [("streamable", "2026-07-28"), ("sse", "2025-11-25")])
async def test_a_question_is_answered_after_a_restart(
    world: World, ports: dict[str, int], way: str, version: str
) -> None:
    """MCP-250, MCP-255, MCP-256"""
    url = f"http://127.0.0.1:{ports[way]}/{'sse' if way == 'sse' else 'mcp'}"
    allowed = [{"action": "official_*", "resource": "*", "effect": "allow"}]
    world.configure(mcp={"servers": {"official": {"type": "remote", "url": url, "oauth": False}}}, permissions=allowed)
    async with world.host() as hf:
        await hf.mcp.connect("official")
        assert (await hf.mcp.list()).data[0].version == version
        session = await hf.sessions.create()
        world.model.plays(calling("mcp_call", tool="official_greet_person", arguments={}))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        (form,) = await forms(hf, session.id)
        assert form.metadata == {"kind": "mcp-elicitation", "server": "official", "message": "Who are you?"}
    async with world.host() as hf:
        await hf.forms.reply(session.id, form_id=form.id, answer={"name": "Ada"})
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "done"
    assert "Hello Ada" in result_of(world)
