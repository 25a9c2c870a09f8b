"""Answers a server's requests and passes its notifications on to the handlers of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.mcp.callbacks import tell
from holdfast.mcp.errors import RpcError
from holdfast.mcp.handlers import Asked
from holdfast.mcp.input import Elicitation, RootsAnswer, Sampling
from holdfast.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND
from holdfast.mcp.results import LogMessage
from holdfast.mcp.versions import SUBSCRIPTION_KEY
from holdfast.mcp.wire import Json, meta_field

if TYPE_CHECKING:
    from holdfast.mcp.connection import Connection, IncomingRequest
    from holdfast.mcp.errors import McpError
    from holdfast.mcp.handlers import Handlers
    from holdfast.mcp.versions import Version

T = TypeVar("T")

GARBAGE_BYTES = 500


class _Log(msgspec.Struct):
    level: str
    data: Any = None
    logger: str | None = None


class _Updated(msgspec.Struct):
    uri: str


class _Complete(msgspec.Struct, rename="camel"):
    elicitation_id: str


class _Subscribed(msgspec.Struct):
    meta: Json | None = meta_field()


class ClientPeer:
    connection: Connection

    def __init__(self, handlers: Handlers) -> None:
        self.garbage = 0
        self.version: Version | None = None
        self._handlers = handlers
        self._subscription: int | None = None

    def listens(self, id: int) -> None:
        """Since 2026-07-28 changes are told only under the id of the request that listens."""
        self._subscription = id

    # -- for the connection ----------------------------------------------------------------------------------------

    async def on_request(self, request: IncomingRequest) -> Any:
        handlers = self._handlers
        if self.version is not None and self.version.stateless:
            raise RpcError(METHOD_NOT_FOUND, "A server sends no requests in this version of the protocol")
        match request.method:
            case "ping":
                return {}
            case "roots/list" if handlers.roots is not None:
                return RootsAnswer(roots=list(await handlers.roots()))
            case "elicitation/create" if handlers.elicit is not None:
                elicitation = _params(request.params, Elicitation)
                return await handlers.elicit(elicitation, self._asked(request))
            case "sampling/createMessage" if handlers.sample is not None:
                sampling = _params(request.params, Sampling)
                if sampling.uses_tools:
                    raise RpcError(INVALID_PARAMS, "A model that uses tools was not declared as a capability")
                return await handlers.sample(sampling, self._asked(request))
            case _:
                raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def on_notification(self, method: str, params: msgspec.Raw) -> None:
        handlers = self._handlers
        match method:
            case "notifications/tools/list_changed" if self._wanted(params):
                tell(handlers.on_tools_changed)
            case "notifications/prompts/list_changed" if self._wanted(params):
                tell(handlers.on_prompts_changed)
            case "notifications/resources/list_changed" if self._wanted(params):
                tell(handlers.on_resources_changed)
            case "notifications/resources/updated" if self._wanted(params):
                if handlers.on_resource_updated is not None and (updated := _lenient(params, _Updated)):
                    handlers.on_resource_updated(updated.uri)
            case "notifications/elicitation/complete":
                if handlers.on_elicitation_complete is not None and (complete := _lenient(params, _Complete)):
                    handlers.on_elicitation_complete(complete.elicitation_id)
            case "notifications/message":
                if handlers.on_log is not None and (message := _lenient(params, _Log)):
                    handlers.on_log(LogMessage(message.level, message.data, message.logger))
            case _:
                pass

    def on_garbage(self, data: bytes) -> None:
        self.garbage += 1
        if self._handlers.on_garbage is not None:
            self._handlers.on_garbage(data[:GARBAGE_BYTES], self.garbage)

    def on_closed(self, error: McpError) -> None:
        if self._handlers.on_closed is not None:
            self._handlers.on_closed(error)

    def everything_changed(self) -> None:
        """The session is a new one: lists may differ from the old one's."""
        tell(self._handlers.on_tools_changed)
        tell(self._handlers.on_prompts_changed)
        tell(self._handlers.on_resources_changed)

    def _asked(self, request: IncomingRequest) -> Asked:
        return Asked(self.connection.keys(request.answering))

    def _wanted(self, params: msgspec.Raw) -> bool:
        if self.version is None or not self.version.stateless:
            return True
        subscribed = _lenient(params, _Subscribed)
        id = (subscribed.meta or {}).get(SUBSCRIPTION_KEY) if subscribed else None
        return self._subscription is not None and str(id) == str(self._subscription)


def _params(params: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(params, type=kind)
    except (ValueError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid parameters: {error}") from error


def _lenient(params: msgspec.Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(params, type=kind)
    except (ValueError, RecursionError):
        return None
