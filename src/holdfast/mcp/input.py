"""What a server asks of a client: input of a person, an answer of a model, the roots. Up to 2025-11-25 these are
requests of the server; since 2026-07-28 a result asks for them (`InputRequired`)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.mcp.content import AudioContent, ImageContent, TextContent
from holdfast.mcp.wire import Json, Wire, meta_field


class Elicitation(Wire):
    """A question for a person: a form, whose `requested_schema` is flat, or an address to visit. Text and address come
    from the server; nothing has checked them."""

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: Json | None = None
    url: str | None = None
    elicitation_id: str | None = None
    meta: Json | None = meta_field()

    def __post_init__(self) -> None:
        if self.mode == "form" and self.requested_schema is None:
            raise ValueError("a form without `requestedSchema`")
        if self.mode == "url" and self.url is None:
            raise ValueError("no `url`")


FieldValue: TypeAlias = str | int | float | bool | list[str] | None


class ElicitationAnswer(Wire):
    """`content` belongs to an accepted form only."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, FieldValue] | None = None


class ToolUse(Wire, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: Json
    meta: Json | None = meta_field()


class ToolUseResult(Wire, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: list[Any] = msgspec.field(default_factory=list)
    structured_content: Any = None
    is_error: bool | None = None
    meta: Json | None = meta_field()


SampledContent: TypeAlias = TextContent | ImageContent | AudioContent | ToolUse | ToolUseResult


class SamplingMessage(Wire):
    role: Literal["user", "assistant"]
    content: SampledContent | list[SampledContent]

    @property
    def parts(self) -> list[SampledContent]:
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(Wire):
    name: str | None = None


class ModelPreferences(Wire):
    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class Sampling(Wire):
    """A request for an answer of the client's model."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: Json | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    meta: Json | None = meta_field()

    @property
    def uses_tools(self) -> bool:
        """A client must refuse it unless it has declared that it can do this."""
        return bool(self.tools) or self.tool_choice is not None


class SamplingAnswer(Wire):
    role: Literal["user", "assistant"]
    content: SampledContent | list[SampledContent]
    model: str
    stop_reason: str | None = None


class RootsRequest(Wire):
    meta: Json | None = meta_field()


class Root(Wire):
    """`uri` starts with `file://`."""

    uri: str
    name: str | None = None


class RootsAnswer(Wire):
    roots: list[Root]


InputRequest: TypeAlias = Elicitation | Sampling | RootsRequest
InputAnswer: TypeAlias = ElicitationAnswer | SamplingAnswer | RootsAnswer

INPUT_METHODS: dict[str, type[InputRequest]] = {
    "elicitation/create": Elicitation,
    "sampling/createMessage": Sampling,
    "roots/list": RootsRequest,
}
ANSWERS: dict[type[InputRequest], type[InputAnswer]] = {
    Elicitation: ElicitationAnswer,
    Sampling: SamplingAnswer,
    RootsRequest: RootsAnswer,
}


def method_of(request: InputRequest) -> str:
    return next(method for method, kind in INPUT_METHODS.items() if isinstance(request, kind))


class InputRequired(msgspec.Struct, frozen=True):
    """A result that asks for input: send the same request again, with an answer for each key of `requests` and with
    `state`, which is the server's and is given back as it is. With no requests, send it again after a short wait.
    Everything needed to go on is in here: it may be stored, and answered by another process."""

    requests: dict[str, InputRequest]
    state: str | None = None
