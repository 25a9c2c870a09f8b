"""Which resource of which MCP server an address names: `mcp://server/ADDRESS`, or the resource's own address if exactly
one server is known to offer it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from holdfast.core.filesystem.content import Unusable
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from holdfast.core.mcp.seam import KnownServer, Manifest

SCHEME = "mcp://"
SHOWN = 100
ADDRESS_CHARACTERS = 4096

_ABSOLUTE = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLACEHOLDER = pattern(r"\{[^{}]*\}")


class ResourceAddress(Frozen):
    server: str
    uri: str

    def __str__(self) -> str:
        return f"{SCHEME}{quote(self.server, safe='')}/{self.uri}"


def find_resource(uri: str, servers: Collection[str], known: Iterable[KnownServer]) -> ResourceAddress | None:
    """None if the address names no resource. `servers` are the names of all servers that can be used. Raises
    Unusable."""
    if uri[: len(SCHEME)].lower() == SCHEME:
        name, _, rest = uri[len(SCHEME) :].partition("/")
        server = unquote(name)
        if server not in servers:
            raise Unusable(f"there is no MCP server {server[:SHOWN]!r} here")
        return ResourceAddress(server, checked(rest if ":" in rest else unquote(rest)))
    offering = [server.name for server in known if _offers(server.manifest, uri)]
    if len(offering) > 1:
        names = ", ".join(offering)
        raise Unusable(f"the MCP servers {names} offer it: name one of them as {SCHEME}{offering[0]}/{uri[:SHOWN]}")
    return ResourceAddress(offering[0], checked(uri)) if offering else None


def checked(uri: str) -> str:
    """The address of a resource. Raises Unusable."""
    if not uri or len(uri) > ADDRESS_CHARACTERS or not uri.isprintable():
        raise Unusable("its address cannot be read")
    if (found := _PLACEHOLDER.search(uri)) is not None:
        raise Unusable(f"it is a template: write a value in place of {found[0][:SHOWN]}")
    return uri


def _offers(manifest: Manifest, uri: str) -> bool:
    if any(resource.uri == uri for resource in manifest.resources):
        return True
    return any(_matches(template.uri_template, uri) for template in manifest.templates)


def _matches(template: str, uri: str) -> bool:
    """Whether the template can be filled in to give the address. One that does not say its scheme matches nothing: it
    would match everything."""
    literals = _PLACEHOLDER.split(template)
    if not _ABSOLUTE.match(literals[0]) or len(literals) > 20 or not uri.startswith(literals[0]):
        return False
    position = len(literals[0])
    for literal in literals[1:-1]:
        if (found := uri.find(literal, position)) < 0:
            return False
        position = found + len(literal)
    return len(literals) > 1 and uri.endswith(literals[-1]) and len(uri) - len(literals[-1]) >= position
