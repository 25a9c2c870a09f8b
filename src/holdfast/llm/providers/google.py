"""Google's Gemini API, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping

ID = "google"
BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
KEY_VARIABLES = ("GOOGLE_GENERATIVE_AI_API_KEY",)


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
