"""Calls and requests under way at the same time, with a server that does not behave."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.mcp.support import SILENCE, Json, Refusal, ScriptedServer, connected

from holdfast.mcp.connection import REQUEST_LIMIT
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import ProtocolError, ServerClosed, ServerError, Timeout
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer
from holdfast.mcp.results import Progress, ToolResult
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

RESULT = {"content": [{"type": "text", "text": "done"}]}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def cancelled(message: Json) -> bool:
    return message.get("method") == "notifications/cancelled"


async def test_answers_reach_their_calls_in_any_order() -> None:
    """MCP-023"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        calls = [asyncio.create_task(client.call_tool(str(number), {})) for number in range(50)]
        await server.message(lambda message: message.get("params", {}).get("name") == "49")
        for message in reversed(server.received):
            if message.get("method") == "tools/call":
                text = {"type": "text", "text": message["params"]["name"]}
                server.answer(message["id"], {"content": [text]})
        for number, result in enumerate(await asyncio.gather(*calls)):
            assert result == ToolResult((TextContent(text=str(number)),))


async def test_duplicate_and_foreign_answers_are_ignored() -> None:
    """MCP-025"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        id = (await server.called("tools/call"))["id"]
        for other in (id + 1, str(id), -1, 2**70, ""):
            server.answer(other, {"content": []})
        server.send({"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "lost"}})
        server.answer(id, RESULT)
        server.answer(id, {"content": []})
        server.send({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "late"}})
        assert await call == ToolResult((TextContent(text="done"),))
        await client.ping()
        assert client._connection.strays == 8


async def test_an_answer_with_neither_result_nor_error_fails_its_call() -> None:
    """MCP-026"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        server.send({"jsonrpc": "2.0", "id": (await server.called("tools/call"))["id"]})
        with pytest.raises(ProtocolError):
            await call
        await client.ping()


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    """MCP-022"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        id = (await server.called("tools/call"))["id"]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await server.message(cancelled))["params"]["requestId"] == id
        server.answer(id, RESULT)
        await client.ping()
        assert client._connection.strays == 1
        assert client._connection._calls == {}


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server() -> None:
    """MCP-022, MCP-023, MCP-021"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}, seconds=0.05, on_progress=lambda _: None))
        id = (await server.called("tools/call"))["id"]
        server.notify("notifications/progress", progressToken=id, progress=1)
        with pytest.raises(Timeout, match=r"did not answer tools/call within 0.05 s"):
            await call
        assert (await server.message(cancelled))["params"]["requestId"] == id


async def test_the_start_is_not_cancelled_but_ends() -> None:
    """MCP-022, MCP-023"""
    server = ScriptedServer({"initialize": SILENCE})
    with pytest.raises(Timeout, match="initialize"):
        await connected(server, timeouts=Timeouts(startup=0.02))
    assert server.methods() == ["initialize"]
    assert server.closed


async def test_progress_reaches_the_call_that_asked_for_it() -> None:
    """MCP-021"""
    server = ScriptedServer({"tools/call": SILENCE})
    seen: list[Progress] = []
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}, on_progress=seen.append))
        quiet = asyncio.create_task(client.call_tool("b", {}))
        first = await server.message(lambda message: message.get("params", {}).get("name") == "a")
        second = await server.message(lambda message: message.get("params", {}).get("name") == "b")
        assert first["params"]["_meta"] == {"progressToken": first["id"]}
        assert "_meta" not in second["params"]
        server.notify("notifications/progress", progressToken=first["id"], progress=1, total=2, message="half")
        for token in (second["id"], "x", 999, None, [1]):
            server.notify("notifications/progress", progressToken=token, progress=1)
        server.notify("notifications/progress", progressToken=first["id"], progress="much")
        server.notify("notifications/progress")
        server.answer(first["id"], RESULT)
        server.notify("notifications/progress", progressToken=first["id"], progress=2)
        server.answer(second["id"], RESULT)
        await asyncio.gather(call, quiet)
        await client.ping()
        assert seen == [Progress(1, 2, "half")]


