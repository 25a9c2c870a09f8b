"""MCP servers of a Location: their configuration over the API, their status, and what they offer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.schema.record import Record

PositiveInt = Annotated[int, Meta(ge=1)]


class McpTimeouts(Record):
    """Milliseconds."""

    startup: PositiveInt | None = None
    catalog: PositiveInt | None = None
    execution: PositiveInt | None = None


class McpOAuth(Record, rename=None):
    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server that gave the secret, which is sent to no other."""
    scope: str | None = None
    callback_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    redirect_uri: str | None = None


class McpLocalConfig(Record, tag_field="type", tag="local"):
    """A server that is started: a program and its arguments."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    cwd: str | None = None
    environment: dict[str, str] | None = None
    disabled: bool | None = None
    timeout: McpTimeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


class McpRemoteConfig(Record, tag_field="type", tag="remote"):
    url: str
    headers: dict[str, str] | None = None
    oauth: McpOAuth | bool | None = None
    """False disables OAuth."""
    disabled: bool | None = None
    timeout: McpTimeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


McpConfig = McpLocalConfig | McpRemoteConfig


class McpConnected(Record, tag_field="status", tag="connected"):
    pass


class McpPending(Record, tag_field="status", tag="pending"):
    pass


class McpDisabled(Record, tag_field="status", tag="disabled"):
    pass


class McpNeedsAuth(Record, tag_field="status", tag="needs_auth"):
    pass


class McpFailed(Record, tag_field="status", tag="failed"):
    error: str


McpStatus = McpConnected | McpPending | McpDisabled | McpNeedsAuth | McpFailed


class McpServer(Record):
    name: str
    status: McpStatus
    integration_id: str | None = None
    """Of a remote server that can be signed in to."""
    state: Literal["configured", "known", "starting", "connected", "failed", "needs_auth", "disabled"] | None = None
    """Finer than `status`: a server that is `known` is not connected, and what it offers is."""
    since: int | None = None
    """When the state began."""
    error: str | None = None
    tools: int | None = None
    """How many tools it is known to offer."""
    version: str | None = None
    """Of the protocol, while connected."""
    problems: tuple[str, ...] | None = None
    """What was left out of what it offers."""
    directory: str | None = None
    """Where a local server starts; absent if that is an empty directory, made for the start."""
    directory_reason: str | None = None
    """Why it starts in an empty directory."""


class McpResource(Record):
    server: str
    name: str
    uri: str
    description: str | None = None
    mime_type: str | None = None


class McpResourceTemplate(Record):
    server: str
    name: str
    uri_template: str
    description: str | None = None
    mime_type: str | None = None


class McpResourceCatalog(Record):
    resources: tuple[McpResource, ...]
    templates: tuple[McpResourceTemplate, ...]


class McpCallResult(Record):
    """The result of a tool, as the server gave it."""

    content: tuple[dict[str, Any], ...]
    structured_content: Any = None
    is_error: bool = False


class McpLog(Record):
    """A part of a server's log. `position` is where the next part begins."""

    text: str
    position: str


class McpStatusChanged(Record):
    server: str


class McpResourcesChanged(Record):
    server: str
