"""What a client sends and hears, in both kinds of versions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.mcp.support import SILENCE, Json, Refusal, ScriptedServer, connected

from holdfast.mcp import subscriptions
from holdfast.mcp.client import Client
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import NotOffered, ProtocolError, ServerError
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer, InputAnswer, InputRequired, Root, RootsAnswer
from holdfast.mcp.results import LogMessage, ToolResult

pytestmark = pytest.mark.anyio

META = "io.modelcontextprotocol/"
RESULT = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
SUBSCRIPTION = f"{META}subscriptionId"


class Heard:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.changed = asyncio.Event()

    def note(self, event: Any) -> None:
        self.events.append(event)
        self.changed.set()

    def handlers(self) -> Handlers:
        return Handlers(
            on_tools_changed=lambda: self.note("tools"),
            on_prompts_changed=lambda: self.note("prompts"),
            on_resources_changed=lambda: self.note("resources"),
            on_resource_updated=self.note,
            on_elicitation_complete=self.note,
            on_log=self.note,
        )


async def stateless(server: ScriptedServer, handlers: Handlers | None = None) -> Client:
    return await connected(server, handlers, version="2026-07-28")


def stateless_server(answers: dict[str, Any] | None = None, **more: Any) -> ScriptedServer:
    return ScriptedServer({"subscriptions/listen": SILENCE, **(answers or {})}, version="2026-07-28", **more)


async def test_announcements_reach_their_callbacks() -> None:
    """MCP-050"""
    heard, server = Heard(), ScriptedServer()
    async with await connected(server, heard.handlers()) as client:
        for what in ("tools", "prompts", "resources"):
            server.notify(f"notifications/{what}/list_changed")
        server.notify("notifications/resources/updated", uri="a://1")
        server.notify("notifications/elicitation/complete", elicitationId="e")
        server.notify("notifications/message", level="info", data={"a": 1}, logger="x")
        for method, params in (
            ("notifications/resources/updated", {"uri": 7}),
            ("notifications/elicitation/complete", {}),
            ("notifications/message", {"level": 7}),
            ("notifications/unknown", {}),
        ):
            server.notify(method, **params)
        server.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": [7]})
        await client.ping()
        log = LogMessage("info", {"a": 1}, "x")
        assert heard.events == ["tools", "prompts", "resources", "a://1", "e", log, "tools"]


async def test_announcements_without_callbacks_are_ignored() -> None:
    """MCP-050"""
    server = ScriptedServer()
    async with await connected(server) as client:
        for what in ("tools/list_changed", "resources/updated", "elicitation/complete", "message"):
            server.notify(f"notifications/{what}", uri="a", level="info", elicitationId="x")
        await client.ping()
        assert client.garbage == 0


async def test_subscriptions_in_handshake_versions() -> None:
    """MCP-052"""
    server = ScriptedServer({"resources/subscribe": {}, "resources/unsubscribe": {}})
    async with await connected(server) as client:
        await client.subscribe("a://1")
        await client.subscribe("a://1")
        await client.unsubscribe("a://2")
        await client.unsubscribe("a://1")
        assert server.methods()[2:] == ["resources/subscribe", "resources/unsubscribe"]
    async with await connected(ScriptedServer(capabilities={"resources": {}})) as client:
        with pytest.raises(NotOffered, match="subscriptions"):
            await client.subscribe("a://1")


async def test_log_messages_are_asked_for() -> None:
    """MCP-053"""
    server = ScriptedServer({"logging/setLevel": {}})
    async with await connected(server) as client:
        await client.set_log_level("warning")
        assert server.received[-1]["params"] == {"level": "warning"}
    async with await connected(ScriptedServer(capabilities={})) as client:
        with pytest.raises(NotOffered, match="log messages"):
            await client.set_log_level("info")


async def test_suggestions_are_asked_for_if_they_are_offered() -> None:
    """MCP-031"""
    server = ScriptedServer({"completion/complete": {"completion": {"values": ["py", "pyre"]}}})
    async with await connected(server) as client:
        found = await client.complete({"type": "ref/prompt", "name": "p"}, "language", "py", known={"a": "b"})
        assert found.values == ("py", "pyre")
        assert server.received[-1]["params"] == {
            "ref": {"type": "ref/prompt", "name": "p"},
            "argument": {"name": "language", "value": "py"},
            "context": {"arguments": {"a": "b"}},
        }
    async with await connected(ScriptedServer(capabilities={})) as client:
        with pytest.raises(NotOffered, match="completions"):
            await client.complete({}, "a", "b")


async def test_each_stateless_request_stands_for_itself() -> None:
    """MCP-005, MCP-053"""

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        raise AssertionError

    server = stateless_server({"tools/call": RESULT})
    async with await stateless(server, Handlers(elicit=elicit)) as client:
        await client.set_log_level("info")
        await client.call_tool("a", {"x": 1}, on_progress=lambda _: None)
        [call] = [message for message in server.received if message["method"] == "tools/call"]
        assert call["params"] == {
            "name": "a",
            "arguments": {"x": 1},
            "_meta": {
                f"{META}protocolVersion": "2026-07-28",
                f"{META}clientInfo": {"name": "tests", "version": "1"},
                f"{META}clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
                f"{META}logLevel": "info",
                "progressToken": call["id"],
            },
        }
        server.request(5, "elicitation/create", message="x", requestedSchema={})
        assert (await server.answered(5))["error"]["code"] == -32601


async def test_a_call_that_needs_input_is_made_again_by_another_client() -> None:
    """MCP-042"""

    def answer(params: Json) -> Json:
        if "requestState" in params:
            return {"content": [{"type": "text", "text": f"{params['inputResponses']} {params['requestState']}"}]}
        form = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {"type": "object"}}}
        requests = {"who": form, "where": {"method": "roots/list"}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        raise AssertionError

    async def roots() -> list[Root]:
        raise AssertionError

    handlers = Handlers(elicit=elicit, roots=roots)
    async with await stateless(stateless_server({"tools/call": answer}), handlers) as client:
        required = await client.call_tool("a", {"x": 1})
        assert isinstance(required, InputRequired)
        assert set(required.requests) == {"who", "where"}
    async with await stateless(stateless_server({"tools/call": answer})) as client:
        with pytest.raises(ProtocolError, match="not offered to it"):
            await client.call_tool("a", {"x": 1})
    async with await stateless(stateless_server({"tools/call": answer}), handlers) as client:
        answers: dict[str, InputAnswer] = {
            "who": ElicitationAnswer(action="accept", content={"name": "Ada", "age": 36, "tags": ["x"]}),
            "where": RootsAnswer(roots=[Root(uri="file:///a")]),
        }
        result = await client.call_tool("a", {"x": 1}, answers=answers, state=required.state)
        assert isinstance(result, ToolResult)
        [content] = result.content
        assert content == TextContent(
            text="{'who': {'action': 'accept', 'content': {'name': 'Ada', 'age': 36, 'tags': ['x']}}, "
            "'where': {'roots': [{'uri': 'file:///a'}]}} s"
        )


async def test_changes_are_told_on_the_request_that_listens() -> None:
    """MCP-051"""
    heard, server = Heard(), stateless_server()
    async with await stateless(server, heard.handlers()):
        listening = await server.called("subscriptions/listen")
        assert listening["params"]["notifications"] == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
        }
        acknowledged = {"notifications": {}, "_meta": {SUBSCRIPTION: listening["id"]}}
        server.notify("notifications/subscriptions/acknowledged", **acknowledged)
        server.notify("notifications/tools/list_changed")  # belongs to no subscription
        server.notify("notifications/tools/list_changed", _meta={SUBSCRIPTION: 999})
        server.notify("notifications/tools/list_changed", _meta=7)
        server.notify("notifications/prompts/list_changed", _meta={SUBSCRIPTION: listening["id"]})
        await heard.changed.wait()
        assert heard.events == ["prompts"]


async def test_nothing_is_listened_to_that_nobody_wants_or_offers() -> None:
    """MCP-051"""
    server = stateless_server({"tools/list": {"tools": []}})
    async with await stateless(server) as client:
        await client.list_tools()
        assert "subscriptions/listen" not in server.methods()
    server = stateless_server({"tools/list": {"tools": []}}, capabilities={"tools": {}})
    async with await stateless(server, Heard().handlers()) as client:
        await client.list_tools()
        assert "subscriptions/listen" not in server.methods()


async def test_a_subscription_becomes_part_of_what_is_listened_to() -> None:
    """MCP-051, MCP-052"""
    server = stateless_server()
    async with await stateless(server, Handlers(on_resource_updated=lambda _: None)) as client:
        await client.subscribe("a://1")
        first = await server.called("subscriptions/listen")
        assert first["params"]["notifications"] == {"resourceSubscriptions": ["a://1"]}
        await client.subscribe("a://2")
        both = {"resourceSubscriptions": ["a://1", "a://2"]}
        await server.message(lambda message: message.get("params", {}).get("notifications") == both)
        cancelled = await server.called("notifications/cancelled")
        assert cancelled["params"]["requestId"] == first["id"]


async def test_a_stream_that_ends_is_opened_again_and_everything_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-051"""
    monkeypatch.setattr(subscriptions, "RETRY_SECONDS", 0.001)
    ends: list[Any] = [{}, {}, SILENCE]
    heard, server = Heard(), stateless_server({"subscriptions/listen": lambda _: ends.pop(0)})
    async with await stateless(server, Handlers(on_tools_changed=lambda: heard.note("tools"))):
        async with asyncio.timeout(10):
            while len(heard.events) < 2:
                heard.changed.clear()
                await heard.changed.wait()
        assert heard.events == ["tools", "tools"]


