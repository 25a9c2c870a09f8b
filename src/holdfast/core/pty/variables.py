"""Which variables a process can be given."""

from __future__ import annotations

from typing import Any

import msgspec


def check_variables(given: Any) -> dict[str, str]:
    """The same as a dictionary of its own. Raises ValueError for what no process can be started with."""
    variables: dict[str, str] = msgspec.convert(dict(given), dict[str, str])
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} is no name of a variable")
        if "\0" in value:
            raise ValueError(f"the value of {name} holds a null byte")
    return variables
