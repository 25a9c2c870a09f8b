"""What one provider turn is told about its surroundings, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.context.system_context import SystemContext


class TurnContext(Frozen):
    system: SystemContext
    hidden_tools: Callable[[], frozenset[str]]
    """Names of tools that are of no use to the turn's agent. Known once `system` was observed; empty before."""