async def test_a_callback_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """MCP-054"""

    def fail(*_: Any) -> None:
        raise RuntimeError("broken callback")

    server = ScriptedServer({"tools/call": SILENCE})
    handlers = Handlers(on_tools_changed=fail, on_log=fail, on_garbage=fail, on_closed=fail)
    client = await connected(server, handlers)
    with caplog.at_level(logging.ERROR):
        call = asyncio.create_task(client.call_tool("a", {}, on_progress=fail))
        id = (await server.called("tools/call"))["id"]
        server.notify("notifications/progress", progressToken=id, progress=1)
        server.notify("notifications/tools/list_changed")
        server.notify("notifications/message", level="info", data="x")
        server.send_bytes(b"garbage\n")
        server.answer(id, RESULT)
        assert isinstance(await call, ToolResult)
        await client.close()
    assert len(caplog.records) == 5


async def test_requests_of_the_server_are_answered_by_handlers() -> None:
    """MCP-040, MCP-041"""
    seen: list[Any] = []

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        seen.append((elicitation.message, asked.keys))
        return ElicitationAnswer(action="accept", content={"name": "Ada"})

    async def sample(sampling: Sampling, asked: Asked) -> SamplingAnswer:
        seen.append((sampling.messages[0].parts, sampling.max_tokens))
        return SamplingAnswer(role="assistant", content=TextContent(text="hi"), model="m", stop_reason="endTurn")

    async def roots() -> list[Root]:
        return [Root(uri="file:///a", name="a")]

    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server, Handlers(elicit=elicit, sample=sample, roots=roots)) as client:
        assert server.received[0]["params"]["capabilities"] == {
            "roots": {},
            "sampling": {},
            "elicitation": {"form": {}, "url": {}},
        }
        calls = [asyncio.create_task(client.call_tool(name, {}, key=name)) for name in ("a", "b")]
        await server.message(lambda message: message.get("params", {}).get("name") == "b")
        server.request("e", "elicitation/create", **FORM)
        message = {"role": "user", "content": {"type": "text", "text": "Hello"}}
        server.request(0, "sampling/createMessage", messages=[message], maxTokens=5)
        server.request(1, "roots/list")
        server.request(2, "ping")
        assert (await server.answered("e"))["result"] == {"action": "accept", "content": {"name": "Ada"}}
        assert (await server.answered(0))["result"] == {
            "role": "assistant",
            "content": {"type": "text", "text": "hi"},
            "model": "m",
            "stopReason": "endTurn",
        }
        assert (await server.answered(1))["result"] == {"roots": [{"uri": "file:///a", "name": "a"}]}
        assert (await server.answered(2))["result"] == {}
        assert seen == [("Who?", ("a", "b")), ([TextContent(text="Hello")], 5)]
        for call in calls:
            call.cancel()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2025-03-26", None), ("2025-06-18", {}), ("2025-11-25", {"form": {}, "url": {}})],
)
async def test_a_client_declares_what_the_version_knows(version: str, expected: Json | None) -> None:
    """MCP-040"""

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        raise AssertionError

    server = ScriptedServer(version=version)
    async with await connected(server, Handlers(elicit=elicit), version=version):
        assert server.received[0]["params"]["capabilities"].get("elicitation") == expected


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list", "tools/list", ""])
async def test_a_request_without_handler_is_refused(method: str) -> None:
    """MCP-040"""
    server = ScriptedServer()
    async with await connected(server):
        assert server.received[0]["params"]["capabilities"] == {}
        server.request(7, method, **FORM)
        assert (await server.answered(7))["error"]["code"] == -32601


@pytest.mark.parametrize("params", [{}, {"message": 7}, {"message": "x"}, {"message": "x", "mode": "url"}, {"mode": 1}])
async def test_malformed_parameters_are_refused(params: Json) -> None:
    """MCP-044"""

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        raise AssertionError

    server = ScriptedServer()
    async with await connected(server, Handlers(elicit=elicit)):
        server.request(7, "elicitation/create", **params)
        assert (await server.answered(7))["error"]["code"] == -32602


