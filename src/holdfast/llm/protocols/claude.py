"""Rules of Claude models at every provider: cache markers in the body, the thinking control, the alphabet of ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.llm.errors import invalid_request
from holdfast.llm.request import CacheHint, CachePolicy, SystemPart, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.model import Model
    from holdfast.llm.request import Request

T = TypeVar("T", SystemPart, ToolDefinition)

MARKER_LIMIT = 4
HOUR = 3600

Lifetime = Literal["5m", "1h"]
"""Lifetime of a marker."""


class Markers:
    """The cache markers of one request, within the provider's limit. A long-lived marker may not follow a short-lived
    one, so all markers after the first short-lived one are short-lived."""

    def __init__(self, model: Model, request: Request) -> None:
        self._policy = request.cache or CachePolicy()
        self._short = False
        self.left = MARKER_LIMIT if model.capabilities.caching else 0

    def take(self, hint: CacheHint | None) -> Lifetime | None:
        """A fixed marker; None without a hint, or when the limit is reached."""
        if hint is None or self.left == 0:
            return None
        self.left -= 1
        self._short = self._short or not _is_long(hint.ttl_seconds)
        return "5m" if self._short else "1h"

    def place(self, draft: Draft, lifetime: Lifetime) -> None:
        """Note that a fixed marker is put into the open message and replaces a moving one."""
        draft.spare = self.left
        if (lifetime, self.moving) == ("1h", "5m"):
            draft.unmark_all()
        else:
            draft.unmark()

    def of_tools(self, tools: Sequence[ToolDefinition]) -> Iterator[tuple[ToolDefinition, CacheHint | None]]:
        return self._hinted(tools, automatic=self._policy.tools)

    def of_system(self, request: Request) -> Iterator[tuple[SystemPart, CacheHint | None]]:
        return self._hinted([part for part in request.system if part.text.strip()], automatic=self._policy.system)

    @property
    def moving(self) -> Lifetime:
        """The marker of the newest messages, inserted when the body is sent."""
        return "1h" if _is_long(self._policy.ttl_seconds) and not self._short else "5m"

    @property
    def newest(self) -> int:
        """How many of the newest messages get a marker."""
        return self._policy.messages

    def _hinted(self, items: Sequence[T], *, automatic: bool) -> Iterator[tuple[T, CacheHint | None]]:
        """Each part with its hint; the last one has a default hint."""
        for index, item in enumerate(items):
            last = automatic and index == len(items) - 1
            yield item, item.cache or (CacheHint(ttl_seconds=self._policy.ttl_seconds) if last else None)


def thinking(given: Any, model: Model, who: str) -> dict[str, Any] | None:
    """The thinking control for a model and a request; newer models decide the length themselves."""
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "disabled":
        return {"type": "disabled"}
    if kind == "adaptive" or (kind == "enabled" and model.capabilities.thinking == "adaptive"):
        return {"type": "adaptive"}
    if kind != "enabled":
        return None
    budget = given.get("budgetTokens", given.get("budget_tokens"))
    if not isinstance(budget, int):
        raise invalid_request(f"{who}: thinking needs a budget", parameter="thinking")
    return {"type": "enabled", "budget_tokens": budget}


def clean_id(id: str) -> str:
    """An id in Claude's alphabet; the mapping is the same for call and result."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id)


def _is_long(ttl: int | None) -> bool:
    return ttl is not None and ttl >= HOUR
