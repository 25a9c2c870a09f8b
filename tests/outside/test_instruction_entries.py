"""Instruction entries: durable facts of one Session that its model is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Ran, rows
from tests.outside.test_clients import Serve
from tests.outside.world import World, ask, types

from holdfast import ApiError, Holdfast, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.session_message import SystemMessage

pytestmark = pytest.mark.anyio

BLOCK = '<instruction-entry key="{key}">\n{text}\n</instruction-entry>'


async def told(hf: Holdfast, session: Session) -> list[str]:
    """The system messages of the conversation."""
    messages = (await hf.sessions.messages(session.id, order="asc", limit=100)).items
    return [message.text for message in messages if isinstance(message, SystemMessage)]


async def context_of(hf: Holdfast, session: Session) -> RequestContextInfo:
    found = await hf.sessions.request_context(session.id)
    assert isinstance(found, RequestContextInfo)
    return found


async def test_entries_are_in_the_baseline_in_the_order_of_their_keys(world: World) -> None:
    """CTX-217, CTX-218: text as it is, other JSON indented; what would end the block is escaped."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.put_instruction(session.id, key="b.ticket", value={"id": 7, "tags": ["x"]})
        await hf.sessions.put_instruction(session.id, key="a", value="Deploys are frozen.</instruction-entry>")
        assert [(entry.key, entry.value) for entry in await hf.sessions.instructions(session.id)] == [
            ("a", "Deploys are frozen.</instruction-entry>"),
            ("b.ticket", {"id": 7, "tags": ["x"]}),
        ]
        await ask(hf, session, "go")
        sources = [source.key for source in (await context_of(hf, session)).sources]
    first = BLOCK.format(key="a", text="Deploys are frozen.&lt;/instruction-entry>")
    second = BLOCK.format(key="b.ticket", text='{\n  "id": 7,\n  "tags": [\n    "x"\n  ]\n}')
    system = world.model.last.system
    assert first in system
    assert second in system
    assert system.index(first) < system.index(second)
    assert [key for key in sources if key.startswith("api/")] == ["api/a", "api/b.ticket"]


async def test_a_change_is_told_once_and_keeps_the_prefix(world: World) -> None:
    """CTX-219: added, changed, removed; the same value again records nothing; no turn is started by it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        for value in ("Use tabs.", "Use tabs.", "Use spaces."):
            await hf.sessions.put_instruction(session.id, key="style", value=value)
        assert len(world.model.requests) == 1
        await ask(hf, session, "two")
        await hf.sessions.put_instruction(session.id, key="style", value="Use tabs.")
        await ask(hf, session, "three")
        await hf.sessions.remove_instruction(session.id, key="style")
        await hf.sessions.remove_instruction(session.id, key="style")
        await ask(hf, session, "four")
        await ask(hf, session, "five")
        added, changed, removed = await told(hf, session)
        assert (await context_of(hf, session)).prefix_breaks == ()
        assert (await types(hf, session)).count("context.updated") == 3
        assert await hf.verify() == []
    assert added.endswith(BLOCK.format(key="style", text="Use spaces."))
    assert changed.endswith(BLOCK.format(key="style", text="Use tabs."))
    assert "style" in removed
    assert "<instruction-entry" not in removed
    assert removed in world.model.requests[3].said[-1][1]
    assert world.model.requests[4].said[-1] == ("user", "five")


async def test_an_entry_that_changes_during_a_turn_is_told_before_the_next_one(world: World) -> None:
    """CTX-219, CTX-220: the drain that runs notices it."""
    from tests.outside.scripted_provider import Turn, calling

    silent = asyncio.Event()
    world.model.plays(Turn(calls=calling("read", filePath="hello.txt").calls, end=silent), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        await world.model.asked(1)
        await hf.sessions.put_instruction(session.id, key="now", value="Hurry.")
        silent.set()
        await hf.sessions.wait(session.id)
    assert "Hurry." not in world.model.requests[0].system
    assert "Hurry." in world.model.requests[1].said[-1][1]


async def test_entries_survive_a_restart_and_a_rebuild(world: World) -> None:
    """CTX-217: they are projections; a deleted Session has none."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for key, value in (("a", 1), ("b", [True, None]), ("c", "x")):
            await hf.sessions.put_instruction(session.id, key=key, value=value)
        await hf.sessions.remove_instruction(session.id, key="c")
        entries = await hf.sessions.instructions(session.id)
    async with world.host() as hf:
        assert await hf.sessions.instructions(session.id) == entries
        await hf.rebuild()
        assert await hf.sessions.instructions(session.id) == entries
        assert await hf.verify() == []
        await hf.sessions.delete(session.id)
        assert await hf.verify() == []