async def test_a_model_that_uses_tools_is_refused() -> None:
    """MCP-040"""

    async def sample(sampling: Sampling, asked: Asked) -> SamplingAnswer:
        raise AssertionError

    server = ScriptedServer()
    async with await connected(server, Handlers(sample=sample)):
        server.request(7, "sampling/createMessage", messages=[], maxTokens=5, tools=[{"name": "x"}])
        assert (await server.answered(7))["error"]["code"] == -32602


async def test_a_handler_that_fails_is_an_internal_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """MCP-044"""

    async def roots() -> list[Root]:
        raise RuntimeError("secret")

    server = ScriptedServer()
    async with await connected(server, Handlers(roots=roots)):
        server.request(7, "roots/list")
        assert (await server.answered(7))["error"] == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


async def test_a_request_that_the_server_cancels_is_not_answered() -> None:
    """MCP-043"""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    server = ScriptedServer()
    async with await connected(server, Handlers(elicit=elicit)) as client:
        server.request(7, "elicitation/create", **FORM)
        await started.wait()
        server.request(7, "elicitation/create", **FORM)  # the same id again
        for id in (8, None, [7]):
            server.notify("notifications/cancelled", requestId=id)
        server.notify("notifications/cancelled", requestId=7)
        await stopped.wait()
        await client.ping()
        assert [message for message in server.received if message.get("id") == 7] == []
        assert client._connection.strays == 1


async def test_a_server_that_floods_with_requests_ends_its_connection() -> None:
    """MCP-043"""

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server, Handlers(elicit=elicit)) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        await server.called("tools/call")
        for id in range(REQUEST_LIMIT + 1):
            server.request(id, "elicitation/create", **FORM)
        with pytest.raises(ProtocolError, match="without waiting"):
            await call


@pytest.mark.parametrize(("version", "answers"), [("2025-03-26", 2), ("2025-06-18", 0)])
async def test_an_array_of_messages_is_accepted_in_one_version(version: str, answers: int) -> None:
    """MCP-006"""
    server = ScriptedServer(version=version)
    async with await connected(server) as client:
        server.send([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("a", "b")])
        await client.ping()
        await client.ping()
        assert len([message for message in server.received if "result" in message]) == answers
        assert client.garbage == (0 if answers else 1)


async def test_an_error_of_the_server_has_its_parts() -> None:
    """MCP-024"""
    server = ScriptedServer({"tools/call": Refusal(-5, "no\nway", {"a": 1})})
    async with await connected(server) as client:
        with pytest.raises(ServerError, match="error -5: no way") as raised:
            await client.call_tool("a", {})
        assert (raised.value.code, raised.value.message, raised.value.data) == (-5, "no\nway", {"a": 1})


async def test_a_dead_connection_raises_a_fresh_error_each_time() -> None:
    """MCP-072"""
    server = ScriptedServer()
    client = await connected(server)
    await client.close()
    errors = []
    for _ in range(2):
        with pytest.raises(ServerClosed) as raised:
            await client.ping()
        errors.append(raised.value)
    assert errors[0] is not errors[1]
    assert str(errors[0]) == str(errors[1])


async def test_every_call_under_way_ends_with_its_process() -> None:
    """MCP-072: those that report progress too."""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        calls = {
            asyncio.create_task(client.call_tool("a", {}), name="without progress"),
            asyncio.create_task(client.call_tool("b", {}, on_progress=lambda progress: None), name="with progress"),
        }
        await server.message(lambda message: message.get("params", {}).get("name") == "a")
        await server.message(lambda message: message.get("params", {}).get("name") == "b")
        server.die(3, "out of luck")
        ended, waiting = await asyncio.wait(calls, timeout=5)
        assert [call.get_name() for call in waiting] == []
        assert [type(call.exception()) for call in ended] == [ServerClosed] * 2
