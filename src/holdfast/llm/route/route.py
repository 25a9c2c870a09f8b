"""A route: which protocol, where, with which credential and limits. An immutable value; nothing registers itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from holdfast.llm.route.auth import Auth, NoAuth
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.llm.protocols.base import WireProtocol
    from holdfast.llm.request import Generation, HttpOverlay


class Route(Frozen):
    id: str
    protocol: WireProtocol
    base_url: str
    auth: Auth = NoAuth()
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    transport: Literal["http", "websocket"] = "http"
    generation: Generation | None = None
    provider_options: dict[str, dict[str, Any]] | None = None
    http: HttpOverlay | None = None
    output_limit: int | None = None
    timeouts: Timeouts = Timeouts()

    def url(self, model_id: str, query: dict[str, str] | None) -> str:
        """The endpoint's query first, then the request's; the same key is replaced."""
        merged = {**dict(self.query), **(query or {})}
        address = self.base_url.rstrip("/") + self.protocol.path(model_id)
        if not merged:
            return address
        return f"{address}{'&' if '?' in address else '?'}{urlencode(merged)}"
