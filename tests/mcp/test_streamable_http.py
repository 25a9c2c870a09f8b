"""Streamable HTTP with a server that the test writes."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from typing import Any

import pytest
from tests.mcp.http_support import (
    BREAK_OFF,
    DISCOVERY,
    FOREVER,
    INFO,
    OPENING,
    RESULT,
    HttpServer,
    Incoming,
    Reply,
    answer,
    event,
    failure,
    http_client,
    result_event,
    stream,
)

from holdfast.mcp.connect import connect_http
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import (
    Challenge,
    HttpRefused,
    NeedsAuthorization,
    ProtocolError,
    ServerClosed,
    ServerError,
    SessionExpired,
    Timeout,
    TooLarge,
    Unreachable,
)
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer
from holdfast.mcp.results import Progress, ToolResult
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

DONE = ToolResult((TextContent(text="done"),))


def sessions() -> HttpServer:
    return HttpServer({"initialize": lambda request: answer(request, OPENING, mcp_session_id="s1")})


async def test_an_answer_may_be_json_or_a_stream() -> None:
    """MCP-060"""
    server = HttpServer()
    async with http_client(server) as client:
        server.routes["tools/call"] = lambda request: answer(request, RESULT)
        assert await client.call_tool("a", {}) == DONE
        server.routes["tools/call"] = lambda request: stream(b": hello\n\n", result_event(request, RESULT))
        assert await client.call_tool("a", {}) == DONE
        posted = server.requests("tools/call")[0]
        assert posted.headers["accept"] == "application/json, text/event-stream"
        assert posted.headers["content-type"] == "application/json"
        assert posted.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-protocol-version" not in server.requests("initialize")[0].headers


async def test_a_connection_is_used_again_after_an_answer() -> None:
    """MCP-060"""
    server = HttpServer()
    server.routes["tools/call"] = lambda request: stream(result_event(request, RESULT), b": the end\n\n")
    async with http_client(server) as client:
        await server.request("GET")
        for _ in range(5):
            assert await client.call_tool("a", {}) == DONE
            await asyncio.sleep(0.005)  # the rest of the stream arrives
        assert server.connections <= 3


async def test_other_messages_come_before_the_answer() -> None:
    """MCP-060, MCP-041, MCP-021"""
    asked: list[Any] = []

    async def elicit(elicitation: Elicitation, about: Asked) -> ElicitationAnswer:
        asked.append(about.keys)
        return ElicitationAnswer(action="decline")

    answered = asyncio.Event()

    def call(request: Incoming) -> Reply:
        token = request.message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1}
        form = {"message": "Who?", "requestedSchema": {"type": "object"}}
        return stream(
            event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}),
            event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}),
            answered,
            result_event(request, RESULT),
        )

    def take(request: Incoming) -> Reply:
        answered.set()
        return Reply(202)

    seen: list[Progress] = []
    server = HttpServer({"tools/call": call, "answer": take})
    async with http_client(server, Handlers(elicit=elicit)) as client:
        other = asyncio.create_task(client.read_resource("a://1", key="other"))
        assert await client.call_tool("a", {}, key="mine", on_progress=seen.append) == DONE
        assert asked == [("mine",)]
        assert seen == [Progress(1)]
        [reply] = server.requests("answer")
        assert reply.message == {"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}
        with pytest.raises(HttpRefused):
            await other


async def test_a_session_goes_with_every_request_and_is_deleted() -> None:
    """MCP-061, MCP-066"""
    server = sessions()
    server.routes["tools/call"] = lambda request: answer(request, RESULT)
    async with http_client(server) as client:
        await client.call_tool("a", {})
    assert "mcp-session-id" not in server.received[0].headers
    assert {request.headers["mcp-session-id"] for request in server.received[1:]} == {"s1"}
    assert len(server.requests("DELETE")) == 1


async def test_without_a_session_nothing_is_deleted() -> None:
    """MCP-066"""
    server = HttpServer()
    async with http_client(server):
        pass
    assert server.requests("DELETE") == []


async def test_a_server_that_does_not_answer_the_deletion_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-066"""
    monkeypatch.setattr("holdfast.mcp.streamable_http.DELETE_SECONDS", 0.01)
    server = sessions()
    server.routes["DELETE"] = stream(FOREVER)
    async with http_client(server):
        pass
    assert len(server.requests("DELETE")) == 1


