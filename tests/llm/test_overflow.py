"""The window that a provider names when it refuses a request for its length."""

from __future__ import annotations

import json

import pytest

from holdfast.llm.errors import Answered, Diagnostics, LLMError
from holdfast.llm.event import ProviderError
from holdfast.llm.overflow import is_about_tokens, stated_limit

STATED = [
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", 8192),
    ("This endpoint's maximum context length is 65,536 tokens. However, you requested about 70000 tokens", 65_536),
    ("The prompt is too long: 9000, model maximum context length: 8191", 8191),
    ("exceeds maximum context length (8192)", 8192),
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens)", 4096),
    ("You passed 9000 input tokens. However, the model's context length is only 8192 tokens", 8192),
    ("However, the model is loaded with context length of only 4096 tokens, greater than the context length", 4096),
    ("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", 8192),
    ("This model's maximum prompt length is 131072 but the request contains 150000 tokens", 131_072),
    ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
    ("input length and `max_tokens` exceed context limit: 199000 + 21333 > 200000, decrease input length", 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
    ("the prompt has 9000 tokens, but the configured context size is 8192 tokens", 8192),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
    ("Your request exceeded model token limit: 131072", 131_072),
    ("exceeds the maximum allowed input length of 4,096 tokens", 4096),
    ("the token count exceeds the limit of 4096", 4096),
]


@pytest.mark.parametrize(("text", "limit"), STATED)
def test_the_window_that_a_provider_names_is_read(text: str, limit: int) -> None:
    """CMP-059: in a stream, and in the body of an HTTP error, which is too long to be part of the message."""
    assert stated_limit(ProviderError(message=text)) == limit
    body = json.dumps({"error": {"message": text, "detail": "x" * 600}})
    refused = LLMError(
        "InvalidRequest", "Provider request failed with HTTP 400", answered=Answered(diagnostics=Diagnostics(body=body))
    )
    assert stated_limit(refused) == limit
    assert is_about_tokens(refused)


def test_a_window_beside_the_message_is_read() -> None:
    """CMP-059: llama.cpp gives it as a field."""
    error = {"message": "the request exceeds the available context size", "n_prompt_tokens": 5000, "n_ctx": 4096}
    refused = LLMError(
        "InvalidRequest", "no", answered=Answered(diagnostics=Diagnostics(body=json.dumps({"error": error})))
    )
    assert stated_limit(refused) == 4096


@pytest.mark.parametrize(
    "text",
    [
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion",
        "the request exceeds the available context size",
        "This model's maximum context length is 100 tokens.",
        f"maximum context length is {10**12} tokens",
    ],
)
def test_no_window_is_made_up(text: str) -> None:
    """CMP-059: nothing is named, or a number that no window has."""
    assert stated_limit(ProviderError(message=text)) is None
    assert is_about_tokens(ProviderError(message=text))


@pytest.mark.parametrize("text", ["413 Request Entity Too Large", "request_too_large: 33 MB", "400 (no body)", ""])
def test_a_refusal_about_bytes_says_nothing_about_tokens(text: str) -> None:
    """CMP-059"""
    assert not is_about_tokens(ProviderError(message=text))
