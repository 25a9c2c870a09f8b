"""What the parts of this package know of each other: the servers of a Location, what they said they offer, and the
people whom a server may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextvars import Context

    from holdfast.mcp.errors import NeedsAuthorization
    from holdfast.mcp.input import Elicitation, ElicitationAnswer, InputRequired, Sampling, SamplingAnswer
    from holdfast.mcp.results import Progress, PromptResult, ReadResult, ToolResult


class ManifestTool(Record):
    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    """Claims of the server; nothing is permitted because of them."""


class ManifestArgument(Record):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class ManifestPrompt(Record):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[ManifestArgument, ...] = ()


class ManifestResource(Record):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class ManifestTemplate(Record):
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class Manifest(Record):
    """What a server said it offers: tools and prompts sorted by name, resources by address, texts bounded.

    Its parts resemble those of `holdfast.mcp.catalog` and are records of their own: these are stored, and hashed by
    their bytes; they hold only what was checked; and reading them imports nothing of the protocol."""

    instructions: str | None = None
    tools: tuple[ManifestTool, ...] = ()
    prompts: tuple[ManifestPrompt, ...] = ()
    resources: tuple[ManifestResource, ...] = ()
    templates: tuple[ManifestTemplate, ...] = ()


class KnownServer(Frozen):
    name: str
    hash: str
    """Of the manifest's canonical bytes."""
    manifest: Manifest


class CallFor(Frozen):
    """On whose behalf a server is used."""

    session_id: str
    message_id: str
    call_id: str
    agent: str


class Servers(Protocol):
    """The servers of one Location."""

    @property
    def configured(self) -> bool:
        """Whether there is a server that is not disabled."""

    def known(self) -> tuple[KnownServer, ...]:
        """The servers that are not disabled and whose manifest is known, sorted by name. A new object after each
        change."""

    async def look_again(self) -> None:
        """Read what other processes have learned since of servers that are not connected here."""

    def unknown(self) -> tuple[str, ...]:
        """The names of servers that are not disabled and of which nothing is known, sorted."""

    async def learn(self, names: Collection[str] | None = None) -> bool:
        """Start servers of which nothing is known, and wait for what they offer, for a limited time: those with these
        names, or without names all that have not failed. Returns whether one is known now that was not."""

    async def manifest(self, hash: str) -> Manifest | None:
        """Any manifest that is stored, also an earlier one that an epoch refers to."""

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        whom: CallFor | None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        """Starts the server if needed. Raises McpError, ServerUnavailable or McpServerNotFound. What the server asks in
        the course of the call is put to People; with `whom` None nobody is asked."""

    async def read_resource(self, server: str, uri: str, whom: CallFor | None) -> ReadResult:
        """As `call`."""

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str], whom: CallFor | None
    ) -> PromptResult:
        """As `call`."""


class People(Protocol):
    """What a server may ask while a call is under way. All of it may wait for long, and may be cancelled."""

    async def elicit(self, server: str, request: Elicitation, whom: CallFor) -> ElicitationAnswer:
        """A question of a server, in protocol versions in which it asks during the call."""

    async def input(self, server: str, required: InputRequired, whom: CallFor) -> Mapping[str, ElicitationAnswer]:
        """Answers for all elicitations among `required.requests`, by their keys. Since 2026-07-28 a result asks: what
        is needed to go on is stored with the questions. Called again with the same questions, it gives the same
        answers."""

    async def pending(self, server: str, whom: CallFor) -> InputRequired | None:
        """What an earlier process was told by `input` for this call, if it was: the call goes on from there."""

    def completed(self, server: str, elicitation_id: str) -> None:
        """The server says that the visit to an address, which it asked for, is complete."""

    async def ended(self, whom: CallFor) -> None:
        """The call is over, or breaks off: nobody waits any more for what was asked in its course."""

    async def authorize(self, server: str, needs: NeedsAuthorization, whom: CallFor) -> bool:
        """Wait for a credential. True: try again."""


class Sampler(Protocol):
    """Gives servers answers of a model while a call is under way."""

    async def sample(
        self, server: str, request: Sampling, whom: CallFor, context: Context | None = None
    ) -> SamplingAnswer:
        """Waits while a person decides about it, and may be cancelled. `context` is that of the call, if it is not the
        current one. Raises RpcError, which the server reads."""

    async def ended(self, whom: CallFor) -> None:
        """The call is over, or breaks off."""
