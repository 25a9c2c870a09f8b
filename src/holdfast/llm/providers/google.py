"""Google's Gemini API, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.model import Capabilities
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

ID = "google"
BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
KEY_VARIABLES = ("GOOGLE_GENERATIVE_AI_API_KEY",)
_JSON_WITH_TOOLS = pattern(r"gemini-([3-9]|\d\d)\b")


def google_capabilities(model_id: str) -> Capabilities:
    """A guess from the name. Before Gemini 3, the JSON mode is refused together with tools."""
    return Capabilities(native_json_with_tools=_JSON_WITH_TOOLS.search(model_id) is not None)


def google_route(
    key: str | None,
    *,
    id: str = ID,
    base_url: str = BASE_URL,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
) -> Route:
    auth = KeyAuth(key, "x-goog-api-key", "", source=KEY_VARIABLES[0])
    return Route(
        id, Gemini(), base_url, auth=auth, headers=tuple((headers or {}).items()), timeouts=timeouts or Timeouts()
    )
