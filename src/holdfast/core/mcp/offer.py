"""The offer of a Context Epoch: the manifests of which its tools are made, by server name, as canonical JSON. It is
stored with the epoch, so that every request of the epoch has the same tools, in whichever process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.mcp.tool_definition import tool_definition
from holdfast.core.session.transcript import tokens
from holdfast.schema.codec import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.mcp.tool_names import NamedTool
    from holdfast.llm.request import ToolDefinition

NOTHING = ""
NO_TOOLS = ""
"""In the place of a hash: nothing of the server is offered, and names that begin with its prefix are not others'."""

_SORTED = msgspec.json.Encoder(order="sorted")


def write_offer(hashes: Mapping[str, str]) -> str:
    return _SORTED.encode(hashes).decode() if hashes else NOTHING


def read_offer(text: str) -> dict[str, str]:
    """Hashes, or NO_TOOLS, by server name."""
    try:
        return decoder(dict[str, str]).decode(text) if text else {}
    except msgspec.DecodeError:
        return {}


def definitions_tokens(tools: Iterable[NamedTool], most: int) -> int | None:
    """What a request takes that offers all of these by their names, by estimate; None if that is more than `most`."""
    total = 0
    for tool in tools:
        total += definition_tokens(tool_definition(tool))
        if total > most:
            return None
    return total


def definition_tokens(definition: ToolDefinition) -> int:
    return tokens(len(encode(definition).decode()))
