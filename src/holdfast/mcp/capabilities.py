"""Who speaks and what they can do: the first messages of a connection."""

from __future__ import annotations

from typing import Any

from holdfast.mcp.wire import Json, Wire, meta_field


class Implementation(Wire):
    """Name and version of a client or a server. A server's are its own claim and only for display."""

    name: str
    version: str = ""
    title: str | None = None
    description: str | None = None
    website_url: str | None = None


class RootsCapability(Wire):
    list_changed: bool | None = None


class ElicitationCapability(Wire):
    form: Json | None = None
    url: Json | None = None


class ClientCapabilities(Wire):
    roots: RootsCapability | None = None
    sampling: Json | None = None
    elicitation: ElicitationCapability | None = None
    experimental: Json | None = None
    extensions: Json | None = None


class ListCapability(Wire):
    """Of tools and of prompts."""

    list_changed: bool | None = None


class ResourcesCapability(Wire):
    subscribe: bool | None = None
    list_changed: bool | None = None


class ServerCapabilities(Wire):
    tools: ListCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: ListCapability | None = None
    logging: Json | None = None
    completions: Json | None = None
    experimental: Json | None = None
    extensions: Json | None = None


class InitializeParams(Wire):
    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation
    meta: Json | None = meta_field()


def read_capabilities(value: Any) -> ServerCapabilities:
    """What a server says it can do. Some send an empty array where an object belongs, and details of any type: what is
    there is offered, and a detail that is not `true` is not."""
    offered = value if isinstance(value, dict) else {}

    def details(name: str) -> Json | None:
        found = offered.get(name)
        return None if found is None or found is False else found if isinstance(found, dict) else {}

    def flag(name: str, detail: str) -> bool | None:
        return True if (details(name) or {}).get(detail) is True else None

    return ServerCapabilities(
        tools=ListCapability(list_changed=flag("tools", "listChanged")) if details("tools") is not None else None,
        prompts=ListCapability(list_changed=flag("prompts", "listChanged")) if details("prompts") is not None else None,
        resources=ResourcesCapability(
            subscribe=flag("resources", "subscribe"), list_changed=flag("resources", "listChanged")
        )
        if details("resources") is not None
        else None,
        logging=details("logging"),
        completions=details("completions"),
        experimental=details("experimental"),
        extensions=details("extensions"),
    )
