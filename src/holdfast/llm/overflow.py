"""Reads the model's context window from the provider's refusal of a request that was too long."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError, is_overflow

if TYPE_CHECKING:
    from holdfast.llm.event import ProviderError

PLAUSIBLE = range(1_000, 100_000_000)


def stated_limit(error: LLMError | ProviderError) -> int | None:
    """The context window that the provider names, in tokens. Implausible numbers are ignored."""
    found = re.search(_LIMIT, _said(error), re.IGNORECASE)
    if found is None:
        return None
    limit = int(next(group for group in found.groups() if group).replace(",", ""))
    return limit if limit in PLAUSIBLE else None


def is_about_tokens(error: LLMError | ProviderError) -> bool:
    """Whether the error is about tokens. One about bytes, or one without a body, may have other causes."""
    said = _said(error)
    return is_overflow(said) and re.search(_OTHER, said, re.IGNORECASE) is None


def _said(error: LLMError | ProviderError) -> str:
    diagnostics = error.diagnostics if isinstance(error, LLMError) else None
    return diagnostics.body if diagnostics is not None and diagnostics.body else error.message


_OTHER = r"entity too large|request_too_large|\(no body\)"
# Phrases of OpenAI, OpenRouter, DeepSeek and vLLM; Fireworks; Together; vLLM and LM Studio; vLLM; xAI; Anthropic;
# Gemini; llama.cpp; Ollama; Mistral; Moonshot; gateways.
_LIMIT = "|".join(
    [
        r"maximum context length (?:is|of) ([\d,]{1,15})",
        r"maximum context length(?:: | \()([\d,]{1,15})",
        r"model'?s context length \(([\d,]{1,15})",
        r"context length (?:is|of) only ([\d,]{1,15})",
        r"maximum model length of ([\d,]{1,15})",
        r"maximum prompt length is ([\d,]{1,15})",
        r"tokens > ([\d,]{1,15})",
        r"context limit: [\d,]{1,15} \+ [\d,]{1,15} > ([\d,]{1,15})",
        r"maximum number of tokens allowed \(([\d,]{1,15})",
        r"available context size \(([\d,]{1,15})",
        r"\"n_ctx\": ?(\d{1,15})",
        r"configured context size is ([\d,]{1,15})",
        r"model with ([\d,]{1,15}) maximum context length",
        r"token limit: ?([\d,]{1,15})",
        r"maximum allowed input length of ([\d,]{1,15})",
        r"token[^.]{0,60}exceeds the limit of ([\d,]{1,15})",
    ]
)