@pytest.mark.parametrize("id", ["a b", "", "x" * 2000, "\u00e4"])
async def test_a_session_id_that_is_not_valid_is_refused(id: str) -> None:
    """MCP-061"""
    server = HttpServer({"initialize": lambda request: answer(request, OPENING, mcp_session_id=id)})
    with pytest.raises(ProtocolError, match="session id"):
        async with http_client(server):
            pass


@pytest.mark.parametrize(
    ("status", "code", "message"), [(404, -32600, "not found"), (400, -32000, "Bad Request: No valid session ID")]
)
async def test_an_expired_session_is_renewed_and_the_call_repeated(status: int, code: int, message: str) -> None:
    """MCP-061, MCP-052"""
    numbers = iter(range(1, 10))
    expired = {"s1"}
    changed: list[str] = []

    def call(request: Incoming) -> Reply:
        if request.headers["mcp-session-id"] in expired:
            return failure(request, status, code, message)
        return answer(request, RESULT)

    server = HttpServer(
        {
            "initialize": lambda request: answer(request, OPENING, mcp_session_id=f"s{next(numbers)}"),
            "tools/call": call,
            "resources/subscribe": lambda request: answer(request, {}),
        }
    )
    async with http_client(server, Handlers(on_tools_changed=lambda: changed.append("tools"))) as client:
        await client.subscribe("a://1")
        results = await asyncio.gather(*(client.call_tool("a", {}) for _ in range(3)))
        assert results == [DONE] * 3
        first, second = server.requests("initialize")
        assert first.headers.keys() == second.headers.keys()  # neither a session nor a version
        assert server.requests("tools/call")[-1].headers["mcp-session-id"] == "s2"
        assert changed == ["tools"]
        again = await server.request("resources/subscribe", 2)
        assert again.headers["mcp-session-id"] == "s2"
        expired |= {"s2", "s3"}
        with pytest.raises(SessionExpired):
            await client.call_tool("a", {})


async def test_a_404_without_a_session_is_a_refusal() -> None:
    """MCP-061, MCP-060"""
    server = HttpServer({"tools/call": Reply(404, {"content-type": "text/plain"}, b"nothing here")})
    async with http_client(server) as client:
        with pytest.raises(HttpRefused, match="HTTP 404: nothing here"):
            await client.call_tool("a", {})


async def test_an_error_in_a_refusal_is_the_error_of_the_call() -> None:
    """MCP-060"""
    server = HttpServer()
    async with http_client(server) as client:
        server.routes["tools/call"] = lambda request: failure(request, 400, -32602, "bad")
        with pytest.raises(ServerError, match="-32602: bad"):
            await client.call_tool("a", {})
        server.routes["tools/call"] = lambda request: failure(request, 400, -32602, "bad", id=None)
        with pytest.raises(ServerError, match="-32602: bad"):
            await client.call_tool("a", {})


