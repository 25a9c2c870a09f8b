"""Finds the endpoint and handler of a request. Literal segments take precedence over parameters; `*` matches the
rest."""

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
    """Returns the handler; its module is imported on first use."""
    params: dict[str, str]


class Routes:
    def __init__(self, api: tuple[Endpoint, ...], owners: Mapping[str, Callable[[], object]] = _NOBODY) -> None:
        """`owners` provide the handlers of groups that have state; all others are functions in `server/handlers`."""
        self._owners = owners
        self._root: dict[str, Any] = {}
        for endpoint in api:
            node = self._root
            for segment in endpoint.path.strip("/").split("/"):
                node = node.setdefault(segment, {})
            node.setdefault("", {})[endpoint.method] = endpoint
        self._handlers: dict[str, Handler] = {}

    def find(self, method: str, raw_path: bytes) -> Routed:
        """Raises ApiError. Segments are decoded after splitting, so that an escaped slash stays in its segment."""
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
                raise NotFound(f"No operation at {shown}")
            found[parameter[1:-1]] = segment
            node = node[parameter]
        methods = node.get("")
        if methods is None:
            raise NotFound(f"No operation at {shown}")
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            takes = ", ".join(sorted(methods))
            raise MethodNotAllowed(f"{shown} takes {takes}, not {method}")
        return Routed(endpoint, partial(self._handler, endpoint), found)

    def _handler(self, endpoint: Endpoint) -> Handler:
        handler = self._handlers.get(endpoint.operation)
        if handler is None:
            handler = self._handlers[endpoint.operation] = self._find_handler(endpoint)
        return handler

    def _find_handler(self, endpoint: Endpoint) -> Handler:
        module, _, function = (endpoint.handler or f"{endpoint.group}.{endpoint.name}").partition(".")
        owner = self._owners.get(endpoint.group)
        found: Handler = getattr(
            owner() if owner is not None else importlib.import_module(f"holdfast.server.handlers.{module}"), function
        )
        return found
