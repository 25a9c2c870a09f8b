"""The parameters of what a client asks for. Fields that are unknown are ignored, as the protocol wants it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.mcp.wire import Json, Wire, meta_field

MAX_SERVERS = 50
SERVER_ITEMS = 1000
MAX_BLOCKS = 1000


class FileSystemCapabilities(Wire):
    read_text_file: bool = False
    write_text_file: bool = False


class ElicitationCapabilities(Wire):
    form: Json | None = None
    url: Json | None = None


class AuthCapabilities(Wire):
    terminal: bool = False


class ClientCapabilities(Wire):
    auth: AuthCapabilities | None = None
    fs: FileSystemCapabilities | None = None
    terminal: bool | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: Json | None = meta_field()

    @property
    def shows_terminals(self) -> bool:
        """Whether output can be shown in a terminal of the editor without a process of the editor."""
        return (self.meta or {}).get("terminal_output") is True

    @property
    def has_login_terminal(self) -> bool:
        """Whether a command can be run for a person who signs in."""
        return self.auth is not None and self.auth.terminal

    @property
    def elicits_forms(self) -> bool:
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def elicits_urls(self) -> bool:
        return self.elicitation is not None and self.elicitation.url is not None


class Initialize(Wire):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class NameValue(Wire):
    """A header or an environment variable."""

    name: str
    value: str


Pairs = Annotated[tuple[NameValue, ...], msgspec.Meta(max_length=SERVER_ITEMS)]


class ServerInput(Wire):
    """An MCP server. `type` is absent for one that is started."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    type: str | None = None
    command: str | None = None
    args: Annotated[tuple[str, ...], msgspec.Meta(max_length=SERVER_ITEMS)] = ()
    env: Pairs = ()
    url: str | None = None
    headers: Pairs = ()


class OpenSession(Wire):
    """What a Session is opened with: where, and with which servers."""

    cwd: str
    mcp_servers: Annotated[tuple[ServerInput, ...], msgspec.Meta(max_length=MAX_SERVERS)] | None = None
    additional_directories: tuple[str, ...] | None = None


class OfSession(Wire):
    session_id: str


class OpenStored(OpenSession, kw_only=True):
    session_id: str


class ListSessions(Wire):
    cwd: str | None = None
    cursor: str | None = None


class SetMode(OfSession):
    mode_id: str


class SetModel(OfSession):
    model_id: str


class SetConfigOption(OfSession):
    config_id: str
    value: Any


class ResourceContents(Wire):
    """Text or base64."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class ContentBlock(Wire):
    """A part of a prompt; `type` says which fields there are."""

    type: str
    text: str | None = None
    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None
    name: str | None = None
    resource: ResourceContents | None = None


class PromptRequest(OfSession):
    prompt: Annotated[tuple[ContentBlock, ...], msgspec.Meta(min_length=1, max_length=MAX_BLOCKS)]


class PermissionOutcome(Wire):
    outcome: str
    option_id: str | None = None


class PermissionAnswer(Wire):
    outcome: PermissionOutcome


class ElicitationAnswer(Wire):
    action: str
    content: Json | None = None


class FileText(Wire):
    content: str
