"""A connected MCP server, from the client's side. All methods raise McpError."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.mcp.catalog import Listing, Prompt, Resource, ResourceTemplate, Tool, needs_task
from holdfast.mcp.client_peer import ClientPeer
from holdfast.mcp.connection import Connection
from holdfast.mcp.errors import McpError, NotOffered, ServerError, SessionExpired, Timeout
from holdfast.mcp.listing import ListKind, ListLimits, read_list
from holdfast.mcp.messages import HEADER_MISMATCH
from holdfast.mcp.negotiation import Agreement, Negotiation
from holdfast.mcp.param_headers import InvalidAnnotation, ParamHeader, param_headers, routing_headers
from holdfast.mcp.reading import read_completion, read_prompt_result, read_resource_result, read_tool_result
from holdfast.mcp.subscriptions import Subscriptions
from holdfast.mcp.timeouts import Timeouts
from holdfast.mcp.versions import Stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    import msgspec

    from holdfast.mcp.capabilities import Implementation, ServerCapabilities
    from holdfast.mcp.handlers import Handlers
    from holdfast.mcp.input import InputAnswer, InputRequired
    from holdfast.mcp.results import Completion, Progress, PromptResult, ReadResult, ToolResult
    from holdfast.mcp.transport import Transport

T = TypeVar("T")

TOOLS = ListKind("tools/list", "tools", Tool, "name")
RESOURCES = ListKind("resources/list", "resources", Resource, "uri")
TEMPLATES = ListKind("resources/templates/list", "resourceTemplates", ResourceTemplate, "uri_template")
PROMPTS = ListKind("prompts/list", "prompts", Prompt, "name")


class Client:
    """Use `connect_stdio` and `connect_http` to get one, and `close` it. It does not reconnect by itself. Once `end` is
    set every call raises it, and a new client has to be connected. Over HTTP there is no standing connection: a call
    that does not get through fails by itself, and a later one may succeed. An expired session is renewed, and the call
    is repeated that the server has refused for it."""

    def __init__(
        self,
        transport: Transport,
        info: Implementation,
        handlers: Handlers,
        *,
        timeouts: Timeouts | None = None,
        limits: ListLimits | None = None,
    ) -> None:
        self._info = info
        self._handlers = handlers
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or ListLimits()
        self._peer = ClientPeer(handlers)
        self._connection = self._peer.connection = Connection(transport, self._peer)
        self._subscriptions = Subscriptions(self._call_long, self._connection.run, self._is_open, handlers)
        self._agreement: Agreement | None = None
        self._stamp: Stamp | None = None
        self._negotiating: dict[str, Any] = {}
        self._renewing = asyncio.Lock()
        self._param_headers: dict[str, tuple[ParamHeader, ...]] = {}
        self._log_level: str | None = None

    # -- the server ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        return self._agreed.version.name

    @property
    def server(self) -> Implementation | None:
        """What the server calls itself; only for display."""
        return self._agreed.server

    @property
    def capabilities(self) -> ServerCapabilities:
        return self._agreed.capabilities

    @property
    def instructions(self) -> str | None:
        return self._agreed.instructions

    @property
    def end(self) -> McpError | None:
        """Why the connection ended; None while it is open."""
        return self._connection.end

    @property
    def garbage(self) -> int:
        """How many times the server sent something that is no message."""
        return self._peer.garbage

    async def start(self, *, version: str | None = None, last_version: str | None = None) -> None:
        """Connects and agrees on a version; see `Negotiation`. On failure the client has to be closed."""
        self._negotiating = {"version": version, "last_version": last_version}

        async def start() -> None:
            await self._connection.start()
            await self._agree()

        await self._within_startup(start)

    async def close(self) -> None:
        """Ends the connection and everything that was started for it. Calls that are under way fail."""
        await self._connection.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- catalogue -------------------------------------------------------------------------------------------------

    async def list_tools(self) -> Listing[Tool]:
        if self.capabilities.tools is None:
            return Listing(())
        listing = await self._list(TOOLS, self._check_tool)
        self.know_tools(listing.items)
        return listing

    async def list_resources(self) -> Listing[Resource]:
        return await self._list(RESOURCES) if self.capabilities.resources else Listing(())

    async def list_resource_templates(self) -> Listing[ResourceTemplate]:
        return await self._list(TEMPLATES) if self.capabilities.resources else Listing(())

    async def list_prompts(self) -> Listing[Prompt]:
        return await self._list(PROMPTS) if self.capabilities.prompts else Listing(())

    def know_tools(self, tools: Iterable[Tool]) -> None:
        """Tells of tools that were listed by another client before. Over HTTP since 2026-07-28 a call repeats some of
        its arguments in headers, which the schemas of the tools name. `list_tools` does this by itself."""
        found: dict[str, tuple[ParamHeader, ...]] = {}
        if self._agreed.version.stateless:
            for tool in tools:
                try:
                    if headers := param_headers(tool.input_schema):
                        found[tool.name] = headers
                except InvalidAnnotation:
                    continue
        self._param_headers = found

    # -- calls -----------------------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        seconds: float | None = None,
        answers: Mapping[str, InputAnswer] | None = None,
        state: str | None = None,
    ) -> ToolResult | InputRequired:
        """`key` names the call for handlers of requests that come in its course. After InputRequired the same call is
        made again, with `answers` and `state`. Cancelling it cancels it at the server."""
        params = {"name": name, "arguments": dict(arguments)} | _input(answers, state)
        seconds = self._timeouts.execution if seconds is None else seconds

        async def call() -> msgspec.Raw:
            return await self._call("tools/call", params, seconds, on_progress=on_progress, key=key, repeatable=False)

        try:
            return read_tool_result(await call(), self._handlers.features)
        except ServerError as error:
            if error.code != HEADER_MISMATCH or not self._agreed.version.stateless:
                raise
        await self.list_tools()  # the server has not run the call: the tool's schema is another one by now
        return read_tool_result(await call(), self._handlers.features)

    async def read_resource(
        self,
        uri: str,
        *,
        key: str | None = None,
        seconds: float | None = None,
        answers: Mapping[str, InputAnswer] | None = None,
        state: str | None = None,
    ) -> ReadResult | InputRequired:
        seconds = self._timeouts.execution if seconds is None else seconds
        raw = await self._call("resources/read", {"uri": uri} | _input(answers, state), seconds, key=key)
        return read_resource_result(raw, self._handlers.features)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        seconds: float | None = None,
        answers: Mapping[str, InputAnswer] | None = None,
        state: str | None = None,
    ) -> PromptResult | InputRequired:
        seconds = self._timeouts.execution if seconds is None else seconds
        params = {"name": name, "arguments": dict(arguments or {})} | _input(answers, state)
        raw = await self._call("prompts/get", params, seconds, key=key)
        return read_prompt_result(raw, self._handlers.features)

    async def complete(
        self, reference: Mapping[str, str], argument: str, value: str, *, known: Mapping[str, str] | None = None
    ) -> Completion:
        """Suggestions for an argument of a prompt (`{"type": "ref/prompt", "name": …}`) or of a template of resources
        (`{"type": "ref/resource", "uri": …}`)."""
        if self.capabilities.completions is None:
            raise NotOffered("completions")
        params: dict[str, Any] = {"ref": dict(reference), "argument": {"name": argument, "value": value}}
        if known:
            params["context"] = {"arguments": dict(known)}
        return read_completion(await self._call("completion/complete", params, self._timeouts.catalog))

    # -- notices ---------------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str) -> None:
        """From now on `on_resource_updated` is called when the resource, or one below it, has changed."""
        await self._subscriptions.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self._subscriptions.unsubscribe(uri)

    async def set_log_level(self, level: str) -> None:
        """From now on `on_log` is called for messages of this level and above."""
        if self.capabilities.logging is None:
            raise NotOffered("log messages")
        if not self._agreed.version.stateless:
            await self._call("logging/setLevel", {"level": level}, self._timeouts.catalog)
        self._log_level = level

    async def ping(self) -> None:
        """Whether the server answers at all. Since 2026-07-28 there is no such request."""
        if not self._agreed.version.stateless:
            await self._call("ping", {}, self._timeouts.catalog)

    # -- requests --------------------------------------------------------------------------------------------------

    @property
    def _agreed(self) -> Agreement:
        if self._agreement is None:
            raise RuntimeError("the client has not been started")
        return self._agreement

    async def _within_startup(self, work: Callable[[], Awaitable[None]]) -> None:
        seconds = self._timeouts.startup
        try:
            async with asyncio.timeout(seconds) as limit:
                await work()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Timeout("initialize", seconds) from error

    async def _agree(self) -> None:
        negotiation = Negotiation(
            self._connection,
            self._info,
            self._handlers.features,
            probe_seconds=self._timeouts.probe_limit,
            **self._negotiating,
        )
        agreement = self._agreement = await negotiation.agree()
        self._negotiating["last_version"] = agreement.version.name
        self._peer.version = agreement.version
        self._stamp = Stamp(agreement.version, self._info, self._handlers.features)
        self._subscriptions.begin(agreement.version, agreement.capabilities)

    async def _call(
        self,
        method: str,
        params: dict[str, Any],
        seconds: float | None,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        key: str | None = None,
        repeatable: bool = True,
    ) -> msgspec.Raw:
        agreement = self._agreed
        try:
            return await self._send(method, params, seconds, on_progress, key, repeatable)
        except SessionExpired:
            await self._renew(agreement)
            return await self._send(method, params, seconds, on_progress, key, repeatable)

    async def _send(
        self,
        method: str,
        params: dict[str, Any],
        seconds: float | None,
        on_progress: Callable[[Progress], None] | None,
        key: str | None,
        repeatable: bool,
    ) -> msgspec.Raw:
        version, stamp = self._agreed.version, self._stamp
        assert stamp is not None
        headers: dict[str, str] = {}
        if version.stateless:
            headers = routing_headers(version.name, method, params, self._headers_of(method, params))
            params = stamp.request(params, log_level=self._log_level)
        return await self._connection.call(
            method,
            params,
            seconds=seconds,
            headers=headers,
            on_progress=on_progress,
            key=key,
            repeatable=repeatable,
            on_sent=self._peer.listens if method == "subscriptions/listen" else None,
        )

    async def _call_long(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        seconds = None if method == "subscriptions/listen" else self._timeouts.catalog
        return await self._call(method, params, seconds)

    async def _renew(self, agreement: Agreement) -> None:
        """A new session. Several calls may find the old one expired."""
        async with self._renewing:
            if self._agreement is not agreement:
                return
            await self._within_startup(self._agree)
        self._peer.everything_changed()

    def _is_open(self) -> bool:
        return self._connection.end is None

    def _headers_of(self, method: str, params: dict[str, Any]) -> tuple[ParamHeader, ...]:
        return self._param_headers.get(params["name"], ()) if method == "tools/call" else ()

    async def _list(
        self, kind: ListKind[T], check: Callable[[T, msgspec.Raw], str | None] = lambda entry, raw: None
    ) -> Listing[T]:
        seconds = self._timeouts.catalog

        async def fetch(params: dict[str, Any]) -> msgspec.Raw:
            return await self._call(kind.method, params, None)

        try:
            async with asyncio.timeout(seconds) as limit:
                return await read_list(kind, fetch, self._limits, check=check)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Timeout(kind.method, seconds) from error

    def _check_tool(self, tool: Tool, raw: msgspec.Raw) -> str | None:
        version, data = self._agreed.version, bytes(raw)
        if version.tasks and b"taskSupport" in data and needs_task(raw):
            return "it can only be called as a task, which is not supported"
        if version.stateless and self._connection.transport.has_headers and b"x-mcp-header" in data:
            try:
                param_headers(tool.input_schema)
            except InvalidAnnotation as error:
                return str(error)
        return None


def _input(answers: Mapping[str, InputAnswer] | None, state: str | None) -> dict[str, Any]:
    params: dict[str, Any] = {"inputResponses": dict(answers)} if answers else {}
    return params if state is None else {**params, "requestState": state}
