"""Calling a command over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import PATIENCE, Stream, Wire, in_memory

from holdfast.server.app import App

pytestmark = pytest.mark.anyio

TEMPLATE = "Greet $1. Today: !`touch made.txt; echo sunny`. See @hello.txt"


@pytest.fixture(autouse=True)
def configuration(project: Path) -> None:
    document = {"command": {"greet": {"template": TEMPLATE}, "wave": {"template": "Wave at $ARGUMENTS."}}}
    (project / "opencode.json").write_text(json.dumps(document), encoding="utf-8")


def ask_before_commands(project: Path) -> None:
    document = json.loads((project / "opencode.json").read_text(encoding="utf-8"))
    (project / "opencode.json").write_text(json.dumps({**document, "permission": {"bash": "ask"}}), encoding="utf-8")


@asynccontextmanager
async def live(wire: Wire, session: str) -> AsyncIterator[Stream]:
    """The stream of a session, from which nothing is missed."""
    async with asyncio.timeout(PATIENCE), wire.stream(f"/api/session/{session}/event?live=true&replay=false") as stream:
        await stream.frame()
        yield stream


async def asked(stream: Stream) -> Any:
    """The next permission request."""
    return (await stream.until("permission.v2.asked"))[-1]["data"]


async def test_a_command_is_expanded_and_admitted_as_a_prompt(wire: Wire, project: Path) -> None:
    """API-460, CAT-078, CAT-079: the receipt has the filled-in text and the files of template and caller."""
    session = (await wire.create())["id"]
    given = {"uri": (project / "opencode.json").as_uri(), "name": "mine"}
    payload = {"command": "greet", "arguments": "Ada", "files": [given], "resume": False, "id": "msg_mine"}
    receipt = (await wire.post(f"/api/session/{session}/command", payload)).data

    assert receipt["id"] == "msg_mine"
    assert receipt["prompt"]["text"] == "Greet Ada. Today: sunny. See @hello.txt"
    assert [file["name"] for file in receipt["prompt"]["files"]] == ["mine", "hello.txt"]
    assert (project / "made.txt").exists()
    assert (await wire.get(f"/api/session/{session}/pending")).data == [receipt]


async def test_a_command_wakes_the_session(wire: Wire) -> None:
    """API-460: as any prompt does."""
    session = (await wire.create())["id"]
    await wire.post(f"/api/session/{session}/command", {"command": "wave", "arguments": "the moon"})
    await wire.post(f"/api/session/{session}/wait")
    messages = (await wire.get(f"/api/session/{session}/message?order=asc")).data

    assert [message["type"] for message in messages] == ["user", "assistant"]
    assert messages[0]["text"] == "Wave at the moon."


@pytest.mark.parametrize(
    ("payload", "failure"),
    [
        ({"command": "nonsense"}, (404, "CommandNotFoundError")),
        ({"command": "wave", "model": "demo/echo"}, (400, "InvalidRequestError")),
        ({"command": "wave", "skills": ["one"]}, (400, "InvalidRequestError")),
        ({"command": "wave", "skills": [{"id": "absent"}]}, (400, "InvalidRequestError")),
        ({"command": "wave", "variant": "high"}, (400, "InvalidRequestError")),
        ({"command": "wave", "noReply": True}, (400, "InvalidRequestError")),
        ({"arguments": "x"}, (400, "InvalidRequestError")),
    ],
)
async def test_a_call_that_cannot_be_honoured_admits_nothing(
    wire: Wire, payload: dict[str, Any], failure: tuple[int, str]
) -> None:
    """API-460, CAT-081: an unknown command, and fields that are not supported."""
    session = (await wire.create())["id"]
    answer = await wire.post(f"/api/session/{session}/command", {"resume": False, **payload})

    assert answer.failure == failure
    assert (await wire.get(f"/api/session/{session}/pending")).data == []


async def test_the_shell_of_a_template_waits_for_permission(wire: Wire, project: Path) -> None:
    """API-460, CAT-080: asked for like a call of the Session's agent; nothing is admitted before the answer."""
    ask_before_commands(project)
    session = (await wire.create())["id"]
    payload = {"command": "greet", "arguments": "Ada", "resume": False}
    async with live(wire, session) as stream:
        calling = asyncio.create_task(wire.post(f"/api/session/{session}/command", payload))
        request = await asked(stream)
    assert (await wire.get(f"/api/session/{session}/pending")).data == []
    reply = {"reply": "reject", "message": "not today"}
    await wire.post(f"/api/session/{session}/permission/{request['id']}/reply", reply)
    receipt = (await calling).data

    assert request["action"] == "bash"
    assert "was not run" in receipt["prompt"]["text"]
    assert "not today" in receipt["prompt"]["text"]
    assert not (project / "made.txt").exists()


