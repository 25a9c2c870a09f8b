"""Decodes JSON with comments and trailing commas. Line numbers in problems are those of the file."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEPTH_LIMIT = 100
"""Nesting limit: later steps walk through the value by recursion."""

# Compiled on first use: a plain file without problems needs none of them. An unclosed string matches to the end of the
# text, so that it is scanned only once.
_STRING = r'"(?:[^"\\]++|\\.)*+"?'
# Two linear passes: a comma is trailing only after the comments behind it are removed.
_COMMENT = rf"(?s){_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)"
_TRAILING_COMMA = rf"(?s){_STRING}|,(?=\s*[}}\]])"
_TOKEN = rf"(?s)(?:{_STRING}|[{{}}\[\],])\s*"
_SURROGATE = r"\\u[dD][89a-fA-F]"


class InvalidJson(ValueError):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class DecodedJson(NamedTuple):
    value: Any
    repeated: tuple[str, ...]
    """Keys that occur twice in one object; the last one counts."""


def decode(text: str) -> DecodedJson:
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            repeated.extend(sorted(name for name, count in counts.items() if count > 1))
        return found

    try:
        value = _parse(text, collect)
    except RecursionError:
        raise InvalidJson("is nested too deeply") from None
    if _is_deep(value):
        raise InvalidJson("is nested too deeply")
    if "\\u" in text and re.search(_SURROGATE, text):
        _check_characters(value)
    return DecodedJson(value, tuple(dict.fromkeys(repeated)))


def line_numbers(text: str, paths: Iterable[Sequence[str | int]]) -> dict[tuple[str | int, ...], int]:
    """The line numbers, from 1, of the values at these paths, as far as they exist. One pass over the text."""
    wanted = {tuple(path) for path in paths}
    depths = {len(path) for path in wanted}
    found: dict[tuple[str | int, ...], int] = {}
    plain = to_json(text)
    line, counted = 1, 0
    # One item per open container: its current key or index, empty before the first key.
    trail: list[str | int] = []
    awaiting_key = False
    for match in re.finditer(_TOKEN, plain):
        token = match[0].rstrip()
        if token[0] == '"':
            if not awaiting_key:
                continue
            trail[-1], awaiting_key = json.loads(token), False
        elif token == "{":
            trail.append("")
            awaiting_key = True
            continue
        elif token == "[":
            trail.append(0)
        elif token in "}]":
            del trail[-1:]
            awaiting_key = False
            continue
        elif token == "," and trail:
            last = trail[-1]
            if isinstance(last, str):
                awaiting_key = True
                continue
            trail[-1] = last + 1
        if len(trail) in depths and (here := tuple(trail)) in wanted and here not in found:
            # The item starts after its bracket or comma, possibly on another line.
            start = match.start() if token[0] == '"' else match.end()
            line, counted = line + plain.count("\n", counted, start), start
            found[here] = line
            if len(found) == len(wanted):
                break
    return found


def to_json(text: str) -> str:
    """Offsets stay, apart from a byte order mark."""
    return re.sub(_TRAILING_COMMA, _blank, without_comments(text))


def without_comments(text: str) -> str:
    return re.sub(_COMMENT, _blank, text.removeprefix("\ufeff"))


def _parse(text: str, collect: Any) -> Any:
    try:
        return _loads(text, collect)
    except json.JSONDecodeError:
        pass  # most files are plain JSON; only others need two more passes
    try:
        return _loads(to_json(text), collect)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"is not valid JSON: {error.msg.lower()}", error.lineno) from None


def _loads(text: str, collect: Any) -> Any:
    return json.loads(
        text, object_pairs_hook=collect, parse_constant=_no_constant, parse_int=_integer, parse_float=_finite
    )


def _no_constant(name: str) -> NoReturn:
    raise InvalidJson(f"is not valid JSON: {name} is not a number")


def _integer(digits: str) -> int:
    """Integers of at most 64 bits, signed or unsigned: others cannot be encoded again."""
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**64:
        raise InvalidJson("has a number that is too large")
    return number


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise InvalidJson("has a number that is too large")
    return number


def _check_characters(value: Any) -> None:
    """Rejects unpaired surrogates: they can be written as escapes but neither sent nor stored."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidJson("is not valid JSON: half of a surrogate pair is not a character") from None


def _is_deep(value: Any) -> bool:
    level: list[Any] = [[value]]
    for _ in range(DEPTH_LIMIT):
        level = [item for box in level for item in (box.values() if type(box) is dict else box) if type(item) in _BOXES]
        if not level:
            return False
    return True


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith('"') or (found.startswith("/*") and not found.endswith("*/", 2)):
        return found
    return re.sub(r"[^\n]", " ", found)


_BOXES = frozenset((dict, list))