@pytest.mark.parametrize(
    "reply",
    [
        Reply(202),
        Reply(200, {"content-type": "text/html"}, b"<html>"),
        Reply(200, {}, b"{}"),
        Reply(200, {"content-type": "application/json"}, b"nonsense"),
        Reply(200, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":999,"result":{}}'),
        Reply(200, {"content-type": "application/json", "content-encoding": "br"}, b"x"),
        Reply(200, {"content-type": "application/json", "content-encoding": "gzip"}, b"x"),
    ],
)
async def test_an_answer_without_the_answer_is_a_protocol_error(reply: Reply) -> None:
    """MCP-060"""
    server = HttpServer({"tools/call": reply})
    async with http_client(server) as client:
        with pytest.raises(ProtocolError):
            await client.call_tool("a", {})


async def test_a_compressed_answer_is_read_within_the_limit() -> None:
    """MCP-069"""

    def call(request: Incoming) -> Reply:
        size = int(request.message["params"]["name"])
        text = {"content": [{"type": "text", "text": "x" * size}]}
        reply = answer(request, text, content_encoding="gzip")
        reply.body = gzip.compress(reply.body)
        return reply

    server = HttpServer({"tools/call": call})
    async with http_client(server) as client:
        assert isinstance(await client.call_tool("50000", {}), ToolResult)
        with pytest.raises(TooLarge):
            await client.call_tool("200000", {})


@pytest.mark.parametrize("kind", ["json", "stream"])
async def test_an_answer_that_is_too_large_fails_its_call_only(kind: str) -> None:
    """MCP-069"""

    def call(request: Incoming) -> Reply:
        text = {"content": [{"type": "text", "text": "x" * 200_000}]}
        return answer(request, text) if kind == "json" else stream(result_event(request, text))

    server = HttpServer({"tools/call": call, "ping": lambda request: answer(request, {})})
    async with http_client(server) as client:
        with pytest.raises(TooLarge):
            await client.call_tool("a", {})
        await client.ping()


# -- resumption ------------------------------------------------------------------------------------------------------


async def test_a_broken_stream_is_taken_up_where_it_ended() -> None:
    """MCP-062"""
    delays: list[float] = []
    calls: list[Incoming] = []

    def call(request: Incoming) -> Reply:
        calls.append(request)
        return stream(event(None, id="1", retry=250), event({"jsonrpc": "2.0", "method": "x"}, id="2"), BREAK_OFF)

    def resume(request: Incoming) -> Reply:
        match len(server.requests("GET")):
            case 1:
                return Reply(405)  # the stream for the server's own messages
            case 2:
                return Reply(503)
            case 3:
                return stream(event({"jsonrpc": "2.0", "method": "x"}, id="3"))
            case _:
                return stream(result_event(calls[0], RESULT, id="4"))

    server = HttpServer({"tools/call": call, "GET": resume})
    async with http_client(server, delays=delays) as client:
        await server.request("GET")
        assert await client.call_tool("a", {}) == DONE
        taken_up = [request.headers["last-event-id"] for request in server.requests("GET")[1:]]
        assert taken_up == ["2", "2", "3"]
        assert delays == [0.25, 0.5, 0.25]
        assert len(calls) == 1


async def test_a_stream_that_cannot_be_taken_up_fails_its_call() -> None:
    """MCP-062"""
    server = HttpServer({"tools/call": stream(event({"jsonrpc": "2.0", "method": "x"}))})
    async with http_client(server) as client:
        with pytest.raises(ServerClosed, match="before the answer"):
            await client.call_tool("a", {})
        server.routes["tools/call"] = stream(BREAK_OFF)
        with pytest.raises(ServerClosed):
            await client.call_tool("a", {})
        server.routes["tools/call"] = stream(event(None, id="1", retry=0))
        with pytest.raises(HttpRefused):
            await client.call_tool("a", {})
        server.routes["GET"] = Reply(500)
        delays: list[float] = []
        client._connection.transport._sleep = _noting(delays)  # type: ignore[attr-defined]
        with pytest.raises(ServerClosed):
            await client.call_tool("a", {})
        assert delays == [0.1, 0.2, 0.4, 0.8, 1.6]
        assert len(server.requests("tools/call")) == 4


def _noting(delays: list[float]) -> Any:
    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    return sleep


async def test_taking_up_a_stream_ends_with_the_time_of_the_call() -> None:
    """MCP-062, MCP-023"""
    server = HttpServer({"tools/call": stream(event(None, id="1")), "GET": lambda _: stream(event(None, id="1"))})
    async with http_client(server) as client:
        with pytest.raises(Timeout):
            await client.call_tool("a", {}, seconds=0.05)
        await server.request("notifications/cancelled")


async def test_a_call_is_not_sent_again_when_the_connection_is_closed() -> None:
    """MCP-062"""
    server = HttpServer()

    def close(request: Incoming) -> Reply:
        raise ConnectionResetError

    async with http_client(server) as client:
        server.routes["tools/call"] = server.routes["tools/list"] = close
        with pytest.raises(ServerClosed):
            await client.call_tool("a", {})
        assert len(server.requests("tools/call")) == 1
        with pytest.raises(ServerClosed):
            await client.list_tools()
        assert len(server.requests("tools/list")) == 2


# -- the server's own messages ---------------------------------------------------------------------------------------


async def test_announcements_come_on_a_stream_of_their_own() -> None:
    """MCP-067, MCP-050"""
    changed = asyncio.Event()
    note = event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="7")
    replies = [stream(event(None, id="6")), Reply(500), stream(note, FOREVER)]
    server = sessions()
    server.routes["GET"] = lambda _: replies.pop(0)
    delays: list[float] = []
    async with http_client(server, Handlers(on_tools_changed=changed.set), delays=delays):
        async with asyncio.timeout(10):
            await changed.wait()
        gets = server.requests("GET")
        assert [request.headers.get("last-event-id") for request in gets] == [None, "6", "6"]
        assert {request.headers["mcp-session-id"] for request in gets} == {"s1"}
        assert gets[0].headers["accept"] == "text/event-stream"
        assert 0.8 <= delays[0] <= 1.2
        assert 1.6 <= delays[1] <= 2.4


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_need_not_have_such_a_stream(status: int) -> None:
    """MCP-067"""
    server = HttpServer({"GET": Reply(status), "ping": lambda request: answer(request, {})})
    async with http_client(server) as client:
        await server.request("GET")
        await client.ping()
        assert len(server.requests("GET")) == 1


