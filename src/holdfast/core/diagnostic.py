"""Problems in files that users write."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.schema.frozen import Frozen

Severity: TypeAlias = Literal["warning", "error"]


class Diagnostic(Frozen):
    """A problem in a file, and where it is. Never contains a substituted value."""

    path: str
    message: str
    line: int | None = None
    severity: Severity = "warning"
    suggestion: str | None = None
    """The most similar known name."""
