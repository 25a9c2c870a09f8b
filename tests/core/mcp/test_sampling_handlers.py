"""Which call an answer of a model is for, when a server asks for one."""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.mcp.seam import CallFor
from holdfast.core.mcp.server_handlers import ServerHandlers
from holdfast.core.mcp.server_log import ServerLog
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import RpcError
from holdfast.mcp.handlers import Asked
from holdfast.mcp.input import Sampling, SamplingAnswer

pytestmark = pytest.mark.anyio

REQUEST = Sampling(messages=[], max_tokens=1)
NAME: ContextVar[str] = ContextVar("name", default="none")


class Sampler:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def sample(
        self, server: str, request: Sampling, whom: CallFor, context: Context | None = None
    ) -> SamplingAnswer:
        assert context is not None
        self.asked.append((whom.call_id, context[NAME]))
        return SamplingAnswer(role="assistant", content=TextContent(text="x"), model="m")


async def test_an_answer_is_made_for_the_call_and_in_its_context(tmp_path: Path) -> None:
    """MCP-310, MCP-311: the newest call that it can be for; outside of one there is none."""
    sampler = Sampler()
    host: Any = SimpleNamespace(directory=tmp_path, people=lambda: None, sampler=lambda: sampler)
    found = ServerHandlers("s", host, ServerLog(tmp_path / "log"), lambda kind: None)

    def begin(id: str) -> None:
        NAME.set(f"call {id}")
        found.begin_call(id, CallFor("ses_1", "msg_1", id, "build"))

    for id in ("a", "b", "c"):
        copy_context().run(begin, id)
    sample: Any = found.made(lambda error: None).sample
    await sample(REQUEST, Asked(("a", "b")))
    found.end_call("b")
    await sample(REQUEST, Asked(("a", "b")))
    assert sampler.asked == [("b", "call b"), ("a", "call a")]
    with pytest.raises(RpcError):
        await sample(REQUEST, Asked(("b",)))