# -- redirects and authorization -------------------------------------------------------------------------------------


async def test_a_redirect_within_the_origin_is_followed() -> None:
    """MCP-063"""
    server = HttpServer()

    def moved(request: Incoming) -> Reply:
        return answer(request, RESULT) if request.path == "/new" else Reply(307, {"location": "/new"})

    server.routes["tools/call"] = moved
    async with http_client(server, headers={"Authorization": "Bearer secret"}) as client:
        assert await client.call_tool("a", {}) == DONE
        assert server.requests("tools/call")[1].headers["authorization"] == "Bearer secret"
        server.routes["tools/call"] = Reply(308, {"location": "/mcp"})
        with pytest.raises(ProtocolError, match="redirects to"):
            await client.call_tool("a", {})
        assert len(server.requests("tools/call")) == 6


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (307, "http://127.0.0.1:1/mcp"),
        (307, "https://evil.test/mcp"),
        (307, "//evil.test/mcp"),
        (307, "javascript:alert(1)"),
        (307, "file:///etc/passwd"),
        (307, ""),
        (302, "/other"),
        (303, "/other"),
        (301, "/other"),
    ],
)
async def test_other_redirects_are_not_followed(status: int, location: str) -> None:
    """MCP-063"""
    server = HttpServer({"tools/call": Reply(status, {"location": location})})
    async with http_client(server) as client:
        with pytest.raises(ProtocolError, match="redirects to"):
            await client.call_tool("a", {})
        assert len(server.requests("tools/call")) == 1


