"""Changes one value in the text of a configuration file. Comments, order and indentation of everything else stay."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from holdfast.core.config.jsonc import InvalidJson, decode, to_json, without_comments
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNIT = "  "
_SPACE = re.compile(r"\s*")


class Member(Frozen):
    """Offsets in the text."""

    name: str
    start: int
    value: int
    end: int


class EditRefused(HoldfastError):
    """The file cannot be changed without losing something."""


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this value at the path; objects above it are added where they are missing. Raises InvalidJson and
    EditRefused."""
    if not text.strip():
        return f"{_dumped(_nested(path, value), '', UNIT)}\n"
    expected = decode(text).value
    _put(expected, path, value)
    return _checked(_Edit(text).set(path, value), expected)


def remove_value(text: str, path: Sequence[str]) -> str:
    """The text without the member at the path, which must exist."""
    expected = decode(text).value
    place = expected
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return _checked(_Edit(text).remove(path), expected)


class _Edit:
    def __init__(self, text: str) -> None:
        self._text = text
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        self._plain = mark.replace("\ufeff", " ") + to_json(text)
        self._with_commas = mark.replace("\ufeff", " ") + without_comments(text)
        found = re.search(r"\n([ \t]+)\S", self._plain)
        self._unit = found[1] if found else UNIT

    def set(self, path: Sequence[str], value: Any) -> str:
        place = self._skip(0)
        for depth, name in enumerate(path):
            self._require_object(place)
            member = next((found for found in self._members(place) if found.name == name), None)
            if member is None:
                return self._insert(place, name, _nested(path[depth + 1 :], value))
            if depth == len(path) - 1:
                indent = self._indent(member.start)
                return self._replaced(member.value, member.end, _dumped(value, indent, self._unit))
            place = member.value
        raise EditRefused("the path is empty")

    def remove(self, path: Sequence[str]) -> str:
        place = self._skip(0)
        for name in path[:-1]:
            place = next(found.value for found in self._members(place) if found.name == name)
        members = list(self._members(place))
        index = next(index for index, found in enumerate(members) if found.name == path[-1])
        gone = members[index]
        end = self._after_comma(gone.end)
        if index + 1 < len(members):
            return self._replaced(gone.start, members[index + 1].start, "")
        if index == 0:
            return self._replaced(gone.start, end, "")
        before = members[index - 1].end
        after = self._after_comma(before)
        kept = self._end_of_line(after)  # with a comment
        comma = after if end != gone.end else before  # a file that ends its lists with commas keeps this one
        return self._text[:comma] + self._text[after:kept] + self._text[end:]

    def _insert(self, place: int, name: str, value: Any) -> str:
        members = list(self._members(place))
        close = self._close(place, members)
        if not members:
            indent = self._indent(place)
            inner = indent + self._unit
            comments = self._text[place + 1 : close].rstrip()
            new = f"{comments}\n{inner}{json.dumps(name)}: {_dumped(value, inner, self._unit)}\n{indent}"
            return self._replaced(place + 1, close, new)
        last = members[-1]
        indent = self._indent(last.start)
        one_line = "\n" not in self._plain[place : last.start]
        lead = " " if one_line else f"\n{indent}"
        dumped = json.dumps(value, ensure_ascii=False) if one_line else _dumped(value, indent, self._unit)
        after = self._after_comma(last.end)
        there = after != last.end  # the file ends its lists with commas
        end = after if one_line else self._end_of_line(after)  # a comment there belongs to the last one
        between = self._text[last.end : end] if there else f",{self._text[last.end : end]}"
        return self._replaced(last.end, end, f"{between}{lead}{json.dumps(name)}: {dumped}{',' if there else ''}")

    def _members(self, place: int) -> Iterator[Member]:
        decoder, plain = json.JSONDecoder(strict=False), self._plain
        at = self._skip(place + 1)
        while plain[at] != "}":
            start = at
            name, at = decoder.raw_decode(plain, at)
            value = self._skip(self._skip(at) + 1)
            _, end = decoder.raw_decode(plain, value)
            yield Member(name, start, value, end)
            at = self._skip(end)
            if plain[at] == ",":
                at = self._skip(at + 1)

    def _close(self, place: int, members: list[Member]) -> int:
        return self._skip(members[-1].end if members else place + 1)

    def _after_comma(self, end: int) -> int:
        """Where the text goes on after a comma that follows; `end` without one."""
        at = self._skip(end, self._with_commas)
        return at + 1 if self._with_commas[at : at + 1] == "," else end

    def _end_of_line(self, at: int) -> int:
        """The end of this line, if nothing but a comment follows on it."""
        end = self._text.find("\n", at)
        end = len(self._text) if end < 0 else end
        return at if self._plain[at:end].strip() else end

    def _require_object(self, place: int) -> None:
        if self._plain[place] != "{":
            raise EditRefused("there is something else where an object should be")

    def _skip(self, at: int, text: str | None = None) -> int:
        found = _SPACE.match(self._plain if text is None else text, at)
        assert found is not None
        return found.end()

    def _indent(self, at: int) -> str:
        """The white space at the beginning of this line."""
        line = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip())]

    def _replaced(self, start: int, end: int, new: str) -> str:
        return self._text[:start] + new + self._text[end:]


def _checked(changed: str, expected: Any) -> str:
    try:
        if decode(changed).value == expected:
            return changed
    except InvalidJson:
        pass
    raise EditRefused("the file is written in a way that cannot be changed here")


def _put(document: Any, path: Sequence[str], value: Any) -> None:
    if not isinstance(document, dict):
        raise EditRefused("there is something else where an object should be")
    if len(path) == 1:
        document[path[0]] = value
    else:
        _put(document.setdefault(path[0], {}), path[1:], value)


def _nested(path: Sequence[str], value: Any) -> Any:
    return {path[0]: _nested(path[1:], value)} if path else value


def _dumped(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")
