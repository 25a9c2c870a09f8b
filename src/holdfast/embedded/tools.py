"""Tools and context sources that an application adds to its host. Both stay until the host closes or the function that
`register` returned is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.core.tool.tool import Tool
from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.context.source import Source
    from holdfast.core.tool import typed
else:
    typed = deferred("holdfast.core.tool.typed")

Function = TypeVar("Function", bound="Callable[..., Any]")


class HostTools:
    def __init__(self, register: Callable[[Mapping[str, Tool[Any, Any]]], Callable[[], None]]) -> None:
        self._register = register

    def register(self, tools: Mapping[str, Tool[Any, Any] | Callable[..., Any]]) -> Callable[[], None]:
        """Register all tools, or none and raise RegistrationError. A tool hides an earlier one of the same name until
        it is removed. A typed function with a docstring is a tool. Returns a function that removes them."""
        made = {name: given if isinstance(given, Tool) else typed.tool(given) for name, given in tools.items()}
        return self._register(made)

    @overload
    def __call__(self, function: Function) -> Function: ...

    @overload
    def __call__(self, *, name: str | None = None) -> Callable[[Function], Function]: ...

    def __call__(self, function: Any = None, *, name: str | None = None) -> Any:
        """Decorator that registers the function under its own or the given name, and returns it unchanged."""

        def registering(function: Function) -> Function:
            self.register({name or function.__name__: function})
            return function

        return registering if function is None else registering(function)


class HostContext:
    def __init__(self, register: Callable[[Source[Any]], Callable[[], None]]) -> None:
        self._register = register

    def register(self, source: Source[Any]) -> Callable[[], None]:
        """Add the source to every Session of this host, from its next Provider Turn on. Returns a function that removes
        it."""
        return self._register(source)
