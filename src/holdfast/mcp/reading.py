"""Decodes the results of a server. Raises ProtocolError for what does not have the form of a result."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from holdfast.mcp.content import ResourceContents, read_content, read_contents
from holdfast.mcp.errors import ProtocolError, TooLarge, shown
from holdfast.mcp.input import INPUT_METHODS, Elicitation, InputRequest, InputRequired, RootsRequest, Sampling
from holdfast.mcp.results import Completion, PromptMessage, PromptResult, ReadResult, ToolResult
from holdfast.mcp.versions import ClientFeatures
from holdfast.mcp.wire import Json, Wire, meta_field

T = TypeVar("T")

INPUT_LIMIT = 32
"""Of requests for input in one result."""
ALL = ClientFeatures(roots=True, elicitation=True, sampling=True)
STATE_LIMIT = 1024 * 1024
"""Bytes of the state that a result asks to be given back: it may be stored."""


class _Kind(Wire):
    result_type: str = "complete"


class _InputRequest(Wire):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _InputRequired(Wire):
    input_requests: dict[str, _InputRequest] | None = None
    request_state: str | None = None


class _ToolResult(Wire):
    content: list[msgspec.Raw] = msgspec.field(default_factory=list)
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = None
    meta: Json | None = meta_field()


class _ReadResult(Wire):
    contents: list[ResourceContents]


class _PromptMessage(Wire):
    role: Literal["user", "assistant"]
    content: msgspec.Raw


class _PromptResult(Wire):
    messages: list[_PromptMessage]
    description: str | None = None


class _Completion(Wire):
    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class _CompleteResult(Wire):
    completion: _Completion


def decode(raw: msgspec.Raw, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"The MCP server's {what} is not valid: {shown(str(error))}") from error


def read_tool_result(raw: msgspec.Raw, able: ClientFeatures = ALL) -> ToolResult | InputRequired:
    if (required := _input_required(raw, able)) is not None:
        return required
    result = decode(raw, _ToolResult, "result of a tool")
    return ToolResult(read_contents(result.content), result.structured_content, bool(result.is_error), result.meta)


def read_resource_result(raw: msgspec.Raw, able: ClientFeatures = ALL) -> ReadResult | InputRequired:
    if (required := _input_required(raw, able)) is not None:
        return required
    return ReadResult(tuple(decode(raw, _ReadResult, "resource").contents))


def read_prompt_result(raw: msgspec.Raw, able: ClientFeatures = ALL) -> PromptResult | InputRequired:
    if (required := _input_required(raw, able)) is not None:
        return required
    result = decode(raw, _PromptResult, "prompt")
    messages = (PromptMessage(message.role, read_content(message.content)) for message in result.messages)
    return PromptResult(tuple(messages), result.description)


def read_completion(raw: msgspec.Raw) -> Completion:
    completion = decode(raw, _CompleteResult, "completion").completion
    return Completion(tuple(completion.values[:100]), completion.total, bool(completion.has_more))


def _input_required(raw: msgspec.Raw, able: ClientFeatures) -> InputRequired | None:
    kind = decode(raw, _Kind, "result").result_type
    if kind == "complete":
        return None
    if kind != "input_required":
        raise ProtocolError(f"The MCP server sent a result of the kind {shown(kind, 60)!r}, which is not supported")
    result = decode(raw, _InputRequired, "request for input")
    requests = result.input_requests or {}
    if len(requests) > INPUT_LIMIT:
        raise ProtocolError(f"The MCP server asks for more than {INPUT_LIMIT} inputs at once")
    if result.request_state is not None and len(result.request_state) > STATE_LIMIT:
        raise TooLarge("The state that the MCP server wants back", STATE_LIMIT)
    if not requests and result.request_state is None:
        raise ProtocolError("The MCP server asks for input and does not say for which")
    return InputRequired({key: _request(request, able) for key, request in requests.items()}, result.request_state)


def _request(request: _InputRequest, able: ClientFeatures) -> InputRequest:
    kind = INPUT_METHODS.get(request.method)
    declared = {Elicitation: able.elicitation, Sampling: able.sampling, RootsRequest: able.roots}
    if kind is None or not declared[kind]:
        raise ProtocolError(f"The MCP server asks for {shown(request.method, 60)!r}, which was not offered to it")
    read = decode(request.params, kind, f"request for input ({request.method})")
    if isinstance(read, Sampling) and read.uses_tools:
        raise ProtocolError("The MCP server wants a model to use tools, which was not offered to it")
    return read
