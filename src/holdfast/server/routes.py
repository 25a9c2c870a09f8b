"""From method and path to an endpoint and its handler. Compiled from the protocol, segment by segment; a literal wins
over a parameter, and `*` takes the rest."""

from __future__ import annotations

import importlib
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from holdfast.schema.exceptions import MethodNotAllowed, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.protocol.endpoint import Endpoint
    from holdfast.server.types import Handler

SHOWN = 200

_NOBODY: Mapping[str, Callable[[], object]] = MappingProxyType({})


class Routed(NamedTuple):
    endpoint: Endpoint
    handler: Callable[[], Handler]
    """Modules of handlers are imported when they are first needed."""
    params: dict[str, str]


class Routes:
    def __init__(self, api: tuple[Endpoint, ...], owners: Mapping[str, Callable[[], object]] = _NOBODY) -> None:
        """`owners` answer for groups that have a state of their own; all others have a module of handlers."""
        self._owners = owners
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
                raise NotFound(f"There is nothing at {shown}")
            found[parameter[1:-1]] = segment
            node = node[parameter]
        methods = node.get("")
        if methods is None:
            raise NotFound(f"There is nothing at {shown}")
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            takes = ", ".join(sorted(methods))
            raise MethodNotAllowed(f"{shown} takes {takes}, not {method}")
        return Routed(endpoint, partial(self._handler, endpoint), found)

    def _handler(self, endpoint: Endpoint) -> Handler:
        handler = self._handlers.get(endpoint.operation)
        if handler is None:
            handler = self._handlers[endpoint.operation] = getattr(self._owner(endpoint), endpoint.name)
        return handler

    def _owner(self, endpoint: Endpoint) -> object:
        if endpoint.group in self._owners:
            return self._owners[endpoint.group]()
        return importlib.import_module(f"holdfast.server.handlers.{endpoint.handlers or endpoint.group}")
