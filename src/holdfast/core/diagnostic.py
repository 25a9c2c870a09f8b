"""What is wrong with something that a user wrote, and where."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.schema.frozen import Frozen

Severity: TypeAlias = Literal["warning", "error"]


class Diagnostic(Frozen):
    """One thing in a file that does not count as its author meant it. Never contains a substituted value."""

    path: str
    message: str
    line: int | None = None
    severity: Severity = "warning"
    suggestion: str | None = None
    """The nearest name that is known."""
