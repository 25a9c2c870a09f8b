"""What a client does when a server asks for something or announces something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.mcp.errors import McpError
from holdfast.mcp.input import Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer
from holdfast.mcp.results import LogMessage
from holdfast.mcp.versions import ClientFeatures


class Asked(msgspec.Struct, frozen=True):
    """Where a request of a server comes from. `keys` are the keys of the calls that it can belong to: exactly one over
    HTTP, if the server uses the stream of that call, otherwise all that are under way."""

    keys: tuple[str, ...] = ()


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """The first three are capabilities: a server may ask only for those that are set. They are cancelled when the
    server cancels its request or the connection ends. The others are called at once and must return quickly; what they
    raise is logged and has no other effect."""

    elicit: Callable[[Elicitation, Asked], Awaitable[ElicitationAnswer]] | None = None
    sample: Callable[[Sampling, Asked], Awaitable[SamplingAnswer]] | None = None
    roots: Callable[[], Awaitable[Sequence[Root]]] | None = None

    on_tools_changed: Callable[[], None] | None = None
    on_prompts_changed: Callable[[], None] | None = None
    on_resources_changed: Callable[[], None] | None = None
    on_resource_updated: Callable[[str], None] | None = None
    on_elicitation_complete: Callable[[str], None] | None = None
    on_log: Callable[[LogMessage], None] | None = None
    on_garbage: Callable[[bytes, int], None] | None = None
    """Bytes that are no message, shortened, and how many times there were such until now."""
    on_closed: Callable[[McpError], None] | None = None
    """Called once, also after `Client.close`."""

    @property
    def features(self) -> ClientFeatures:
        return ClientFeatures(
            roots=self.roots is not None, elicitation=self.elicit is not None, sampling=self.sample is not None
        )
