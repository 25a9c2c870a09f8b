"""The limits of a prompt's metadata and options, and which options fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.session.input_errors import PromptOptionRefused, PromptTooLarge
from holdfast.schema.codec import encode
from holdfast.schema.nesting import LEVELS, is_nested_deeper

if TYPE_CHECKING:
    from holdfast.schema.prompt import Prompt, PromptOptions

METADATA_BYTES = 64 * 1024
SYSTEM_BYTES = 256 * 1024
TOOLS_BYTES = 16 * 1024
CHOICE_BYTES = 4 * 1024
"""Limit of the names of agent, model and variant."""


def check_options(prompt: Prompt, session_id: str) -> None:
    """Raises PromptTooLarge or PromptOptionRefused. Costs at most as much as encoding what is checked."""
    options = prompt.options
    if is_nested_deeper(prompt.metadata):
        raise PromptTooLarge(session_id, "prompt.metadata", "its `metadata`", LEVELS, unit="levels of nesting")
    sizes: list[tuple[str, object, int]] = [("metadata", prompt.metadata, METADATA_BYTES)]
    if options is not None:
        sizes += [
            ("system", options.system, SYSTEM_BYTES),
            ("tools", options.tools, TOOLS_BYTES),
            ("agent", options.agent, CHOICE_BYTES),
            ("model", options.model, CHOICE_BYTES),
            ("variant", options.variant, CHOICE_BYTES),
        ]
        _check_together(options, session_id)
    for name, value, limit in sizes:
        if value is not None and len(encode(value)) > limit:
            raise PromptTooLarge(session_id, f"prompt.{name}", f"its `{name}`", limit)


def _check_together(options: PromptOptions, session_id: str) -> None:
    """Nothing is accepted that has no turn to apply to."""
    if not options.no_reply:
        return
    for field in msgspec.structs.fields(options):
        if field.name != "no_reply" and getattr(options, field.name) is not None:
            reason = f"`{field.encode_name}` applies to an answer, and `noReply` asks for none"
            raise PromptOptionRefused(session_id, field.encode_name, reason)