async def test_a_callback_that_fails_does_not_end_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-054, MCP-051"""
    monkeypatch.setattr(subscriptions, "RETRY_SECONDS", 0.001)

    def fail() -> None:
        raise RuntimeError("broken callback")

    ends: list[Any] = [{}, SILENCE]
    server = stateless_server({"subscriptions/listen": lambda _: ends.pop(0)})
    async with await stateless(server, Handlers(on_tools_changed=fail)):
        first = await server.called("subscriptions/listen")
        await server.message(lambda message: message["method"] == "subscriptions/listen" and message != first)


async def test_a_stream_that_the_server_cancels_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-051"""
    monkeypatch.setattr(subscriptions, "RETRY_SECONDS", 0.001)
    heard, server = Heard(), stateless_server()
    async with await stateless(server, Handlers(on_tools_changed=lambda: heard.note("tools"))):
        first = await server.called("subscriptions/listen")
        server.notify("notifications/cancelled", requestId=first["id"], reason="restart")
        await server.message(lambda message: message["method"] == "subscriptions/listen" and message != first)
        assert heard.events == ["tools"]


async def test_a_call_is_not_cancelled_by_a_server_with_requests_of_its_own() -> None:
    """MCP-025"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        id = (await server.called("tools/call"))["id"]
        server.notify("notifications/cancelled", requestId=id)
        server.answer(id, RESULT)
        assert isinstance(await call, ToolResult)


async def test_a_server_that_refuses_to_be_listened_to_is_not_asked_again() -> None:
    """MCP-051"""
    server = stateless_server({"subscriptions/listen": Refusal(-32601, "no"), "tools/list": {"tools": []}})
    async with await stateless(server, Heard().handlers()) as client:
        await server.called("subscriptions/listen")
        await client.list_tools()
        assert client._connection._tasks == set()


async def test_a_call_with_unfitting_headers_is_made_again_after_the_tools_were_listed() -> None:
    """MCP-027"""
    answers = [Refusal(-32020, "header"), RESULT]
    server = stateless_server({"tools/call": lambda _: answers.pop(0), "tools/list": {"tools": []}})
    async with await stateless(server) as client:
        assert isinstance(await client.call_tool("a", {}), ToolResult)
        assert server.methods()[1:] == ["tools/call", "tools/list", "tools/call"]
    server = stateless_server({"tools/call": Refusal(-32602, "bad")})
    async with await stateless(server) as client:
        with pytest.raises(ServerError):
            await client.call_tool("a", {})
        assert server.methods()[1:] == ["tools/call"]
    answers = [Refusal(-32020, "header"), Refusal(-32020, "header")]
    server = stateless_server({"tools/call": lambda _: answers.pop(0), "tools/list": {"tools": []}})
    async with await stateless(server) as client:
        with pytest.raises(ServerError):
            await client.call_tool("a", {})


async def test_a_tool_with_invalid_marks_for_headers_is_left_out() -> None:
    """MCP-068"""
    good = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Region"}}}
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "Region"}}}
    tools = [{"name": "good", "inputSchema": good}, {"name": "bad", "inputSchema": bad}]
    server = stateless_server({"tools/list": {"tools": tools}})
    async with await stateless(server) as client:
        assert len((await client.list_tools()).items) == 2  # there are no headers
        client._connection.transport.has_headers = True  # type: ignore[misc]
        listing = await client.list_tools()
        assert [tool.name for tool in listing.items] == ["good"]
        assert [rejected.name for rejected in listing.rejected] == ["bad"]
    async with await connected(ScriptedServer({"tools/list": {"tools": tools}})) as client:
        client._connection.transport.has_headers = True  # type: ignore[misc]
        assert len((await client.list_tools()).items) == 2


async def test_listening_ends_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-051"""
    monkeypatch.setattr(subscriptions, "RETRY_SECONDS", 0.001)
    heard, server = Heard(), stateless_server()
    client = await stateless(server, heard.handlers())
    await server.called("subscriptions/listen")
    server.die(1)
    async with asyncio.timeout(10):
        while client._connection._tasks:
            await asyncio.wait(client._connection._tasks)
    assert heard.events == []
    await client.close()


async def test_arguments_that_are_no_json_are_not_sent() -> None:
    """MCP-026"""
    server = ScriptedServer()
    async with await connected(server) as client:
        for value in ("\ud800", object()):
            with pytest.raises(ProtocolError, match="tools/call cannot be sent"):
                await client.call_tool("a", {"x": value})
        await client.ping()
        assert client._connection._calls == {}
