"""Tools and context sources that an application adds to its host. Both stay until the host closes or the function that
`register` returned is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.context.source import Source
    from holdfast.core.tool import typed
    from holdfast.core.tool.tool import Tool
    from holdfast.core.tool.typed import Approval
else:
    typed = deferred("holdfast.core.tool.typed")

Function = TypeVar("Function", bound="Callable[..., Any]")


class HostTools:
    def __init__(self, register: Callable[[Mapping[str, Tool[Any, Any]]], Callable[[], None]]) -> None:
        self._register = register

    def register(
        self, tools: Mapping[str, Tool[Any, Any] | Callable[..., Any]], *, approval: Approval = False
    ) -> Callable[[], None]:
        """Register all tools, or none and raise RegistrationError. A tool hides an earlier one of the same name until
        it is removed. A typed function with a docstring is a tool. Returns a function that removes them.

        Permission rules apply to a tool by its name; without one it is allowed. With `approval=True` a person approves
        each call, whatever the rules allow. A function decides from the validated arguments, of which it takes those
        that it names: `approval=lambda amount: amount > 100`. It runs on the event loop, and may be asynchronous."""
        return self._register(typed.tools(tools, approval))

    @overload
    def __call__(self, function: Function) -> Function: ...

    @overload
    def __call__(self, *, name: str | None = None, approval: Approval = False) -> Callable[[Function], Function]: ...

    def __call__(self, function: Any = None, *, name: str | None = None, approval: Approval = False) -> Any:
        """Decorator that registers the function under its own or the given name, and returns it unchanged. See
        `register` about `approval`."""

        def registering(function: Function) -> Function:
            self.register({name or function.__name__: function}, approval=approval)
            return function

        return registering if function is None else registering(function)


class HostContext:
    def __init__(self, register: Callable[[Source[Any]], Callable[[], None]]) -> None:
        self._register = register

    def register(self, source: Source[Any]) -> Callable[[], None]:
        """Add the source to every Session of this host, from its next Provider Turn on. Returns a function that removes
        it."""
        return self._register(source)
