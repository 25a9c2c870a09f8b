"""Attributes of spans, by OpenTelemetry's conventions for generative AI; ours begin with `holdfast.`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.traces.activities import Activity, Chat, Draft
    from holdfast.core.traces.span import Value
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Tokens

PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "google-vertex-anthropic": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Names of the convention for providers that have other ids here."""
SUMMED = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "holdfast.cost_dollars")

Attributes = tuple[tuple[str, "Value"], ...]


def agent_attributes(activity: Activity) -> Attributes:
    return _present(
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", activity.agent),
        ("gen_ai.conversation.id", activity.session_id),
        *_model(activity.model),
        *_sums(activity.drafts),
        ("holdfast.spans_left_out", activity.left_out or None),
        ("error.type", activity.error),
    )


def chat_attributes(activity: Activity, chat: Chat) -> Attributes:
    return _present(
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.agent.name", activity.agent),
        ("gen_ai.conversation.id", activity.session_id),
        *_model(chat.model),
        ("gen_ai.response.finish_reasons", (chat.finish,) if chat.finish is not None else None),
        *_usage(chat.tokens),
        ("holdfast.cost_dollars", chat.cost),
        ("holdfast.attempts", chat.attempts),
        ("holdfast.first_answer_ms", None if chat.first is None else max(0, chat.first - chat.start)),
    )


def tool_attributes(activity: Activity, tool: str, call_id: str | None) -> Attributes:
    return _present(
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.agent.name", activity.agent),
        ("gen_ai.conversation.id", activity.session_id),
        ("gen_ai.tool.name", tool),
        ("gen_ai.tool.type", "function"),
        ("gen_ai.tool.call.id", call_id),
    )


def wait_attributes(activity: Activity, name: str) -> Attributes:
    """Of a wait for a person, and of a compaction."""
    return _present(
        ("gen_ai.agent.name", activity.agent),
        ("gen_ai.conversation.id", activity.session_id),
        ("holdfast.wait", name.partition(" ")[2] or None),
    )


def _model(model: ModelRef | None) -> Iterator[tuple[str, Value | None]]:
    if model is not None:
        yield "gen_ai.provider.name", PROVIDERS.get(model.provider_id, model.provider_id)
        yield "gen_ai.request.model", model.id


def _usage(tokens: Tokens | None) -> Iterator[tuple[str, Value | None]]:
    """The convention counts cached tokens as input, and reasoning as output."""
    if tokens is not None:
        yield "gen_ai.usage.input_tokens", tokens.input + tokens.cache.read + tokens.cache.write
        yield "gen_ai.usage.output_tokens", tokens.output + tokens.reasoning
        yield "gen_ai.usage.cache_read.input_tokens", tokens.cache.read
        yield "gen_ai.usage.cache_creation.input_tokens", tokens.cache.write
        yield "holdfast.usage.reasoning_tokens", tokens.reasoning


def _sums(drafts: Iterable[Draft]) -> Iterator[tuple[str, Value | None]]:
    """What all requests of an activity used, without its children."""
    found = [dict(draft.attributes) for draft in drafts]
    for name in SUMMED:
        values = [value for attributes in found if isinstance(value := attributes.get(name), int | float)]
        yield name, sum(values) if values else None


def _present(*pairs: tuple[str, Value | None]) -> Attributes:
    return tuple((name, value) for name, value in pairs if value is not None)
