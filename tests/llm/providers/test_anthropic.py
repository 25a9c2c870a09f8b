"""What a Claude model's name says about it, and where its API is."""

from __future__ import annotations

import pytest

from holdfast.llm.model import Model
from holdfast.llm.providers.anthropic import anthropic_capabilities, anthropic_route
from holdfast.llm.request import make_request
from holdfast.llm.stream import http_request, prepare


@pytest.mark.parametrize(
    ("id", "native"),
    [
        ("claude-opus-4-8", True),
        ("claude-opus-4-8-20260401", True),
        ("claude-opus-5-5", True),
        ("claude-sonnet-5", True),
        ("claude-haiku-5-5", True),
        ("claude-opus-4-7", False),
        ("claude-sonnet-4-5", False),
        ("claude-haiku-5", False),
        ("claude-opus-4-80", False),
        ("somebody/claude-opus-4-8", False),
    ],
)
def test_known_claude_models_take_chronological_system_messages(id: str, native: bool) -> None:
    """LLM-128: a table with dated ids, not one name; an unknown model gets the fallback."""
    assert (anthropic_capabilities(id).chronological_system == "system") is native


@pytest.mark.parametrize(
    ("id", "sampling"), [("claude-opus-4-6", True), ("claude-opus-4-7", False), ("claude-sonnet-5", False)]
)
def test_from_when_on_thinking_is_adaptive(id: str, sampling: bool) -> None:
    """LLM-226: newer models answer 400 to sampling controls and to a thinking budget."""
    capabilities = anthropic_capabilities(id)
    assert (capabilities.sampling, capabilities.thinking) == (sampling, "enabled" if sampling else "adaptive")


def test_anthropic_has_this_path_version_and_key_header() -> None:
    """LLM-220: path, version and key header."""
    model = Model("claude-sonnet-5", "anthropic", anthropic_route("sk-ant"))
    request = http_request(prepare(model, make_request(prompt="hi")))
    assert request.url == "https://api.anthropic.com/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == ("sk-ant", "2023-06-01")
    assert "authorization" not in request.headers
