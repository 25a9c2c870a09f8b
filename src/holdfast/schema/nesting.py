"""How deeply a JSON value is nested. Whether a value can be decoded depends on the stack at that moment, so what is
stored has a limit far below any that a reader may meet."""

from typing import Any

LEVELS = 128
"""Most levels of objects and lists, one inside the other, in a value that a caller stores."""


def is_nested_deeper(value: Any, levels: int = LEVELS) -> bool:
    """Whether objects and lists are nested more than this many levels deep."""
    level: list[Any] = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(levels):
        level = [item for outer in level for item in _items(outer) if isinstance(item, dict | list | tuple)]
        if not level:
            return False
    return True


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
