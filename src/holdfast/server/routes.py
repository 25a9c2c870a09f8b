"""From method and path to an endpoint and its handler. Compiled from the protocol, segment by segment; a literal wins
over a parameter, and `*` takes the rest."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from holdfast.schema.errors import MethodNotAllowedError, NotFoundError
from holdfast.server.errors import PublicFailure

if TYPE_CHECKING:
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.server.types import Handler

SHOWN = 200


class Routed(NamedTuple):
    endpoint: Endpoint
    handler: Handler
    params: dict[str, str]


class Routes:
    def __init__(self, api: tuple[Endpoint, ...]) -> None:
        self._root: dict[str, Any] = {}
        for endpoint in api:
            node = self._root
            for segment in endpoint.path.strip("/").split("/"):
                node = node.setdefault(segment, {})
            node.setdefault("", {})[endpoint.method] = endpoint
        self._handlers: dict[str, Handler] = {}

    def find(self, method: str, raw_path: bytes) -> Routed:
        """Segments are decoded after the path was split, so that an escaped slash stays inside one."""
        shown = unquote(raw_path.decode("latin-1"))[:SHOWN]
        found: dict[str, str] = {}
        node = self._root
        segments = raw_path.decode("latin-1").strip("/").split("/")
        for index, quoted in enumerate(segments):
            segment = unquote(quoted)
            if segment in node and segment and not segment.startswith(("{", "*")):
                node = node[segment]
                continue
            if "*" in node:
                node = node["*"]
                found["path"] = "/".join(map(unquote, segments[index:]))
                break
            parameter = next((key for key in node if key.startswith("{")), None)
            if parameter is None or not segment:
                raise PublicFailure(NotFoundError(message=f"There is nothing at {shown}"))
            found[parameter[1:-1]] = segment
            node = node[parameter]
        methods = node.get("")
        if methods is None:
            raise PublicFailure(NotFoundError(message=f"There is nothing at {shown}"))
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            takes = ", ".join(sorted(methods))
            raise PublicFailure(MethodNotAllowedError(message=f"{shown} takes {takes}, not {method}"))
        return Routed(endpoint, self._handler(endpoint), found)

    def _handler(self, endpoint: Endpoint) -> Handler:
        """Modules of handlers are imported when they are first needed."""
        handler = self._handlers.get(endpoint.operation)
        if handler is None:
            noun = "extensions" if endpoint.extension else endpoint.group
            module = importlib.import_module(f"holdfast.server.handlers.{noun}")
            handler = self._handlers[endpoint.operation] = getattr(module, endpoint.name)
        return handler
