"""A small MCP server over HTTP: one JSON answer for each request, no streams, no sessions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]


class HttpServer:
    """Serves from `start` until `stop`, always at the same address. `token`, if set, is demanded of each request."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.headers: list[dict[str, str]] = []
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                self.headers.append(headers)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                status, answer = self._answer(first.split(" ")[0], headers, body)
                data = json.dumps(answer).encode() if answer is not None else b""
                kind = "content-type: application/json\r\n" if data else ""
                writer.write(f"HTTP/1.1 {status} x\r\n{kind}content-length: {len(data)}\r\n\r\n".encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, verb: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        if verb != "POST":
            return 405, None
        message = json.loads(body)
        if "id" not in message:
            return 202, None
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            error = {"code": -32000, "message": f"{headers.get('authorization')} is wrong"}
            return 200, {"jsonrpc": "2.0", "id": message["id"], "error": error}
        match message["method"]:
            case "initialize":
                info = {"name": "http", "version": "1"}
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                text = message["params"]["arguments"].get("text", "")
                result = {"content": [{"type": "text", "text": text}]}
            case _:
                error = {"code": -32601, "message": "Method not found"}
                return 200, {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}
