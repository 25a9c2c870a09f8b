"""The format of a structured answer: how a request asks for it, and how the value is read from the answer.

A request asks in the provider's own JSON mode where the model has one that accepts the schema; otherwise it offers a
tool whose input is the answer."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.llm.request import ToolChoice, ToolDefinition
from holdfast.llm.tool_schema import COMBINERS, DEFINITIONS, nullable_types, open_root
from holdfast.schema.codec import decode_any
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.nesting import LEVELS, is_nested_deeper
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from holdfast.llm import json_schema
    from holdfast.llm import native_schema as native
    from holdfast.llm.model import Model
    from holdfast.llm.tool_schema import Schema
else:
    json_schema = deferred("holdfast.llm.json_schema")
    native = deferred("holdfast.llm.native_schema")

TOOL = "StructuredOutput"
DESCRIPTION = "Gives the final answer. Call it once, when all other work is done; its input is the answer."
SENTENCE = (
    "The user asked for an answer in a fixed form. When all other work is done, give the final answer by calling the "
    "tool {tool} with input that matches its schema. Text beside the call is not part of the answer."
)
WRAPPER = "value"
"""Name under which a value that is not an object is wrapped, because the input of a tool must be an object."""
STARTS = 16
"""Most code blocks, and most brackets, of a text in which a JSON value is looked for."""
PROBLEM_CHARACTERS = 2_000

Refusable = Literal["native", "forced"]
"""Ways of asking that a provider may refuse: its JSON mode, and a forced choice of tools."""

_FENCE = pattern(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_NATIVE_WORDS = pattern(
    r"response.?format|json.?schema|output.?config|text.?format|response.?(mime|schema)|structured.?output|grammar",
    re.IGNORECASE,
)
_CHOICE_WORDS = pattern(r"tool.?choice|forced?\b.*\btool|function.?calling.?config", re.IGNORECASE)


class Value(Frozen):
    value: Any


class Problem(Frozen):
    """Why an answer is not usable, in words for the model."""

    text: str


class AskedFormat(Frozen):
    """How one request asks for the format."""

    response_format: dict[str, Any] | None = None
    """For the provider's JSON mode."""
    tool: ToolDefinition | None = None
    """Offered beside the other tools, if there is no JSON mode."""
    tool_choice: ToolChoice | None = None
    sentence: str | None = None
    without_thinking: bool = False
    """Claude refuses a forced call together with thinking."""


class AnswerFormat:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        root = {key: value for key, value in open_root(schema).items() if key != "$schema"}
        self.wrapped = root.get("type") != "object" or any(key in root for key in COMBINERS)
        self.offered = wrap(root) if self.wrapped else root
        """What the provider is given: always an object."""

    def ask(
        self,
        model: Model,
        tools: Sequence[ToolDefinition],
        *,
        thinks: bool = False,
        again: bool = False,
        refused: Collection[Refusable] = (),
    ) -> AskedFormat:
        """`tools` are the others that the request offers. While a model of Claude thinks, it may choose freely; when it
        is asked `again`, or for the last time, the call is forced and it does not think."""
        able = model.capabilities.native_json and (not tools or model.capabilities.native_json_with_tools)
        if able and "native" not in refused and (schema := native.native_schema(model, self.offered)) is not None:
            return AskedFormat(response_format={"type": "json", "name": TOOL, "schema": schema, "strict": True})
        name = _unused(tool.name for tool in tools)
        free = "forced" in refused or (thinks and not again)
        forced = ToolChoice(type="required") if tools else ToolChoice(type="tool", name=name)
        return AskedFormat(
            tool=ToolDefinition(name=name, description=DESCRIPTION, input_schema=nullable_types(self.offered)),
            tool_choice=ToolChoice(type="auto") if free else forced,
            sentence=SENTENCE.format(tool=name),
            without_thinking=thinks and not free,
        )

    def read_input(self, given: Any) -> Value | Problem:
        """The answer in the input of the tool."""
        return self._judged(given)

    def read_text(self, text: str) -> Value | Problem:
        """The answer in a text, which may have other text around it: the first JSON value that fits."""
        first: Problem | None = None
        for candidate in _candidates(text):
            judged = self._judged(candidate)
            if isinstance(judged, Value):
                return judged
            first = first or judged
        return first or Problem("it is not JSON" if text.strip() else "it is empty")

    def _judged(self, given: Any) -> Value | Problem:
        value = given
        if self.wrapped and isinstance(given, dict) and set(given) == {WRAPPER}:
            value = given[WRAPPER]
        if is_nested_deeper(value):
            return Problem(f"it is nested more than {LEVELS} levels deep")
        value = native.without_null_options(self.schema, value)
        if found := json_schema.violations(self.schema, value):
            return Problem("; ".join(found)[:PROBLEM_CHARACTERS])
        return Value(value)


def wrap(schema: Schema) -> Schema:
    """An object with the value inside. Definitions stay at the top level, where references expect them."""
    own = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    shared = {key: schema[key] for key in DEFINITIONS if key in schema}
    return {
        "type": "object",
        "properties": {WRAPPER: own},
        "required": [WRAPPER],
        "additionalProperties": False,
        **shared,
    }


def thinks(model: Model, options: Mapping[str, Mapping[str, Any]] | None) -> bool:
    """Whether a request with these provider options lets a model of Claude think."""
    namespace = model.route.protocol.namespace
    if namespace not in ("anthropic", "bedrock"):
        return False
    thinking = (options or {}).get(namespace, {}).get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


def without_thinking(model: Model, options: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]]:
    namespace = model.route.protocol.namespace
    return {**(options or {}), namespace: {**(options or {}).get(namespace, {}), "thinking": None}}


def refused_way(asked: AskedFormat, reason: str, message: str) -> Refusable | None:
    """Which way of asking a provider's failure is about, if any."""
    if reason not in ("InvalidRequest", "UnknownProvider"):
        return None
    if asked.response_format is not None and _NATIVE_WORDS.search(message):
        return "native"
    if asked.tool_choice is not None and asked.tool_choice.type != "auto" and _CHOICE_WORDS.search(message):
        return "forced"
    return None


def _unused(names: Iterator[str]) -> str:
    taken = set(names)
    number, name = 1, TOOL
    while name in taken:
        number += 1
        name = f"{TOOL}_{number}"
    return name


def _candidates(text: str) -> Iterator[Any]:
    """The JSON values in a text: the whole, in code blocks, then from each bracket on."""
    blocks = (block[1] for block in islice(_FENCE.finditer(text), STARTS))
    for part in (text, *blocks):
        try:
            yield decode_any(part.strip())
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
    yield from _embedded(text)


def _embedded(text: str) -> Iterator[Any]:
    from json import JSONDecoder

    decoder = JSONDecoder()
    at = 0
    for _ in range(STARTS):
        at = min((place for mark in "{[" if (place := text.find(mark, at)) >= 0), default=-1)
        if at < 0:
            return
        try:
            _, end = decoder.raw_decode(text, at)
            yield decode_any(text[at:end])
            at = end
        except (ValueError, RecursionError):
            at += 1