async def test_entries_are_limited_in_size_and_number(world: World) -> None:
    """API-487, CTX-220: 8 192 bytes of JSON, 64 entries; changing one of 64 is fine."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.put_instruction(session.id, key="full", value="x" * 8_190)
        with pytest.raises(ApiError) as large:
            await hf.sessions.put_instruction(session.id, key="full", value="x" * 8_191)
        assert (large.value.status, large.value.code) == (413, "InstructionEntryValueTooLargeError")
        assert (large.value.body["actualBytes"], large.value.body["maxBytes"]) == (8_193, 8_192)
        for number in range(63):
            await hf.sessions.put_instruction(session.id, key=f"k{number}", value=number)
        with pytest.raises(ApiError) as many:
            await hf.sessions.put_instruction(session.id, key="one-more", value=1)
        assert (many.value.status, many.value.code) == (409, "ConflictError")
        await hf.sessions.put_instruction(session.id, key="full", value="small")
        assert len(await hf.sessions.instructions(session.id)) == 64


def test_keys_and_values_over_http(serve: Serve) -> None:
    """API-487: the paths and fields of OpenCode 2.0."""
    with httpx2.Client(base_url=serve("--no-auth").url, timeout=30) as http:
        session = f"/api/session/{http.post('/api/session', json={}).json()['data']['id']}"
        entries = f"{session}/instructions/entries"

        def put(key: str, **body: Any) -> int:
            return http.put(f"{entries}/{key}", json=body).status_code

        assert [put(key, value=1) for key in ("a", "9.x_y-z", "k" * 128)] == [204] * 3
        assert [put(key, value=1) for key in ("A", "-a", "a%20b", "a%2Fb", "k" * 129, "%C3%A4", "a%0A")] == [400] * 7
        assert put("null", value=None) == 204
        assert put("missing") == 400
        assert put("deep", value=json.loads("[" * 128 + "]" * 128)) == 204
        assert put("deep", value=json.loads("[" * 129 + "]" * 129)) == 400
        assert http.get(entries).json()["data"][0] == {"key": "9.x_y-z", "value": 1}
        assert {"key": "null", "value": None} in http.get(entries).json()["data"]
        assert [http.delete(f"{entries}/{key}").status_code for key in ("a", "a", "never")] == [204] * 3
        assert http.get("/api/session/ses_none/instructions/entries").status_code == 404


def test_the_command_line_lists_and_changes_entries(holdfast: Machine, here: Callable[..., Ran]) -> None:
    """API-492."""

    async def prepare() -> str:
        async with holdfast.host() as hf:
            return (await hf.sessions.create()).id

    session = asyncio.run(prepare())
    line = ("sessions", "instructions", session)
    assert here(*line, "--set", "style", "Use tabs.", "--set", "limit", "3").code == 0
    assert rows(here(*line)) == [["limit", "3"], ["style", "Use tabs."]]
    assert '"value": 3' in here(*line, "--json").out
    assert here(*line, "--remove", "style").code == 0
    assert rows(here(*line)) == [["limit", "3"]]
    assert here(*line, "--set", "Bad Key", "x").code == 1
