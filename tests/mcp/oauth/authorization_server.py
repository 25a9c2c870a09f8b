"""An MCP server that wants a token, and the authorization server that issues it: two real HTTP servers on loopback.

The authorization server follows the specification strictly: it knows its clients and their exact redirect addresses,
checks PKCE and `resource`, and rotates refresh tokens. Tests change its documents and its answers by assignment."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from tests.plain_http import loopback_listener

Headers = dict[str, str]


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: Headers = field(default_factory=dict)


@dataclass
class Received:
    method: str
    target: str
    headers: Headers
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Handler = Callable[[Received], Answer | Awaitable[Answer]]


class Site:
    """One HTTP server. `routes` maps a path to its handler; other paths are not found."""

    def __init__(self) -> None:
        self.routes: dict[str, Handler] = {}
        self.received: list[Received] = []
        self.url = ""
        self.other: Handler = lambda request: Answer(404, {"error": "not_found"})

    def paths(self) -> list[str]:
        return [request.path for request in self.received]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            self.received.append(request)
            answer = self.routes.get(request.path, self.other)(request)
            if not isinstance(answer, Answer):
                answer = await answer
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
            lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join((*lines, "connection: close", "", "")).encode() + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body)


class World:
    """`mcp` is the MCP server, `issuer` the authorization server. Both are sites."""

    def __init__(self) -> None:
        self.mcp, self.issuer = Site(), Site()
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: set[str] = set()
        self.refresh: dict[str, str] = {}
        self.issued = 0
        self.lifetime: int | None = 3600
        self.rotates = True
        self.scopes: str | None = None
        """The scopes that the token endpoint tells; None tells nothing."""
        self.callback: dict[str, str | None] = {}
        """Changes parameters of the authorization response; None removes one."""
        self.challenge: dict[str, str] = {}
        """Changes parameters of the MCP server's challenge; an empty text removes one."""
        self.resource_document: dict[str, Any] = {}
        self.server_document: dict[str, Any] = {}
        self.token_answer: Callable[[Answer], Answer] = lambda answer: answer

    @property
    def url(self) -> str:
        return f"{self.mcp.url}/mcp"

    @property
    def sign_ins(self) -> list[dict[str, str]]:
        return [request.query for request in self.issuer.received if request.path == "/authorize"]

    @property
    def token_requests(self) -> list[dict[str, str]]:
        return [request.form for request in self.issuer.received if request.path == "/token"]

    def open(self) -> None:
        """The documents and routes of an ordinary pair of servers."""
        own = self.issuer.url
        self.resource_document = {"resource": self.url, "authorization_servers": [own], "scopes_supported": ["read"]}
        self.server_document = {
            "issuer": own,
            "authorization_endpoint": f"{own}/authorize",
            "token_endpoint": f"{own}/token",
            "registration_endpoint": f"{own}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.challenge = {"resource_metadata": f"{self.mcp.url}/.well-known/oauth-protected-resource/mcp"}
        self.mcp.routes = {
            "/mcp": self.answer_mcp,
            "/.well-known/oauth-protected-resource/mcp": lambda request: Answer(body=self.resource_document),
        }
        self.issuer.routes = {
            "/.well-known/oauth-authorization-server": lambda request: Answer(body=self.server_document),
            "/authorize": self.answer_authorize,
            "/token": self.answer_token,
            "/register": self.answer_register,
        }

    def answer_mcp(self, request: Received) -> Answer:
        if request.headers.get("authorization", "").removeprefix("Bearer ") in self.access:
            return Answer(body={"jsonrpc": "2.0", "id": 0, "result": {}})
        parameters = ", ".join(f'{name}="{value}"' for name, value in self.challenge.items() if value)
        return Answer(401, {}, {"www-authenticate": f"Bearer {parameters}"})

    def answer_register(self, request: Received) -> Answer:
        id = f"client-{len(self.clients) + 1}"
        self.clients[id] = {**request.json, "client_id": id}
        if request.json["token_endpoint_auth_method"] != "none":
            self.clients[id]["client_secret"] = f"secret of {id}"
        return Answer(201, self.clients[id])

    def answer_authorize(self, request: Received) -> Answer:
        query = request.query
        client = self.clients.get(query["client_id"])
        if client is None or query["redirect_uri"] not in client["redirect_uris"]:
            return Answer(400, {"error": "invalid_client"})
        code = f"code {len(self.codes)}"
        self.codes[code] = query
        response = {"code": code, "state": query["state"], "iss": self.issuer.url, **self.callback}
        kept = {name: value for name, value in response.items() if value is not None}
        return Answer(302, None, {"location": f"{query['redirect_uri']}?{urlencode(kept)}"})

    def answer_token(self, request: Received) -> Answer:
        return self.token_answer(self._answer_token(request))

    def _answer_token(self, request: Received) -> Answer:
        form = request.form
        client_id = self._authenticated(request)
        if client_id is None:
            return Answer(401, {"error": "invalid_client"})
        if form.get("resource") != self.resource_document.get("resource", self.url):
            return Answer(400, {"error": "invalid_target"})
        if form["grant_type"] == "refresh_token":
            if self.refresh.pop(form["refresh_token"], None) != client_id:
                return Answer(400, {"error": "invalid_grant", "error_description": "unknown refresh token"})
            return self._tokens(client_id, None if self.rotates else form["refresh_token"])
        asked = self.codes.pop(form["code"], None)
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or (asked["code_challenge"], asked["redirect_uri"], asked["client_id"], asked["resource"]) != (
            digest,
            form["redirect_uri"],
            client_id,
            form["resource"],
        ):
            return Answer(400, {"error": "invalid_grant"})
        return self._tokens(client_id, None)

    def _tokens(self, client_id: str, kept: str | None) -> Answer:
        self.issued += 1
        access, refresh = f"access-{self.issued}", kept or f"refresh-{self.issued}"
        self.access = {access}
        self.refresh[refresh] = client_id
        body: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if kept is None:
            body["refresh_token"] = refresh
        if self.lifetime is not None:
            body["expires_in"] = self.lifetime
        if self.scopes is not None:
            body["scope"] = self.scopes
        return Answer(body=body)

    def _authenticated(self, request: Received) -> str | None:
        form, header = request.form, request.headers.get("authorization", "")
        if header.startswith("Basic "):
            pair = base64.b64decode(header.removeprefix("Basic ")).decode()
            id, _, secret = (unquote_plus(part) for part in pair.partition(":"))
            method = "client_secret_basic"
        else:
            id, secret = form.get("client_id", ""), form.get("client_secret", "")
            method = "client_secret_post" if secret else "none"
        client = self.clients.get(id)
        if client is None or client["token_endpoint_auth_method"] != method:
            return None
        return id if client.get("client_secret", "") == secret else None


@asynccontextmanager
async def authorization_world() -> AsyncIterator[World]:
    world = World()
    servers = []
    for site in (world.mcp, world.issuer):
        listener = loopback_listener()
        site.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        servers.append(await asyncio.start_server(site.serve, sock=listener))
    world.open()
    yield world
    for server in servers:
        server.close()


async def fetch(url: str, headers: Headers | None = None, method: str = "GET") -> Answer:
    """One request of a browser. Redirects are not followed."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    given = {"host": parts.netloc, **(headers or {})}
    lines = (f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()))
    writer.write("\r\n".join((*lines, "connection: close", "", "")).encode())
    try:
        raw = await reader.read()
    finally:
        writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *found = head.decode().split("\r\n")
    names = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in found)}
    return Answer(int(status.split(" ")[1]), body, names)


async def browse(url: str) -> Answer:
    """What a browser does with the address of a sign-in: the person agrees, and it follows the redirect."""
    answer = await fetch(url)
    assert answer.status == 302, answer
    return await fetch(answer.headers["location"])
