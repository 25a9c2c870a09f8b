"""Structured answers: `generate_object` forces a call of one synthetic tool and validates its input.

This works with every protocol. For models whose provider has a better JSON mode, that is used instead. No tool is run.
An invalid answer is requested again at most once, if the caller asks for it."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.answer_format import WRAPPER, wrap
from holdfast.llm.errors import Answered, LLMError, excerpt, invalid_output
from holdfast.llm.json_schema import violation
from holdfast.llm.model import deep_merge
from holdfast.llm.native_schema import native_schema, without_null_options
from holdfast.llm.request import Message, Request, ToolChoice, ToolDefinition, tool_result, user
from holdfast.llm.response import Response, fold
from holdfast.llm.route.retry import DEFAULT_RETRY, Retry
from holdfast.llm.stream import stream
from holdfast.llm.tool_schema import open_root, schema_of
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.llm.model import Model
    from holdfast.llm.route.transport import Transport

T = TypeVar("T")

TOOL = "generate_object"
DESCRIPTION = "Return the structured result by calling this tool."


class Round(Frozen):
    response: Response
    events: tuple[ev.Event, ...]


class Generated(Frozen, Generic[T]):
    value: T
    rounds: tuple[Round, ...]

    @property
    def response(self) -> Response:
        return self.rounds[-1].response

    @property
    def events(self) -> tuple[ev.Event, ...]:
        return tuple(event for item in self.rounds for event in item.events)

    @property
    def usage(self) -> ev.Usage | None:
        """Usage of all rounds together."""
        return _total(self.rounds)


@overload
async def generate_object(
    transport: Transport,
    model: Model,
    request: Request,
    kind: type[T],
    *,
    native: bool | None = None,
    repair: bool = False,
    retry: Retry = DEFAULT_RETRY,
) -> Generated[T]: ...


@overload
async def generate_object(
    transport: Transport,
    model: Model,
    request: Request,
    kind: Any,
    *,
    native: bool | None = None,
    repair: bool = False,
    retry: Retry = DEFAULT_RETRY,
) -> Generated[Any]: ...


async def generate_object(
    transport: Transport,
    model: Model,
    request: Request,
    kind: Any,
    *,
    native: bool | None = None,
    repair: bool = False,
    retry: Retry = DEFAULT_RETRY,
) -> Generated[Any]:
    """An answer of this kind: a type that msgspec can convert to, or a JSON Schema as a dict.

    `native` asks for the provider's JSON mode, which is used if it accepts the schema; by default the model's
    capabilities decide. `repair` allows one more round, in which the model is shown the violation. Raises LLMError,
    with InvalidProviderOutput for an invalid answer."""
    shape = _shape(kind)
    wanted = model.capabilities.native_json if native is None else native
    accepted = native_schema(model, shape.schema) if wanted else None
    by_format = accepted is not None
    asked = _formatted(request, accepted) if accepted is not None else _forced(model, request, shape)
    rounds: tuple[Round, ...] = ()
    while True:
        rounds = (*rounds, await _round(transport, model, asked, retry))
        try:
            given = _said(rounds[-1]) if by_format else _called(rounds[-1])
            return Generated(shape.check(given), rounds)
        except _Misfit as misfit:
            if not repair or len(rounds) > 1:
                failure = invalid_output(f"the structured answer is not usable: {misfit.why}", misfit.raw)
                failure.usage = _total(rounds)
                raise failure from None
            asked = _again(asked, rounds[-1].response, misfit.why, by_format=by_format)


class _Misfit(Exception):
    def __init__(self, why: str, raw: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.raw = raw


class _Shape(Frozen):
    """`schema` is what the provider sees, always an object; `check` turns what comes back into the value."""

    schema: dict[str, Any]
    check: Callable[[dict[str, Any]], Any]


def _shape(kind: Any) -> _Shape:
    raw = isinstance(kind, dict)
    schema = open_root(kind) if raw else schema_of(kind)
    wrapped = schema.get("type") != "object" or any(key in schema for key in ("anyOf", "oneOf", "allOf"))

    def check(given: dict[str, Any]) -> Any:
        if wrapped and WRAPPER not in given:
            raise _Misfit(f"$: {WRAPPER!r} is missing")
        value = without_null_options(schema, given[WRAPPER] if wrapped else given)
        if raw:
            if (wrong := violation(kind, value)) is not None:
                raise _Misfit(wrong)
            return value
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise _Misfit(str(error)) from error

    return _Shape(wrap(schema) if wrapped else schema, check)


def _forced(model: Model, request: Request, shape: _Shape) -> Request:
    """Claude refuses a forced call together with thinking, so thinking is turned off."""
    silent = {"anthropic": {"thinking": None}, "bedrock": {"thinking": None}}
    namespace = model.route.protocol.namespace
    options = deep_merge(request.provider_options, {namespace: silent[namespace]} if namespace in silent else None)
    return msgspec.structs.replace(
        request,
        tools=(ToolDefinition(name=TOOL, description=DESCRIPTION, input_schema=shape.schema),),
        tool_choice=ToolChoice(type="tool", name=TOOL),
        provider_options=options or None,
        response_format=None,
    )


def _formatted(request: Request, schema: dict[str, Any]) -> Request:
    return msgspec.structs.replace(
        request,
        tools=(),
        tool_choice=None,
        response_format={"type": "json", "name": TOOL, "schema": schema, "strict": True},
    )


async def _round(transport: Transport, model: Model, request: Request, retry: Retry) -> Round:
    events: list[ev.Event] = []
    async with aclosing(stream(transport, model, request, retry=retry)) as batches:
        async for batch in batches:
            events += batch
    response = fold(events)
    if (error := response.error) is not None:
        raise LLMError(
            error.reason,  # type: ignore[arg-type]
            error.message,
            classification=error.classification,
            retryable=error.retryable,
            usage=response.usage,
            answered=Answered(code=error.code, retry_after_ms=error.retry_after_ms),
        )
    return Round(response, tuple(events))


def _called(given: Round) -> dict[str, Any]:
    call = next((item for item in given.events if isinstance(item, ev.ToolCall) and item.name == TOOL), None)
    if call is None:
        raise _Misfit(f"the model did not call {TOOL} (finish reason {given.response.reason})", given.response.text)
    if call.invalid is not None:
        raise _Misfit(call.invalid, call.raw or "")
    return call.input


def _said(given: Round) -> dict[str, Any]:
    text = given.response.text
    try:
        value = decode_any(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Misfit(f"it is not JSON ({error}; finish reason {given.response.reason})", text) from error
    if not isinstance(value, dict):
        raise _Misfit("it is not a JSON object", text)
    return value


def _again(asked: Request, response: Response, why: str, *, by_format: bool) -> Request:
    """The conversation with the invalid answer and its violation added."""
    answered = (Message(role="assistant", content=response.parts),) if response.parts else ()
    wrong = excerpt(why)
    if response.calls:
        failures = {"type": "error", "value": f"The input does not fit the schema: {wrong}. Call the tool again."}
        reply = tuple(tool_result(call.id, call.name, failures) for call in response.calls)
    elif by_format:
        reply = (user(f"That does not fit the schema: {wrong}. Answer again, with nothing but the JSON."),)
    else:
        reply = (user(f"Give the result by calling the tool {TOOL}."),)
    return msgspec.structs.replace(asked, messages=(*asked.messages, *answered, *reply))


def _total(rounds: Iterable[Round]) -> ev.Usage | None:
    used = [item.response.usage for item in rounds if item.response.usage is not None]
    if len(used) < 2:
        return used[0] if used else None
    names = ("input", "output", "total", "non_cached", "cache_read", "cache_write", "reasoning")
    known = {name: [count for item in used if (count := getattr(item, name)) is not None] for name in names}
    return ev.Usage(**{name: sum(counts) for name, counts in known.items() if counts})
