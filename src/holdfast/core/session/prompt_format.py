"""Checks the output format of a prompt at admission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.input_errors import FormatRefused
from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    from holdfast.llm import schema_check
    from holdfast.schema.prompt import Prompt
else:
    schema_check = deferred("holdfast.llm.schema_check")


def check_format(prompt: Prompt, session_id: str) -> None:
    """Raises FormatRefused for a schema that answers cannot be validated against."""
    if prompt.options is None or prompt.options.format is None:
        return
    try:
        schema_check.check_schema(prompt.options.format.schema)
    except schema_check.SchemaProblem as problem:
        raise FormatRefused(session_id, str(problem)) from None
