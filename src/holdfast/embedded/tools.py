"""What an application adds to its own host: tools for every Location, and facts for the System Context. Both live until
the host closes, or until what `register` returned is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.core.tool.tool import Tool
from holdfast.core.tool.typed import tool as typed_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.context.source import Source

Function = TypeVar("Function", bound="Callable[..., Any]")


class HostTools:
    def __init__(self, register: Callable[[Mapping[str, Tool[Any, Any]]], Callable[[], None]]) -> None:
        self._register = register

    def register(self, tools: Mapping[str, Tool[Any, Any] | Callable[..., Any]]) -> Callable[[], None]:
        """All of them or none: raises RegistrationError. A later one of the same name covers the earlier one until it
        ends. A typed function with a docstring is a tool."""
        made = {name: given if isinstance(given, Tool) else typed_tool(given) for name, given in tools.items()}
        return self._register(made)

    @overload
    def __call__(self, function: Function) -> Function: ...

    @overload
    def __call__(self, *, name: str | None = None) -> Callable[[Function], Function]: ...

    def __call__(self, function: Any = None, *, name: str | None = None) -> Any:
        """A decorator: registers the function under its own name, or the given one, and leaves it as it is."""

        def registering(function: Function) -> Function:
            self.register({name or function.__name__: function})
            return function

        return registering if function is None else registering(function)


class HostContext:
    def __init__(self, register: Callable[[Source[Any]], Callable[[], None]]) -> None:
        self._register = register

    def register(self, source: Source[Any]) -> Callable[[], None]:
        """Contribute the source to every Session of this host, from each one's next boundary on."""
        return self._register(source)
