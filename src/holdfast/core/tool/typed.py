"""`@tool`: a typed function with a docstring is a tool."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints, overload

import msgspec

from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Result = TypeVar("Result")

_CONSTANTS = (type(None), bool, int, float, str)
_DESCRIBED = pattern(r"\s*(\w+)(?:\s*\([^)]*\))?\s*:\s+(\S.*)")


@overload
def tool(function: Callable[..., Awaitable[Result]]) -> Tool[Any, Result]: ...


@overload
def tool(function: Callable[..., Result]) -> Tool[Any, Result]: ...


def tool(function: Callable[..., Any]) -> Tool[Any, Any]:
    """Parameters become the input, the return annotation the output, the docstring's first paragraph the description.

    A parameter is described by `Annotated[..., msgspec.Meta(description=...)]` or by a line `name: text` in the
    docstring. One that is annotated `ToolContext` is told who calls. A function that is not asynchronous runs in a
    thread; it cannot be cut, so an interruption waits for it."""
    named = function.__name__
    hints = _hints(function)
    description, described = _documentation(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    receives_context = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{named}: the model passes arguments by name, which {parameter} cannot take")
        if name not in hints:
            raise TypeError(f"{named}: parameter {name} has no type")
        if hints[name] is ToolContext:
            receives_context.append(name)
        else:
            fields.append(_field(name, hints[name], parameter.default, described.get(name)))
    given_type = msgspec.defstruct(named, fields, frozen=True, kw_only=True)

    async def execute(given: Any, context: ToolContext) -> Any:
        passed = {name: getattr(given, name) for name in given.__struct_fields__}
        passed = {name: value for name, value in passed.items() if value is not msgspec.UNSET}
        work = partial(function, **passed, **dict.fromkeys(receives_context, context))
        # A thread cannot be cut, and its caller must not go on while it still acts.
        return await (work() if inspect.iscoroutinefunction(function) else run_to_completion(asyncio.to_thread(work)))

    return Tool(description=description, input=given_type, output=hints.get("return", Any), execute=execute)


def _field(name: str, hint: Any, default: Any, description: str | None) -> tuple[str, Any] | tuple[str, Any, Any]:
    if default is not inspect.Parameter.empty and not isinstance(default, _CONSTANTS):
        # Left out unless given: then the function's own default counts, which no schema could show.
        hint, default = hint | msgspec.UnsetType, msgspec.UNSET
    if description is not None and not _has_description(hint):
        hint = Annotated[hint, msgspec.Meta(description=description)]
    return (name, hint) if default is inspect.Parameter.empty else (name, hint, default)


def _has_description(hint: Any) -> bool:
    notes = getattr(hint, "__metadata__", ())
    return any(isinstance(note, msgspec.Meta) and note.description is not None for note in notes)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: {error}, and annotations are read at run time") from error


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the lines after it that describe something by name."""
    first, _, rest = (inspect.getdoc(function) or "").strip().partition("\n\n")
    if not first:
        raise TypeError(f"{function.__name__}: a tool needs a docstring, as that is what the model reads of it")
    found = (_DESCRIBED.fullmatch(line) for line in rest.splitlines())
    return " ".join(first.split()), {match[1]: match[2].strip() for match in found if match is not None}