class Tokens:
    """Authorizes with the next token after each challenge."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.challenges: list[tuple[Challenge, str | None]] = []

    async def authorize(self, headers: dict[str, str]) -> None:
        headers["authorization"] = self.tokens[0]

    async def on_challenge(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        self.challenges.append((challenge, sent.get("authorization")))
        del self.tokens[0]
        return bool(self.tokens)


async def test_a_challenge_is_given_to_the_authorizer_and_the_request_repeated() -> None:
    """MCP-065"""
    refusals = {
        "old": Reply(401, {"www-authenticate": 'Bearer scope="a"'}),
        "weak": Reply(403, {"www-authenticate": "Bearer"}),
    }

    def call(request: Incoming) -> Reply:
        return refusals.get(request.headers["authorization"]) or answer(request, RESULT)

    server, tokens = HttpServer({"tools/call": call}), Tokens("old", "weak", "good")
    async with http_client(server, authorizer=tokens) as client:
        assert await client.call_tool("a", {}) == DONE
        assert [(challenge.status, sent) for challenge, sent in tokens.challenges] == [(401, "old"), (403, "weak")]
        first = tokens.challenges[0][0]
        assert first.www_authenticate == 'Bearer scope="a"'
        assert first.url == server.url


async def test_a_call_without_authorization_fails_with_the_challenge() -> None:
    """MCP-065"""
    server = HttpServer({"tools/call": Reply(401, {"www-authenticate": 'Bearer resource_metadata="https://x"'})})
    async with http_client(server) as client:
        with pytest.raises(NeedsAuthorization) as raised:
            await client.call_tool("a", {})
        assert raised.value.challenge.www_authenticate == 'Bearer resource_metadata="https://x"'
    tokens = Tokens("a", "b", "c", "d", "e")
    async with http_client(server, authorizer=tokens) as client:
        with pytest.raises(NeedsAuthorization):
            await client.call_tool("a", {})
        assert len(tokens.challenges) == 2


async def test_a_403_without_challenge_is_a_refusal() -> None:
    """MCP-065, MCP-060"""
    server = HttpServer({"tools/call": Reply(403)})
    async with http_client(server) as client:
        with pytest.raises(HttpRefused):
            await client.call_tool("a", {})


async def test_authorization_is_demanded_before_anything_is_agreed_upon() -> None:
    """MCP-065, MCP-003"""
    server = HttpServer({"initialize": Reply(401), "server/discover": Reply(401)})
    with pytest.raises(NeedsAuthorization):
        async with http_client(server):
            pass


# -- stateless -------------------------------------------------------------------------------------------------------


async def test_a_stateless_request_has_its_headers_and_no_session() -> None:
    """MCP-005, MCP-068"""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server = HttpServer(
        {
            "server/discover": lambda request: answer(request, DISCOVERY, mcp_session_id="ignored"),
            "tools/list": lambda request: answer(request, {"tools": [{"name": "t", "inputSchema": schema}]}),
            "tools/call": lambda request: answer(request, RESULT),
        }
    )
    async with http_client(server, version="2026-07-28") as client:
        await client.list_tools()
        assert await client.call_tool("t", {"region": "Köln"}) == DONE
    [call] = server.requests("tools/call")
    names = ("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region", "mcp-session-id")
    assert [call.headers.get(name) for name in names] == ["2026-07-28", "tools/call", "t", "=?base64?S8O2bG4=?=", None]
    assert [request.verb for request in server.received] == ["POST"] * 3


async def test_a_stateless_call_is_cancelled_by_closing_its_stream() -> None:
    """MCP-022"""
    left = asyncio.Event()

    class Watched(HttpServer):
        async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
            if reply.events == [FOREVER]:
                writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n")
                while not writer.is_closing():
                    writer.write(b": ping\n\n")
                    await asyncio.sleep(0.001)
                left.set()
                return False
            return await super()._reply(reply, writer)

    server = Watched({"server/discover": lambda request: answer(request, DISCOVERY), "tools/call": stream(FOREVER)})
    async with http_client(server, version="2026-07-28") as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        await server.request("tools/call")
        call.cancel()
        async with asyncio.timeout(10):
            await left.wait()
        assert server.requests("notifications/cancelled") == []


async def test_a_configured_stateless_version_does_not_lead_to_the_old_transport() -> None:
    """MCP-008, MCP-064"""
    server = HttpServer({"server/discover": Reply(404)})
    async with server.serving() as url:
        with pytest.raises(HttpRefused):
            await connect_http(url, INFO, version="2026-07-28")
        assert [request.verb for request in server.received] == ["POST"]


async def test_a_stateless_stream_is_not_taken_up() -> None:
    """MCP-062"""
    server = HttpServer(
        {"server/discover": lambda request: answer(request, DISCOVERY), "tools/call": stream(event(None, id="1"))}
    )
    async with http_client(server, version="2026-07-28") as client:
        with pytest.raises(ServerClosed):
            await client.call_tool("a", {})
        assert server.requests("GET") == []


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    """MCP-003"""
    server = HttpServer()
    async with server.serving():
        pass

    with pytest.raises(Unreachable, match="cannot be reached"):
        await connect_http(server.url, INFO)
    with pytest.raises(ProtocolError, match="not the address"):
        await connect_http("file:///etc/passwd", INFO)


async def test_a_server_that_never_answers_is_given_up() -> None:
    """MCP-023"""
    server = HttpServer({"initialize": stream(FOREVER)})
    with pytest.raises(Timeout, match="initialize"):
        async with http_client(server, timeouts=Timeouts(startup=0.05)):
            pass
