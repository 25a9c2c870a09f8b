"""The parts of a Responses stream that are read: events, items, usage. Other fields may have any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(msgspec.Struct):
    type: str = ""


class TextDelta(msgspec.Struct):
    delta: str
    item_id: str = "text-0"


class RefusalDone(msgspec.Struct):
    refusal: str
    item_id: str = "text-0"


class AnnotationAdded(msgspec.Struct):
    annotation: Any
    item_id: str = "text-0"


class SummaryPart(msgspec.Struct):
    item_id: str
    summary_index: int = 0


class SummaryText(msgspec.Struct):
    text: str = ""


class SummaryDelta(msgspec.Struct):
    item_id: str
    delta: str | SummaryText
    summary_index: int | None = None


class ArgumentsDelta(msgspec.Struct):
    item_id: str
    delta: str


class ArgumentsDone(msgspec.Struct):
    item_id: str
    arguments: str | None = None


class ItemEvent(msgspec.Struct):
    item: msgspec.Raw = msgspec.Raw(b"{}")


class CallItem(msgspec.Struct):
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    status: str | None = None

    @property
    def key(self) -> str:
        return self.id or self.call_id or ""


class ReasoningItem(msgspec.Struct):
    id: str
    encrypted_content: str | None = None
    summary: list[SummaryText] | None = None


class MessageContent(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None


class MessageItem(msgspec.Struct):
    id: str = "text-0"
    phase: str | None = None
    content: list[MessageContent] | None = None


class InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class UsageRecord(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class ResponseRecord(msgspec.Struct):
    id: str | None = None
    service_tier: str | None = None
    incomplete_details: IncompleteDetails | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class ResponseEvent(msgspec.Struct):
    response: ResponseRecord | None = None


KIND = msgspec.json.Decoder(Kind)
CALL_ITEM = msgspec.json.Decoder(CallItem)
REASONING_ITEM = msgspec.json.Decoder(ReasoningItem)
MESSAGE_ITEM = msgspec.json.Decoder(MessageItem)
OBJECT = msgspec.json.Decoder(dict[str, Any])


def _fields(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda item: {name: item[name] for name in names if name in item}


def _action(item: dict[str, Any]) -> Any:
    return item.get("action")


HOSTED_TOOLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "web_search_call": _action,
    "web_search_preview_call": _action,
    "file_search_call": _fields("queries"),
    "code_interpreter_call": _fields("code", "container_id"),
    "computer_use_call": _action,
    "image_generation_call": _fields(),
    "mcp_call": _fields("server_label", "name", "arguments"),
    "local_shell_call": _action,
}
