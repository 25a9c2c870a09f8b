"""Vendors as data: where they live, how they want their key, what is different. Adding one needs no code."""

from __future__ import annotations

from holdfast.llm.model import Capabilities
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.schema.frozen import Frozen


class Profile(Frozen):
    """An OpenAI-compatible vendor. `default_model` is used when only a key is known."""

    id: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    default_model: str | None = None
    capabilities: Capabilities = Capabilities()
    protocol: OpenAIChat = OpenAIChat()


_REPLAYS_REASONING = Capabilities(reasoning_replay=True)
_OPENROUTER = OpenAIChat(
    name="OpenRouter", namespace="openrouter", passthrough=("provider", "models", "transforms", "plugins")
)

PROFILES: dict[str, Profile] = {
    profile.id: profile
    for profile in (
        Profile("baseten", "https://inference.baseten.co/v1"),
        Profile("cerebras", "https://api.cerebras.ai/v1"),
        Profile("deepinfra", "https://api.deepinfra.com/v1/openai"),
        Profile("deepseek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), "deepseek-chat", _REPLAYS_REASONING),
        Profile("fireworks", "https://api.fireworks.ai/inference/v1"),
        Profile("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), "llama-3.3-70b-versatile"),
        Profile(
            "openrouter",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            "openai/gpt-4.1-mini",
            _REPLAYS_REASONING,
            _OPENROUTER,
        ),
        Profile("togetherai", "https://api.together.xyz/v1"),
        Profile("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    )
}
