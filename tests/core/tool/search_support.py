"""What the tests of path-taking tools share: an authorizer that writes down what it was asked, and a way to call a
tool as a turn does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.scope import Scope
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext
from holdfast.schema.session_message import TextContent

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Asked(NamedTuple):
    action: str
    resources: tuple[str, ...]
    save: tuple[str, ...]
    metadata: Mapping[str, Any]


class Asking:
    """Allows everything but the actions it is told to deny. `meanwhile` runs while a person would think."""

    def __init__(self, *denied: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.asked: list[Asked] = []
        self._denied = denied
        self._meanwhile = meanwhile

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.asked.append(Asked(action, tuple(resources), tuple(save), metadata or {}))
        if action in self._denied:
            raise Denied(f"Permission denied: {action}")
        self._meanwhile()

    @property
    def actions(self) -> list[str]:
        return [asked.action for asked in self.asked]


def caller(name: str, tool: Tool[Any, Any]) -> Callable[..., Awaitable[CallOutput]]:
    registry = ToolRegistry()
    registry.register({name: tool}, Scope())

    async def call(**arguments: Any) -> CallOutput:
        return await registry.materialize(()).execute(name, arguments, CONTEXT)

    return call


def texts(output: CallOutput) -> list[str]:
    return [part.text for part in output.content if isinstance(part, TextContent)]
