"""`@tool`: a typed function with a docstring is a tool."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_origin, get_type_hints, overload

import msgspec

from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.tool.codec import codec_of
from holdfast.core.tool.docstring import read_docstring
from holdfast.core.tool.pydantic_types import pydantic_input, uses_pydantic
from holdfast.core.tool.tool import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

Result = TypeVar("Result")
Approval: TypeAlias = "bool | Callable[..., bool | Awaitable[bool]]"
"""Whether a call needs approval: always, never, or decided by a function of arguments of the call."""

_CONSTANTS = (type(None), bool, int, float, str)


@overload
def tool(function: Callable[..., Awaitable[Result]]) -> Tool[Any, Result]: ...


@overload
def tool(function: Callable[..., Result]) -> Tool[Any, Result]: ...


def tool(function: Callable[..., Any]) -> Tool[Any, Any]:
    """Parameters become the input, the return annotation the output, the docstring the description.

    A parameter is described by `Annotated[..., "text"]`, `msgspec.Meta(description=...)`, pydantic's
    `Field(description=...)`, or in the docstring. A parameter annotated `ToolContext` receives the call's context. If a
    parameter uses pydantic, all of them are checked by pydantic. A synchronous function runs in a thread, which cannot
    be cancelled; an interruption waits for it."""
    named = function.__name__
    hints = _hints(function)
    parameters = inspect.signature(function).parameters
    documentation = read_docstring(function, parameters)
    if not documentation.description:
        raise TypeError(f"{named}: a tool needs a docstring, as that is what the model reads of it")
    taken: dict[str, tuple[Any, Any]] = {}
    receives_context = []
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{named}: the model passes arguments by name, which {parameter} cannot take")
        if name not in hints:
            raise TypeError(f"{named}: parameter {name} has no type")
        if hints[name] is ToolContext:
            receives_context.append(name)
        else:
            taken[name] = (hints[name], parameter.default)
    described = {name: text for name in taken if (text := _note(hints[name]) or documentation.parameters.get(name))}
    if any(uses_pydantic(hint) or uses_pydantic(default) for hint, default in taken.values()):
        given_type: type[Any] = pydantic_input(named, taken, described)
    else:
        given_type = _struct(named, taken, described)

    async def execute(given: Any, context: ToolContext) -> Any:
        passed = {name: getattr(given, name) for name in taken}
        passed = {name: value for name, value in passed.items() if value is not msgspec.UNSET}
        work = partial(function, **passed, **dict.fromkeys(receives_context, context))
        return await (work() if inspect.iscoroutinefunction(function) else run_to_completion(asyncio.to_thread(work)))

    return Tool(
        description=documentation.description,
        input=given_type,
        output=hints.get("return", Any),
        execute=execute,
    )


def tools(
    given: Mapping[str, Tool[Any, Any] | Callable[..., Any]], approval: Approval = False
) -> dict[str, Tool[Any, Any]]:
    """These tools, and functions as tools, by name. `approval` is the floor of all of them, in place of their own."""
    made = {name: item if isinstance(item, Tool) else tool(item) for name, item in given.items()}
    if approval is False:
        return made
    return {name: each.replace(approval=_floor(name, each, approval)) for name, each in made.items()}


def _floor(name: str, made: Tool[Any, Any], approval: Approval) -> bool | Callable[[Any], bool | Awaitable[bool]]:
    """The floor as a function of the whole input. Raises TypeError for a parameter that the tool does not have."""
    if not callable(approval):
        return approval
    decide, parameters = approval, tuple(inspect.signature(approval).parameters)
    known = codec_of(made.input).schema.get("properties", {})
    if missing := [parameter for parameter in parameters if parameter not in known]:
        raise TypeError(
            f"{name}: approval: the tool has no parameter {missing[0]}; it has {', '.join(known) or 'none'}"
        )

    def floor(given: Any) -> bool | Awaitable[bool]:
        values = given if isinstance(given, dict) else {key: getattr(given, key) for key in parameters}
        return decide(**{key: values[key] for key in parameters if values.get(key, msgspec.UNSET) is not msgspec.UNSET})

    return floor


def _struct(named: str, taken: dict[str, tuple[Any, Any]], described: dict[str, str]) -> type[Any]:
    fields = [_field(name, hint, default, described.get(name)) for name, (hint, default) in taken.items()]
    return msgspec.defstruct(named, fields, frozen=True, kw_only=True)


def _field(name: str, hint: Any, default: Any, description: str | None) -> tuple[str, Any] | tuple[str, Any, Any]:
    if default is not inspect.Parameter.empty and not isinstance(default, _CONSTANTS):
        # A schema cannot show this default, so the argument is optional and omitted from the call if not given.
        hint, default = hint | msgspec.UnsetType, msgspec.UNSET
    if description is not None and not _has_description(hint):
        hint = Annotated[hint, msgspec.Meta(description=description)]
    return (name, hint) if default is inspect.Parameter.empty else (name, hint, default)


def _note(hint: Any) -> str | None:
    """The text in `Annotated[..., "text"]`."""
    notes = hint.__metadata__ if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, str)), None)


def _has_description(hint: Any) -> bool:
    notes = getattr(hint, "__metadata__", ())
    return any(isinstance(note, msgspec.Meta) and note.description is not None for note in notes)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: {error}, and annotations are read at run time") from error
