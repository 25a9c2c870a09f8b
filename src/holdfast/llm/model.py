"""A model with its route and capabilities; merging its defaults into a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.llm.errors import invalid_request
from holdfast.llm.request import Generation, HttpOverlay, Request
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.llm.route.route import Route

DEFAULT_OUTPUT = 4096
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

# Fields that the protocol sets itself; an overlay may not replace them.
_OWNED = """
    content contents frequencyPenalty frequency_penalty generationConfig inferenceConfig input maxTokens max_tokens
    messages model presencePenalty presence_penalty responseFormat response_format seed stop stopSequences
    stop_sequences stream streamOptions stream_options system systemInstruction system_instruction temperature thinking
    toolChoice toolConfig tool_choice tool_config tools topK topP top_k top_p
"""
OWNED_FIELDS = frozenset(_OWNED.split())


class Capabilities(Frozen):
    """Differences between models of one protocol. The catalog sets them; the defaults are for an unknown model."""

    images: bool = True
    documents: bool = True
    """Accepts PDF, if the protocol can send it."""
    sampling: bool = True
    """Accepts temperature and other sampling controls."""
    chronological_system: Literal["system", "developer"] | None = None
    thinking: Literal["enabled", "adaptive"] = "enabled"
    caching: bool = True
    completion_tokens_field: bool = False
    """Chat: requires `max_completion_tokens`."""
    reasoning_replay: bool = False
    """Chat: accepts `reasoning_content` in history. Bedrock: accepts unsigned reasoning."""
    inline_cache: bool = False
    """Chat: accepts `cache_control` inside list content."""
    native_json: bool = False
    """The provider's JSON mode gives better structured answers than a forced call."""
    native_json_with_tools: bool = False
    """The JSON mode leaves the model free to call tools first."""
    cache_points: Literal["anywhere", "after-text"] = "anywhere"
    """Bedrock: allowed positions of cache points; `after-text` excludes tools, results and media."""


class Model(Frozen):
    id: str
    provider: str
    route: Route
    generation: Generation | None = None
    provider_options: dict[str, dict[str, Any]] | None = None
    http: HttpOverlay | None = None
    output_limit: int | None = None
    compatibility: Literal["gemini", "moonshot"] | None = None
    """JSON Schema dialect of its tools, applied before the protocol's own."""
    capabilities: Capabilities = Capabilities()
    credential_fix: str = ""
    """How to give the provider another credential, in a sentence for people."""


def resolve(model: Model, request: Request) -> Request:
    """The request with defaults: the request's values win over the model's, these over the route's."""
    route = model.route
    generation = _generation(route.generation, model.generation, request.generation)
    overlay = HttpOverlay(
        body=deep_merge(*(item.body for item in (route.http, model.http, request.http) if item)) or None,
        headers=_flat(*(item.headers for item in (route.http, model.http, request.http) if item)),
        query=_flat(*(item.query for item in (route.http, model.http, request.http) if item)),
    )
    if refused := sorted(OWNED_FIELDS & set(overlay.body or ())):
        raise invalid_request(f"the protocol itself sets {', '.join(refused)}; these cannot come from an overlay")
    return msgspec.structs.replace(
        request,
        generation=generation,
        provider_options=deep_merge(route.provider_options, model.provider_options, request.provider_options) or None,
        http=overlay,
    )


def output_limit(model: Model, request: Request) -> int:
    """The output limit to send, for protocols that require one."""
    asked = request.generation.max_tokens if request.generation else None
    return asked or model.output_limit or model.route.output_limit or DEFAULT_OUTPUT


def deep_merge(*layers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Objects merge; lists, scalars and null replace."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            known = merged.get(key)
            merged[key] = deep_merge(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def options(request: Request, namespace: str) -> dict[str, Any]:
    return (request.provider_options or {}).get(namespace, {})


def effort(value: Any) -> str | None:
    """A canonical effort; anything else is ignored."""
    return value if isinstance(value, str) and value in EFFORTS else None


def _generation(*layers: Generation | None) -> Generation:
    merged = {
        name: value
        for layer in layers
        if layer is not None
        for name in layer.__struct_fields__
        if (value := getattr(layer, name)) is not None
    }
    return Generation(**merged)


def _flat(*layers: dict[str, str] | None) -> dict[str, str] | None:
    merged = {key: value for layer in layers for key, value in (layer or {}).items()}
    return merged or None