async def test_a_caller_that_disconnects_ends_the_expansion(wire: Wire, project: Path) -> None:
    """API-460: the request that it waits for is closed, and nothing is admitted."""
    ask_before_commands(project)
    session = (await wire.create())["id"]
    async with live(wire, session) as stream:
        calling = asyncio.create_task(wire.post(f"/api/session/{session}/command", {"command": "greet"}))
        await asked(stream)
        calling.cancel()
        await stream.until("permission.v2.replied")

    assert (await wire.get(f"/api/session/{session}/pending")).data == []
    assert not (project / "made.txt").exists()


async def test_a_server_that_stops_ends_the_expansion(app: App, project: Path) -> None:
    """API-460: the caller is told, and does not keep the server from closing."""
    ask_before_commands(project)
    async with in_memory(app) as wire:
        session = (await wire.create())["id"]
        async with live(wire, session) as stream:
            calling = asyncio.create_task(wire.post(f"/api/session/{session}/command", {"command": "greet"}))
            await asked(stream)
        app.stop()
        answer = await asyncio.wait_for(calling, PATIENCE)

    assert answer.failure == (503, "ServiceUnavailableError")


async def test_skills_shell_and_synthetic_messages_on_the_wire(wire: Wire, project: Path) -> None:
    """API-477: the answers, and fields that are refused by name."""
    session = (await wire.create())["id"]
    folder = project / ".opencode" / "skill" / "cut"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: cut\ndescription: d\n---\nWith care.\n", encoding="utf-8")
    skill = await wire.post(f"/api/session/{session}/skill", {"skill": "cut", "resume": False, "id": "msg_skill"})
    given = {"text": "green", "description": "build", "metadata": {"run": 7}, "delivery": "queue", "resume": False}
    synthetic = await wire.post(f"/api/session/{session}/synthetic", given)
    shell = await wire.post(f"/api/session/{session}/shell", {"command": "echo hi", "id": "evt_1"})
    refused = [
        await wire.post(f"/api/session/{session}/shell", {"command": "touch made.txt", name: "x"})
        for name in ("agent", "model", "messageID")
    ]
    (message,) = (await wire.get(f"/api/session/{session}/message")).data
    pending = (await wire.get(f"/api/session/{session}/pending")).data

    assert (skill.status, shell.status) == (204, 204)
    assert [item.failure for item in refused] == [(400, "InvalidRequestError")] * 3
    assert not (project / "made.txt").exists()
    expected = {"id": "msg_1", "type": "shell", "command": "echo hi", "output": "hi\n", "exit": 0}
    assert {name: message[name] for name in expected} == expected
    assert [item.get("type", "user") for item in pending] == ["user", "synthetic"]
    assert synthetic.data == pending[1]
    assert (synthetic.data["type"], synthetic.data["delivery"]) == ("synthetic", "queue")
    prompt = {"text": "green", "metadata": {"run": 7}, "description": "build"}
    assert synthetic.data["prompt"] == prompt
