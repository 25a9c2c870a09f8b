"""Providers that speak OpenAI Chat: where they live, which environment variable holds their key."""

from __future__ import annotations

from typing import NamedTuple


class Compatible(NamedTuple):
    id: str
    base_url: str
    key_variable: str
    default_model: str


KNOWN = (
    Compatible("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-4.1-mini"),
    Compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-4.1-mini"),
    Compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "llama-3.3-70b-versatile"),
    Compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-chat"),
)
