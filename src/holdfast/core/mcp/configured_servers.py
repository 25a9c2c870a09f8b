"""The configured MCP servers of a Location, and what was added over the API."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config import schema
from holdfast.core.config.unsupported import RESERVED_SERVERS
from holdfast.core.secret import is_secret
from holdfast.mcp.timeouts import Timeouts
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.config.document import Document

ServerConfig = schema.LocalServer | schema.RemoteServer


class ConfiguredServer(Frozen):
    """Compared by value: a server whose configuration has not changed stays connected."""

    name: str
    config: ServerConfig
    timeouts: Timeouts
    secrets: frozenset[str] = frozenset()
    """Values that are never shown."""
    of_project: bool = False
    """The project's own configuration, which is trusted, has it."""
    in_project: bool = False
    """Whether it may start in the project's directory."""

    def __repr__(self) -> str:
        return f"ConfiguredServer({self.name})"  # it may hold keys

    @property
    def disabled(self) -> bool:
        return bool(self.config.disabled)

    @property
    def local(self) -> bool:
        """Whether it is a process that is started."""
        return isinstance(self.config, schema.LocalServer)

    @property
    def eager(self) -> bool:
        return bool(self.config.eager)

    @property
    def key(self) -> str:
        """Identifies the server whose manifest is kept: its name, and what is started or contacted. Values that may be
        secrets are not part of it, so that a new token leaves the manifest known."""
        config = self.config
        if isinstance(config, schema.LocalServer):
            named = {name: "" if is_secret(name) else text for name, text in (config.environment or {}).items()}
            what: list[Any] = ["local", config.command, config.cwd, named]
        else:
            what = ["remote", config.url, sorted(name.lower() for name in config.headers or {})]
        return f"{self.name}:{hashlib.sha256(msgspec.json.encode(what, order='sorted')).hexdigest()[:32]}"


def configured_servers(documents: Sequence[Document]) -> dict[str, ConfiguredServer]:
    """By name. A later document replaces a server whole; an entry without `type` changes the one that is known."""
    found: dict[str, dict[str, Any]] = {}
    of_project: set[str] = set()
    timeout: dict[str, int] = {}
    secrets: frozenset[str] = frozenset()
    for document in documents:
        mcp = document.data.get("mcp", {})
        timeout |= mcp.get("timeout", {})
        secrets |= document.secrets
        for name, entry in mcp.get("servers", {}).items():
            if "type" in entry:
                found[name] = entry
                (of_project.add if document.origin == "project" else of_project.discard)(name)
            elif name in found:
                found[name] = {**found[name], **entry}
    return {
        name: configured_server(name, msgspec.convert(entry, ServerConfig), timeout, secrets, name in of_project)
        for name, entry in sorted(found.items())
        if name not in RESERVED_SERVERS
    }


def configured_server(
    name: str,
    config: ServerConfig,
    timeout: Mapping[str, int] | None = None,
    secrets: frozenset[str] = frozenset(),
    of_project: bool = False,
) -> ConfiguredServer:
    """`timeout` is `mcp.timeout`, which counts where the server has none of its own."""
    own = msgspec.to_builtins(config.timeout) if config.timeout is not None else {}
    merged = {**_spread(timeout or {}), **_spread(own)}
    timeouts = Timeouts(**{kind: milliseconds / 1000 for kind, milliseconds in merged.items()})
    return ConfiguredServer(name, config, timeouts, _secrets(config, secrets), of_project)


def _spread(timeout: Mapping[str, int]) -> dict[str, int]:
    """`request` stands for both `catalog` and `execution`."""
    both = {kind: timeout["request"] for kind in ("catalog", "execution") if "request" in timeout}
    return both | {kind: value for kind, value in timeout.items() if kind != "request"}


def _secrets(config: ServerConfig, substituted: frozenset[str]) -> frozenset[str]:
    if isinstance(config, schema.RemoteServer):
        headers = config.headers or {}
        oauth = config.oauth if isinstance(config.oauth, schema.OAuth) else None
        values = {*headers.values(), *(text.rpartition(" ")[2] for text in headers.values())}  # `Bearer KEY`
        if oauth is not None and oauth.client_secret:
            values.add(oauth.client_secret)
        shown = (config.url, *headers.values())
    else:
        environment = config.environment or {}
        values = {text for name, text in environment.items() if is_secret(name)}
        shown = (*config.command, *environment.values())
    used = {secret for secret in substituted if len(secret) > 3 and any(secret in text for text in shown)}
    return frozenset(value for value in values | used if value)
