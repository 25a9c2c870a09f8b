"""AI SDK packages, which configuration and models.dev name: the protocol behind each, its vendor's address, and how it
spells its options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from holdfast.schema.catalog import AisdkApi, AisdkModelApi
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.schema.catalog import ModelApi, ProviderApi

Way = Literal["responses", "chat", "messages", "gemini", "converse", "azure", "copilot"]


class Dialect(Frozen):
    """`names`: every accepted spelling of an option, to the one that the protocol's adapter knows."""

    namespace: str
    names: dict[str, str]
    nested: dict[str, dict[str, str]] = {}  # noqa: RUF012 - shared and never changed
    """Options that are also written as an object: its keys, to their own names."""


class Package(Frozen):
    dialect: Dialect
    way: Way | None = None
    """None: nothing here speaks its protocol."""
    url: str | None = None


def _dialect(namespace: str, names: str, nested: dict[str, dict[str, str]] | None = None) -> Dialect:
    spellings = {spelling: name for name in names.split() for spelling in (snake_case(name), name)}
    return Dialect(namespace, spellings, nested or {})


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


OPENAI = _dialect(
    "openai",
    "store promptCacheKey reasoningEffort reasoningSummary include textVerbosity serviceTier",
    {
        "reasoning": {"effort": "reasoningEffort", "summary": "reasoningSummary"},
        "text": {"verbosity": "textVerbosity"},
    },
)
# `thinking` is what several vendors call their switch; a protocol owns that name, so it cannot be a body field.
COMPATIBLE = _dialect("openai", "reasoningEffort thinking")
OPENROUTER = _dialect(
    "openrouter", "provider models transforms plugins usage reasoning promptCacheKey reasoningEffort thinking"
)
ANTHROPIC = _dialect("anthropic", "thinking effort taskBudget metadata")
GEMINI = _dialect("gemini", "thinkingConfig responseModalities mediaResolution imageConfig safetySettings")
BEDROCK = _dialect("bedrock", "thinking additionalModelRequestFields")
UNKNOWN = Dialect("unknown", {})

COMPATIBLE_PACKAGE = "@ai-sdk/openai-compatible"
PACKAGES: dict[str, Package] = {
    "@ai-sdk/openai": Package(OPENAI, "responses"),
    "@ai-sdk/azure": Package(OPENAI, "azure"),
    "@ai-sdk/github-copilot": Package(OPENAI, "copilot"),
    "@ai-sdk/anthropic": Package(ANTHROPIC, "messages"),
    "@ai-sdk/google": Package(GEMINI, "gemini"),
    "@ai-sdk/amazon-bedrock": Package(BEDROCK, "converse"),
    "@ai-sdk/google-vertex": Package(GEMINI),
    "@ai-sdk/google-vertex/anthropic": Package(ANTHROPIC),
    COMPATIBLE_PACKAGE: Package(COMPATIBLE, "chat"),
    "@ai-sdk/cerebras": Package(COMPATIBLE, "chat", "https://api.cerebras.ai/v1"),
    "@ai-sdk/deepinfra": Package(COMPATIBLE, "chat", "https://api.deepinfra.com/v1/openai"),
    "@ai-sdk/gateway": Package(COMPATIBLE, "chat", "https://ai-gateway.vercel.sh/v1"),
    "@ai-sdk/groq": Package(COMPATIBLE, "chat", "https://api.groq.com/openai/v1"),
    "@ai-sdk/mistral": Package(COMPATIBLE, "chat", "https://api.mistral.ai/v1"),
    "@ai-sdk/togetherai": Package(COMPATIBLE, "chat", "https://api.together.xyz/v1"),
    "@ai-sdk/xai": Package(COMPATIBLE, "chat", "https://api.x.ai/v1"),
    "@openrouter/ai-sdk-provider": Package(OPENROUTER, "chat", "https://openrouter.ai/api/v1"),
    "ai-gateway-provider": Package(COMPATIBLE, "chat"),
    "venice-ai-sdk-provider": Package(COMPATIBLE, "chat", "https://api.venice.ai/api/v1"),
}
# An address without a package says its protocol by how it ends, and is otherwise taken for an OpenAI-compatible base.
_ENDINGS: dict[str, Package] = {
    "/responses": Package(OPENAI, "responses"),
    "/chat/completions": PACKAGES[COMPATIBLE_PACKAGE],
    "/messages": PACKAGES["@ai-sdk/anthropic"],
}


class Reached(Frozen):
    """A package and the address below which its protocol is spoken."""

    package: Package
    url: str | None


def reached(api: ProviderApi | ModelApi) -> Reached | None:
    """None when nobody says which protocol it is."""
    if isinstance(api, AisdkApi | AisdkModelApi):
        package = PACKAGES.get(api.package)
        return Reached(package, api.url or package.url) if package else None
    if not api.url:
        return None
    for ending, package in _ENDINGS.items():
        if api.url.endswith(ending):
            return Reached(package, api.url.removesuffix(ending))
    return Reached(PACKAGES[COMPATIBLE_PACKAGE], api.url)


def dialect(api: ProviderApi | ModelApi) -> Dialect:
    found = reached(api)
    return found.package.dialect if found else UNKNOWN


def named(api: ProviderApi | ModelApi) -> str:
    """For people: `aisdk:{package}` or `native`."""
    return f"aisdk:{api.package}" if isinstance(api, AisdkApi | AisdkModelApi) else "native"
