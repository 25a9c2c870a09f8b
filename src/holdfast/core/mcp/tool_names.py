"""The names under which tools of MCP servers are offered, permitted and called: `<server>_<tool>`.

Invariants
- A name is a function of the servers and their tools alone; the order in which they became known plays no part.
- A name begins with the prefix of its server, so that a rule for `<server>_*` holds for all tools of that server. No
  name begins with the longer prefix of another server: rules for that server would apply to it."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.mcp.seam import Manifest, ManifestTool

LONGEST = 64
SERVER_CHARACTERS = 32
HASH_CHARACTERS = 8
SEARCH = "mcp_search"
CALL = "mcp_call"
RESERVED = frozenset(
    (SEARCH, CALL, "apply_patch", "apply_subagent", "external_directory", "doom_loop", "sandbox_escape")
)
"""Tools and permission actions of ours that have the form of such a name."""

_OTHER = pattern(r"[^A-Za-z0-9_-]")
log = logging.getLogger(__name__)


class NamedTool(Frozen):
    name: str
    """Under which it is offered, permitted and called here."""
    server: str
    tool: ManifestTool


def server_prefix(server: str) -> str:
    """What the names of all tools of this server begin with."""
    part = _OTHER.sub("_", server)
    if not part[:1].isalpha():
        part = f"mcp_{part}"
    return f"{_shortened(part, SERVER_CHARACTERS, server)}_"


def resources_action(server: str) -> str:
    """The permission action for reading a resource of this server. No tool has this name."""
    return f"{server_prefix(server)}resources"


def sampling_action(server: str) -> str:
    """The permission action for an answer of a model that this server asks for. No tool has this name."""
    return f"{server_prefix(server)}sampling"


def named_tools(manifests: Mapping[str, Manifest], servers: Iterable[str] = ()) -> tuple[NamedTool, ...]:
    """The tools in these manifests, sorted by server and name. `servers` are further servers that there are."""
    prefixes = {name: server_prefix(name) for name in {*manifests, *servers}}
    found = [(server, tool) for server in sorted(manifests) for tool in manifests[server].tools]
    plain = {(server, tool.name): _plain(prefixes[server], server, tool.name) for server, tool in found}
    times = Counter(plain.values())
    named: dict[str, NamedTool] = {}
    for server, tool in sorted(found, key=lambda item: (item[0], item[1].name)):
        name = plain[server, tool.name]
        own_actions = (resources_action(server), sampling_action(server))
        if times[name] > 1 or name in RESERVED or name in own_actions:
            name = _with_hash(name, LONGEST, f"{server}\0{tool.name}")
        if name in named or claimed_by(name, server, prefixes) is not None:
            log.warning(
                "the tool %r of the MCP server %s is left out: its name %s is not its own", tool.name, server, name
            )
            continue
        named[name] = NamedTool(name, server, tool)
    return tuple(named.values())


def claimed_by(name: str, server: str, prefixes: Mapping[str, str]) -> str | None:
    """Another server whose rules would apply to the tool of this name."""
    own = prefixes.get(server) or server_prefix(server)
    for other, prefix in prefixes.items():
        if other != server and name.startswith(prefix) and len(prefix) > len(own):
            return other
    return None


def _plain(prefix: str, server: str, tool: str) -> str:
    return _shortened(prefix + _OTHER.sub("_", tool), LONGEST, f"{server}\0{tool}")


def _shortened(text: str, most: int, identity: str) -> str:
    return text if len(text) <= most else _with_hash(text, most, identity)


def _with_hash(text: str, most: int, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:HASH_CHARACTERS]
    return f"{text[: most - HASH_CHARACTERS - 1]}_{digest}"
