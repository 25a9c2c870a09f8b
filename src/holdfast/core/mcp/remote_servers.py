"""The configured remote MCP servers, and the id under which the credential of each is kept."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.config.document import Document


def remote_servers(documents: Sequence[Document]) -> dict[str, schema.RemoteServer]:
    """By name. A later document replaces a server whole; an entry without `type` changes the one that is known."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for name, entry in document.data.get("mcp", {}).get("servers", {}).items():
            if "type" in entry:
                found[name] = entry
            elif name in found:
                found[name] = {**found[name], **entry}
    remote = {name: entry for name, entry in found.items() if entry["type"] == "remote"}
    return {name: msgspec.convert(entry, schema.RemoteServer) for name, entry in remote.items()}


def integration_id(name: str, url: str) -> str:
    digest = hashlib.sha1(b"\0".join((name.encode(), url.encode())), usedforsecurity=False)
    return f"mcp_{digest.hexdigest()[:16]}"
