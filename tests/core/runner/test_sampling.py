"""Limits of the answers that MCP servers ask for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.core.mcp.seam import CallFor
from holdfast.core.runner.sampling import MOST_IN_A_CALL, ModelSampling
from holdfast.mcp.errors import RpcError
from holdfast.mcp.input import Sampling
from holdfast.mcp.messages import INVALID_PARAMS, INVALID_REQUEST

pytestmark = pytest.mark.anyio


async def test_a_call_asks_a_limited_number_of_times() -> None:
    """MCP-312: refused ones count too; the next call begins anew."""
    services = SimpleNamespace(sessions=None, models=None, tools=None, here=None)
    sampling = ModelSampling(services)  # type: ignore[arg-type]
    whom = CallFor("ses_1", "msg_1", "call", "build")

    async def code() -> int:
        with pytest.raises(RpcError) as caught:
            await sampling.sample("s", Sampling(messages=[], max_tokens=1), whom)
        return caught.value.code

    assert [await code() for _ in range(MOST_IN_A_CALL)] == [INVALID_PARAMS] * MOST_IN_A_CALL
    assert await code() == INVALID_REQUEST
    await sampling.ended(whom)
    assert await code() == INVALID_PARAMS
