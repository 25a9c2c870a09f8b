"""What Claude takes wherever it is served: cache markers inside the body, a control for thinking, a narrow alphabet."""

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
"""Of a marker."""


class Markers:
    """The markers of one request, within the provider's limit. A longer-lived one may not follow a shorter-lived one,
    so the first short one makes all after it short."""

    def __init__(self, model: Model, request: Request) -> None:
        self._policy = request.cache or CachePolicy()
        self._short = False
        self.left = MARKER_LIMIT if model.capabilities.caching else 0

    def take(self, hint: CacheHint | None) -> Lifetime | None:
        """Of one that stays where it is; None where there is no hint for it, or no more room."""
        if hint is None or self.left == 0:
            return None
        self.left -= 1
        self._short = self._short or not _is_long(hint.ttl_seconds)
        return "5m" if self._short else "1h"

    def place(self, draft: Draft, lifetime: Lifetime) -> None:
        """It is about to be put into the open message, in place of one that would move."""
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
        """Of those that the newest messages to the model get when the body is sent."""
        return "1h" if _is_long(self._policy.ttl_seconds) and not self._short else "5m"

    @property
    def newest(self) -> int:
        """How many messages those are."""
        return self._policy.messages

    def _hinted(self, items: Sequence[T], *, automatic: bool) -> Iterator[tuple[T, CacheHint | None]]:
        """Each with its own hint; the last has one by itself."""
        for index, item in enumerate(items):
            last = automatic and index == len(items) - 1
            yield item, item.cache or (CacheHint(ttl_seconds=self._policy.ttl_seconds) if last else None)


def thinking(given: Any, model: Model, who: str) -> dict[str, Any] | None:
    """The control that a model takes for what was asked: newer ones think as long as they like."""
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
    """Ids of other providers, made acceptable here; call and result change alike."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id)


def _is_long(ttl: int | None) -> bool:
    return ttl is not None and ttl >= HOUR
