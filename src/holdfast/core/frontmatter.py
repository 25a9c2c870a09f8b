"""Markdown with YAML frontmatter. Accepts unquoted colons, as other tools do; size and depth are bounded."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from holdfast.schema.frozen import Frozen

NODE_LIMIT = 10_000
DEPTH_LIMIT = 50

_HEAD = r"(?sm)\A---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)"
_ENTRY = r"([A-Za-z_][\w-]*)[ \t]*:[ \t]*(.*)"


class InvalidFrontmatter(ValueError):
    pass


class Markdown(Frozen):
    data: dict[str, Any]
    """Plain JSON values; other YAML types, such as dates, become text."""
    body: str
    """The text after the frontmatter, unchanged."""


def parse_markdown(text: str) -> Markdown:
    text = text.removeprefix("\ufeff")
    head = re.match(_HEAD, text)
    if head is None:
        return Markdown({}, text)
    return Markdown(_decode(head[1]), text[head.end() :])


def _decode(head: str) -> dict[str, Any]:
    import yaml

    try:
        try:
            value = yaml.load(head, _loader())
        except yaml.YAMLError:
            value = yaml.load(_quote_colons(head), _loader())
    # Python itself may fail to construct a scalar: a date with month 13, an integer of ten thousand digits.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidFrontmatter(f"its frontmatter is not valid YAML: {_first_line(error)}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidFrontmatter("its frontmatter is not a list of names and values")
    plain = _Plain().value(value)
    assert isinstance(plain, dict)
    return plain


@cache
def _loader() -> type[Any]:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Limits merge keys, which copy their target and could exhaust memory."""

        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            if len(node.value) > NODE_LIMIT:
                raise ValueError(f"more than {NODE_LIMIT} values are merged")

    return Loader


def _quote_colons(head: str) -> str:
    """`description: Use when: always` becomes a block scalar."""
    lines: list[str] = []
    for line in head.splitlines():
        entry = re.fullmatch(_ENTRY, line)
        value = entry[2].strip() if entry else ""
        if entry and ":" in value and value[0] not in "\"'|>":
            lines += [f"{entry[1]}: |-", f"  {value}"]
        else:
            lines.append(line)
    return "\n".join(lines)


class _Plain:
    """Copies a value with limits: YAML aliases can make a short text endless or cyclic."""

    def __init__(self) -> None:
        self._left = NODE_LIMIT

    def value(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > DEPTH_LIMIT:
            raise InvalidFrontmatter(f"its frontmatter has more than {NODE_LIMIT} values or {DEPTH_LIMIT} levels")
        match value:
            case dict():
                return {str(key): self.value(item, depth + 1) for key, item in value.items()}
            case list() | tuple() | set():
                return [self.value(item, depth + 1) for item in value]
            case None | bool() | int() | float() | str():
                return value
            case _:
                return str(value)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
