"""An editor for tests: a client of the official package over a real `holdfast acp`."""

from __future__ import annotations

import asyncio
import asyncio.subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp.client.connection import ClientSideConnection
from acp.schema import ClientCapabilities
from tests.cli.conftest import HOLDFAST
from tests.outside.scripted_provider import PATIENCE
from tests.outside.world import World

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block

Json = dict[str, Any]


class Editor:
    """Keeps what it is sent, and answers as the test says."""

    connection: ClientSideConnection
    process: asyncio.subprocess.Process

    def __init__(self) -> None:
        self.updates: list[tuple[str, Json]] = []
        self.asked: list[Json] = []
        self.elicited: list[Json] = []
        self.choose: Callable[[Json], str | None] = lambda request: "allow"
        """The option for a permission request; None cancels it."""
        self.fill_in: Callable[[Json], Json] = lambda request: {"action": "cancel"}
        self.answering = asyncio.Event()
        """Requests are answered when this is set."""
        self.answering.set()
        self.files: dict[str, str] = {}
        """Unsaved buffers, by path."""
        self.written: dict[str, str] = {}
        self.refused: set[str] = set()
        self.saves = False
        """Whether files that it writes reach the disk."""
        self._changed = asyncio.Condition()

    # -- what the agent calls --------------------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self._changed:
            self.updates.append((session_id, _plain(update)))
            self._changed.notify_all()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        request = {"sessionId": session_id, "toolCall": _plain(tool_call), "options": [_plain(one) for one in options]}
        async with self._changed:
            self.asked.append(request)
            self._changed.notify_all()
        await self.answering.wait()
        chosen = self.choose(request)
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        return {"outcome": outcome}

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        request = {"message": message, **_plain(mode)}
        async with self._changed:
            self.elicited.append(request)
            self._changed.notify_all()
        await self.answering.wait()
        return self.fill_in(request)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        from acp.exceptions import RequestError

        if path not in self.files:
            raise RequestError.resource_not_found(path)
        return {"content": self.files[path]}

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        from acp.exceptions import RequestError

        if path in self.refused:
            raise RequestError.internal_error({"details": "the disk is on fire"})
        self.written[path] = self.files[path] = content
        if self.saves:
            Path(path).write_text(content, encoding="utf-8")
        return {}

    # -- for tests -------------------------------------------------------------------------------------------------

    async def until(self, found: Callable[[], Any]) -> Any:
        """What is found once there is something. It is looked for after each message."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: bool(found()))
        return found()

    async def open(self, world: World, **given: Any) -> str:
        session = await self.connection.new_session(cwd=str(world.project), mcp_servers=[], **given)
        return session.session_id

    async def prompt(self, session_id: str, text: str) -> str:
        answer = await self.connection.prompt(session_id=session_id, prompt=[text_block(text)])
        return answer.stop_reason

    def of(self, kind: str, session_id: str | None = None) -> list[Json]:
        return [update for id, update in self.updates if update["sessionUpdate"] == kind and session_id in (None, id)]

    def text(self, kind: str = "agent_message_chunk", session_id: str | None = None) -> str:
        return "".join(update["content"].get("text", "") for update in self.of(kind, session_id))

    def calls(self) -> dict[str, Json]:
        """The calls as an editor shows them: every update put on top of what was known."""
        shown: dict[str, Json] = {}
        for _, update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                shown.setdefault(update["toolCallId"], {}).update(update)
        return shown

    def forget(self) -> None:
        self.updates.clear()


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def acp_environment(world: World) -> dict[str, str]:
    if not (world.user_folder / "opencode.json").exists():
        world.configure()
    return {**world.environment, "HOLDFAST_DATA": str(world.data), "NO_PROXY": "127.0.0.1"}


@asynccontextmanager
async def editor(world: World, capabilities: Json | None = None) -> AsyncIterator[Editor]:
    """A process on the world's data, initialized."""
    made = Editor()
    spawned = spawn_agent_process(
        made,  # type: ignore[arg-type]
        HOLDFAST,
        "acp",
        env=acp_environment(world),
        cwd=world.project,
        transport_kwargs={"shutdown_timeout": PATIENCE},
        use_unstable_protocol=True,
    )
    async with spawned as (connection, process):
        made.connection, made.process = connection, process
        async with asyncio.timeout(PATIENCE):
            offered = ClientCapabilities.model_validate(capabilities or {})
            await connection.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=offered)
            yield made
    assert process.stderr is not None
    said = (await process.stderr.read()).decode()
    assert "Traceback" not in said, said
    assert "never retrieved" not in said, said
