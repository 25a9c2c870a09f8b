"""Anthropic's own API, and capabilities by model name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.model import Capabilities
from holdfast.llm.protocols.anthropic_messages import HEADERS, AnthropicMessages
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

ID = "anthropic"
BASE_URL = "https://api.anthropic.com/v1"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
# Models with a role for chronological system messages; a date may follow the name. Earlier ones answer 400.
_CHRONOLOGICAL = pattern(r"claude-(opus-(4-8|5|5-5)|sonnet-(5|5-5)|haiku-5-5|fable-5|mythos-5)(-\d{6,8})?")
# From here on thinking is adaptive and sampling controls are refused.
_ADAPTIVE = pattern(r"claude-(opus-(4-[7-9]|[5-9])|sonnet-[5-9]|haiku-[5-9]|fable|mythos)")


def anthropic_route(
    key: str | None,
    *,
    id: str = ID,
    base_url: str = BASE_URL,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
) -> Route:
    return Route(
        id,
        AnthropicMessages(),
        base_url,
        auth=KeyAuth(key, "x-api-key", "", source=KEY_VARIABLE),
        headers=(*HEADERS, *(headers or {}).items()),
        timeouts=timeouts or Timeouts(),
    )


def anthropic_capabilities(model_id: str) -> Capabilities:
    """A guess from the name; the catalog's facts replace it."""
    adaptive = _ADAPTIVE.match(model_id) is not None
    return Capabilities(
        chronological_system="system" if _CHRONOLOGICAL.fullmatch(model_id) else None,
        thinking="adaptive" if adaptive else "enabled",
        sampling=not adaptive,
        native_json_with_tools=True,
    )
