"""Validates environment variables for a terminal."""

from __future__ import annotations

from typing import Any

import msgspec


def check_variables(given: Any) -> dict[str, str]:
    """A copy as a dictionary. Raises ValueError for names or values that no process can have."""
    variables: dict[str, str] = msgspec.convert(dict(given), dict[str, str])
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} is no name of a variable")
        if "\0" in value:
            raise ValueError(f"the value of {name} holds a null byte")
    return variables
