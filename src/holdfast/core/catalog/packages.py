"""Known AI SDK packages: the protocol of each, its vendor's address, and the names of its options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from holdfast.schema.catalog import AisdkApi, AisdkModelApi
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.schema.catalog import ModelApi, ProviderApi

ProtocolName = Literal["responses", "chat", "messages", "gemini", "converse", "azure", "copilot"]


class Dialect(Frozen):
    """`names` maps every accepted spelling of an option to the one that the protocol's adapter uses."""

    namespace: str
    names: dict[str, str]
    nested: dict[str, dict[str, str]] = {}  # noqa: RUF012 - shared and never changed
    """Options that can also be written as an object: its keys, mapped to option names."""


class Package(Frozen):
    dialect: Dialect
    protocol: ProtocolName | None = None
    """None if no adapter speaks its protocol."""
    url: str | None = None


def _dialect(namespace: str, names: str, nested: dict[str, dict[str, str]] | None = None) -> Dialect:
    spellings = {spelling: name for name in names.split() for spelling in (snake_case(name), name)}
    return Dialect(namespace, spellings, nested or {})


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


OPENAI = _dialect(
    "openai",
    "store promptCacheKey reasoningEffort reasoningSummary include textVerbosity serviceTier",
    {"reasoning": {"effort": "reasoningEffort", "summary": "reasoningSummary"}, "text": {"verbosity": "textVerbosity"}},
)
# `thinking` is the switch of several vendors; protocols own this name, so it cannot be a body field.
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
# The end of a URL without a package selects its protocol; the default is OpenAI-compatible.
_ENDINGS: dict[str, Package] = {
    "/responses": Package(OPENAI, "responses"),
    "/chat/completions": PACKAGES[COMPATIBLE_PACKAGE],
    "/messages": PACKAGES["@ai-sdk/anthropic"],
}


class PackageEndpoint(Frozen):
    """A package and the base URL of its protocol."""

    package: Package
    url: str | None


def package_endpoint(api: ProviderApi | ModelApi) -> PackageEndpoint | None:
    """The package and base URL of an API, or None if its protocol is unknown."""
    if isinstance(api, AisdkApi | AisdkModelApi):
        package = PACKAGES.get(api.package)
        return PackageEndpoint(package, api.url or package.url) if package else None
    if not api.url:
        return None
    for ending, package in _ENDINGS.items():
        if api.url.endswith(ending):
            return PackageEndpoint(package, api.url.removesuffix(ending))
    return PackageEndpoint(PACKAGES[COMPATIBLE_PACKAGE], api.url)


def dialect(api: ProviderApi | ModelApi) -> Dialect:
    found = package_endpoint(api)
    return found.package.dialect if found else UNKNOWN


def api_label(api: ProviderApi | ModelApi) -> str:
    """A label for messages: `aisdk:{package}` or `native`."""
    return f"aisdk:{api.package}" if isinstance(api, AisdkApi | AisdkModelApi) else "native"
