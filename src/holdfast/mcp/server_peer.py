"""One client of a server: what was agreed upon with it, and the answers to its requests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.mcp.capabilities import ClientCapabilities, ListCapability, ServerCapabilities
from holdfast.mcp.content import ResourceLink, TextContent
from holdfast.mcp.errors import McpError, RpcError
from holdfast.mcp.input import (
    ANSWERS,
    Elicitation,
    ElicitationAnswer,
    InputAnswer,
    InputRequest,
    InputRequired,
    RootsAnswer,
    RootsRequest,
    Sampling,
    SamplingAnswer,
    method_of,
)
from holdfast.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RequestId,
    write_error,
)
from holdfast.mcp.server import ToolCall, UnknownTool
from holdfast.mcp.transport import Route
from holdfast.mcp.versions import (
    CAPABILITIES_KEY,
    HANDSHAKE,
    LATEST_HANDSHAKE,
    SERVER_KEY,
    STATELESS,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    VERSIONS,
    Version,
)
from holdfast.mcp.wire import Json, Wire, meta_field

if TYPE_CHECKING:
    from holdfast.mcp.capabilities import Implementation
    from holdfast.mcp.catalog import Tool
    from holdfast.mcp.connection import Connection, IncomingRequest
    from holdfast.mcp.results import ToolResult
    from holdfast.mcp.server import Report, Toolbox

T = TypeVar("T")

COMPLAINTS = 16
"""Of answers to what is no message that wait to be sent."""
ROUNDS = 10
"""How often one call may ask for input."""


class _Params(Wire):
    meta: Json | None = meta_field()


class _Initialize(Wire):
    protocol_version: str
    capabilities: ClientCapabilities = ClientCapabilities()


class _List(Wire):
    cursor: str | None = None


class _Call(Wire):
    name: str
    arguments: Json | None = None
    input_responses: dict[str, msgspec.Raw] | None = None
    request_state: str | None = None


class _Filter(Wire):
    tools_list_changed: bool | None = None


class _Listen(Wire):
    notifications: _Filter


class ServerPeer:
    connection: Connection

    def __init__(self, info: Implementation, toolbox: Toolbox, instructions: str | None) -> None:
        self.ended: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self._info = info
        self._toolbox = toolbox
        self._instructions = instructions
        self._version: Version | None = None
        self._capabilities = ClientCapabilities()
        self._listening: set[RequestId] = set()
        self._complaints = 0

    async def tools_changed(self) -> None:
        method = "notifications/tools/list_changed"
        with suppress(McpError):
            if self._version is not None and not self._version.stateless:
                await self.connection.notify(method)
            for id in list(self._listening):
                await self.connection.notify(method, {"_meta": {SUBSCRIPTION_KEY: id}})

    # -- for the connection ----------------------------------------------------------------------------------------

    async def on_request(self, request: IncomingRequest) -> Any:
        meta = _read(request.params, _Params).meta or {}
        if request.method == "initialize":
            return self._initialize(_read(request.params, _Initialize))
        if VERSION_KEY in meta:
            version, capabilities = self._enter_stateless(meta)
        elif self._version is not None and not self._version.stateless:
            version, capabilities = self._version, self._capabilities
        elif request.method == "ping":
            return {}
        else:
            raise RpcError(INVALID_REQUEST, "The first request must be `initialize` or carry a protocol version")
        match request.method:
            case "ping" if not version.stateless:
                return {}
            case "server/discover" if version.stateless:
                return self._complete(version, self._discovered(), cacheable=True)
            case "subscriptions/listen" if version.stateless:
                return await self._listen(request, version)
            case "tools/list":
                return await self._tools(version, _read(request.params, _List))
            case "tools/call":
                call = _read(request.params, _Call)
                return await self._call(call, version, capabilities, meta.get("progressToken"))
            case _:
                raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def on_notification(self, method: str, params: msgspec.Raw) -> None:
        pass

    def on_garbage(self, data: bytes) -> None:
        if self._complaints < COMPLAINTS:  # a client that does not read its answers gets no more of them
            self._complaints += 1
            self.connection.run(self._complain())

    def on_closed(self, error: McpError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    async def _complain(self) -> None:
        frame = write_error(None, PARSE_ERROR, "This is not a JSON-RPC message")
        try:
            with suppress(McpError):
                await self.connection.transport.send(frame, Route())
        finally:
            self._complaints -= 1

    # -- versions --------------------------------------------------------------------------------------------------

    def _initialize(self, params: _Initialize) -> Any:
        if self._version is not None and self._version.stateless:
            raise RpcError(
                UNSUPPORTED_VERSION, "Unsupported protocol version", self._supported(params.protocol_version)
            )
        name = params.protocol_version if params.protocol_version in HANDSHAKE else LATEST_HANDSHAKE
        self._version, self._capabilities = VERSIONS[name], params.capabilities
        self.connection.batches = self._version.batches
        result = {"protocolVersion": name, "capabilities": self._offered(), "serverInfo": self._info}
        return result if self._instructions is None else {**result, "instructions": self._instructions}

    def _enter_stateless(self, meta: Json) -> tuple[Version, ClientCapabilities]:
        name = meta[VERSION_KEY]
        if not isinstance(name, str) or CAPABILITIES_KEY not in meta:
            raise RpcError(INVALID_PARAMS, f"`_meta` needs `{VERSION_KEY}` and `{CAPABILITIES_KEY}`")
        if name not in STATELESS:
            raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", self._supported(name))
        if self._version is not None and not self._version.stateless:
            raise RpcError(INVALID_REQUEST, "This connection was initialized in another version")
        self._version = VERSIONS[name]
        try:
            return self._version, msgspec.convert(meta[CAPABILITIES_KEY], ClientCapabilities)
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, f"`{CAPABILITIES_KEY}` is not valid: {error}") from error

    def _supported(self, requested: str) -> Json:
        return {"supported": list(STATELESS), "requested": requested}

    def _offered(self) -> ServerCapabilities:
        return ServerCapabilities(tools=ListCapability(list_changed=True))

    def _discovered(self) -> Json:
        found: Json = {"supportedVersions": list(VERSIONS), "capabilities": self._offered()}
        return found if self._instructions is None else {**found, "instructions": self._instructions}

    def _complete(self, version: Version, result: Json, *, cacheable: bool = False) -> Json:
        if not version.stateless:
            return result
        meta = {SERVER_KEY: self._info, **result.get("_meta", {})}
        hints = {"ttlMs": 0, "cacheScope": "private"} if cacheable else {}
        return {"resultType": "complete", **result, **hints, "_meta": meta}

    async def _listen(self, request: IncomingRequest, version: Version) -> Json:
        wanted = _read(request.params, _Listen).notifications.tools_list_changed is True
        meta = {SUBSCRIPTION_KEY: request.id}
        accepted = {"toolsListChanged": True} if wanted else {}
        await self.connection.notify(
            "notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": meta}
        )
        if wanted:
            self._listening.add(request.id)
        try:
            await asyncio.shield(self.ended)
        finally:
            self._listening.discard(request.id)
        return self._complete(version, {"_meta": meta})

    # -- tools -----------------------------------------------------------------------------------------------------

    async def _tools(self, version: Version, params: _List) -> Json:
        if params.cursor is not None:
            raise RpcError(INVALID_PARAMS, "Unknown cursor")
        tools = [_tool(tool, version) for tool in await self._toolbox.tools()]
        return self._complete(version, {"tools": tools}, cacheable=True)

    async def _call(self, call: _Call, version: Version, capabilities: ClientCapabilities, token: Any) -> Json:
        report = self._reporter(token)
        answers = {key: _read_answer(raw) for key, raw in (call.input_responses or {}).items()}
        state = call.request_state
        for _ in range(ROUNDS):
            try:
                made = ToolCall(call.name, call.arguments or {}, report, answers, state)
                result = await self._toolbox.call(made)
            except UnknownTool as error:
                raise RpcError(INVALID_PARAMS, f"Unknown tool: {call.name[:200]}") from error
            if not isinstance(result, InputRequired):
                return self._complete(version, _tool_result(result, version))
            for request in result.requests.values():
                _check_capability(request, capabilities, version)
            if version.stateless:
                return _input_required(result)
            answers = {key: await self._ask(request) for key, request in result.requests.items()}
            state = result.state
        raise RpcError(INVALID_REQUEST, f"The tool asked for input more than {ROUNDS} times")

    async def _ask(self, request: InputRequest) -> InputAnswer:
        try:
            raw = await self.connection.call(method_of(request), msgspec.to_builtins(request), seconds=None)
            return msgspec.json.decode(raw, type=ANSWERS[type(request)])
        except (McpError, ValueError) as error:
            raise RpcError(INVALID_REQUEST, f"The client could not be asked: {error}") from error

    def _reporter(self, token: Any) -> Report:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            if not isinstance(token, int | str):
                return
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            sent = {name: value for name, value in params.items() if value is not None}
            with suppress(McpError):
                await self.connection.notify("notifications/progress", sent)

        return report


def _tool(tool: Tool, version: Version) -> Tool:
    """What an older version has no place for is left out."""
    schema = tool.output_schema
    fits = schema is not None and version.structured and (version.structured_any or schema.get("type") == "object")
    return tool if fits else msgspec.structs.replace(tool, output_schema=None)


def _tool_result(result: ToolResult, version: Version) -> Json:
    content = [
        TextContent(text=part.uri) if isinstance(part, ResourceLink) and not version.structured else part
        for part in result.content
    ]
    sent: Json = {"content": content, "isError": result.is_error}
    fits = version.structured_any or isinstance(result.structured, dict)
    if result.has_structured and version.structured and fits:
        sent["structuredContent"] = result.structured
    return sent if result.meta is None else {**sent, "_meta": result.meta}


def _input_required(result: InputRequired) -> Json:
    requests = {key: {"method": method_of(request), "params": request} for key, request in result.requests.items()}
    sent: Json = {"resultType": "input_required"}
    if requests:
        sent["inputRequests"] = requests
    return sent if result.state is None else {**sent, "requestState": result.state}


def _check_capability(request: InputRequest, capabilities: ClientCapabilities, version: Version) -> None:
    match request:
        case Elicitation(mode="url"):
            able = capabilities.elicitation is not None and capabilities.elicitation.url is not None
            needed: Json = {"elicitation": {"url": {}}}
        case Elicitation():
            # Without a mode the form is meant: there was no other before 2025-11-25.
            found = capabilities.elicitation
            able = found is not None and (found.form is not None or found.url is None)
            needed = {"elicitation": {"form": {}}}
        case Sampling():
            able, needed = capabilities.sampling is not None, {"sampling": {}}
        case RootsRequest():
            able, needed = capabilities.roots is not None, {"roots": {}}
    if not able:
        code = MISSING_CAPABILITY if version.stateless else INVALID_REQUEST
        raise RpcError(code, "The client lacks a capability that this call needs", {"requiredCapabilities": needed})


class _AnswerShape(msgspec.Struct):
    action: Any = None
    roots: Any = None


def _read_answer(raw: msgspec.Raw) -> InputAnswer:
    shape = _read(raw, _AnswerShape)
    if shape.action is not None:
        return _read(raw, ElicitationAnswer)
    return _read(raw, RootsAnswer) if shape.roots is not None else _read(raw, SamplingAnswer)


def _read(raw: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid parameters: {error}") from error
