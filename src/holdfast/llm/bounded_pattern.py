"""Regular expressions of JSON Schemas, matched in time proportional to pattern and text.

`re` backtracks: some patterns take exponential time. Here all alternatives advance together, one character at a time.
Back references and look-around cannot be matched this way; they are refused, as is what ECMAScript does not know."""

from __future__ import annotations

from functools import lru_cache
from string import hexdigits
from typing import Any, Literal

from holdfast.schema.frozen import Frozen

LENGTH = 1_000
"""Most characters of a pattern."""
PROGRAM = 5_000
"""Most instructions of a pattern; a counted repetition is written out."""
GROUPS = 50
"""Most groups inside one another."""

_END = 0x10FFFF
_DIGIT = ((0x30, 0x39),)
_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACES = (
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACES}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_ASSERTIONS = {"^": "start", "$": "end"}

Ranges = tuple[tuple[int, int], ...]


class PatternError(ValueError):
    """The pattern is invalid or not supported; the message says why."""


class MatchTooLong(Exception):
    """The steps were used up before the end of the text."""


class _Set(Frozen):
    ranges: Ranges


class _Assertion(Frozen):
    kind: str


class _Sequence(Frozen):
    items: tuple[Any, ...]


class _Choice(Frozen):
    items: tuple[Any, ...]


class _Repeat(Frozen):
    item: Any
    least: int
    most: int | None


class _Instruction(Frozen):
    kind: Literal["set", "split", "jump", "assert", "match"]
    ranges: Ranges = ()
    first: int = 0
    second: int = 0
    assertion: str = ""


class Steps:
    """How many steps are left, for one pattern or several."""

    def __init__(self, count: int) -> None:
        self.left = count

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise MatchTooLong


class BoundedPattern:
    def __init__(self, program: tuple[_Instruction, ...]) -> None:
        self._program = program

    def search(self, text: str, steps: Steps) -> bool:
        """Whether some part of the text matches. Raises MatchTooLong."""
        active: list[int] = []
        for at in range(len(text) + 1):
            reached = self._reached([*active, 0], text, at, steps)
            active = []
            code = ord(text[at]) if at < len(text) else -1
            for place in reached:
                instruction = self._program[place]
                if instruction.kind == "match":
                    return True
                if any(low <= code <= high for low, high in instruction.ranges):
                    active.append(place + 1)
        return False

    def _reached(self, places: list[int], text: str, at: int, steps: Steps) -> list[int]:
        """The instructions that consume a character or end the match, reached without consuming one."""
        seen: set[int] = set()
        reached: list[int] = []
        waiting = places
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            instruction = self._program[place]
            match instruction.kind:
                case "jump":
                    waiting.append(instruction.first)
                case "split":
                    waiting += (instruction.first, instruction.second)
                case "assert":
                    if _holds(instruction.assertion, text, at):
                        waiting.append(place + 1)
                case _:
                    reached.append(place)
        steps.take(len(seen))
        return reached


@lru_cache(maxsize=512)
def bounded_pattern(text: str) -> BoundedPattern:
    """Raises PatternError."""
    if len(text) > LENGTH:
        raise PatternError(f"it is longer than {LENGTH} characters")
    parser = _Parser(text)
    program: list[_Instruction] = []
    _emit(parser.parse(), program)
    program.append(_Instruction("match"))
    return BoundedPattern(tuple(program))


def _holds(assertion: str, text: str, at: int) -> bool:
    match assertion:
        case "start":
            return at == 0
        case "end":
            return at == len(text)
        case _:
            before = at > 0 and _is_word(text[at - 1])
            after = at < len(text) and _is_word(text[at])
            return (before != after) == (assertion == "boundary")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _is_word(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _WORD)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> Any:
        parsed = self._choice()
        if self._at < len(self._text):
            raise PatternError(f"unmatched {self._text[self._at]!r} at {self._at}")
        return parsed

    def _choice(self) -> Any:
        items = [self._sequence()]
        while self._taken("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else _Choice(tuple(items))

    def _sequence(self) -> _Sequence:
        items: list[Any] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            items.append(self._repeated(self._atom()))
        return _Sequence(tuple(items))

    def _repeated(self, atom: Any) -> Any:
        counts = self._counts()
        if counts is None:
            return atom
        if isinstance(atom, _Assertion):
            raise PatternError(f"nothing to repeat at {self._at}")
        self._taken("?")  # whether a repetition is lazy makes no difference to a match
        if self._counts() is not None:
            raise PatternError(f"two repetitions at {self._at}")
        return _Repeat(atom, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        if self._taken("*"):
            return 0, None
        if self._taken("+"):
            return 1, None
        if self._taken("?"):
            return 0, 1
        if not self._taken("{"):
            return None
        inside, closed, _ = self._text[self._at :].partition("}")
        least, comma, most = inside.partition(",")
        if not closed or not _is_count(least) or (most and not _is_count(most)):
            raise PatternError(f"invalid repetition at {self._at}")
        self._at += len(inside) + 1
        if max(len(least), len(most)) > len(str(PROGRAM)):
            raise PatternError("it repeats too often")
        low, high = int(least), (int(most) if most else None if comma else int(least))
        if high is not None and high < low:
            raise PatternError(f"invalid repetition at {self._at}")
        return low, high

    def _atom(self) -> Any:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return _Set(_without(_LINE_ENDS))
            case "^" | "$":
                return _Assertion(_ASSERTIONS[character])
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise PatternError(f"nothing to repeat at {self._at - 1}")
            case _:
                return _Set(_single(character))

    def _group(self) -> Any:
        self._depth += 1
        if self._depth > GROUPS:
            raise PatternError(f"more than {GROUPS} groups inside one another")
        if self._taken("?"):
            if self._taken("<") and self._text[self._at : self._at + 1] not in ("=", "!"):
                _, _, rest = self._text[self._at :].partition(">")
                self._at = len(self._text) - len(rest)
            elif not self._taken(":"):
                raise PatternError("look-around is not supported")
        inside = self._choice()
        if not self._taken(")"):
            raise PatternError("a group is not closed")
        self._depth -= 1
        return inside

    def _set(self) -> _Set:
        negated = self._taken("^")
        ranges: list[tuple[int, int]] = []
        while not self._taken("]"):
            low = self._member()
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] < low[0][0]:
                    raise PatternError(f"invalid range at {self._at}")
                ranges.append((low[0][0], high[0][1]))
            else:
                ranges += low
        return _Set(_without(tuple(ranges)) if negated else tuple(ranges))

    def _member(self) -> Ranges:
        character = self._next()
        if character != "\\":
            return _single(character)
        if self._text[self._at : self._at + 1] == "b":
            self._at += 1
            return _single("\b")
        found = self._escape()
        if not isinstance(found, _Set):
            raise PatternError(f"invalid escape at {self._at}")
        return found.ranges

    def _escape(self) -> Any:
        character = self._next()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return _Set(ranges if character.islower() else _without(ranges))
        if character in ("b", "B"):
            return _Assertion("boundary" if character == "b" else "inside")
        if character in _CONTROLS:
            return _Set(_single(_CONTROLS[character]))
        if character in ("x", "u"):
            return _Set(_single(self._code(2 if character == "x" else 4)))
        if character.isalnum():
            raise PatternError(f"\\{character} is not supported")
        return _Set(_single(character))

    def _code(self, digits: int) -> str:
        if digits == 4 and self._taken("{"):
            given, closed, _ = self._text[self._at :].partition("}")
            self._at += len(given) + len(closed)
        else:
            given = self._text[self._at : self._at + digits].rjust(digits, "?")
            self._at += digits
        if not given or len(given) > 6 or not set(given) <= set(hexdigits) or int(given, 16) > _END:
            raise PatternError(f"invalid escape at {self._at}")
        return chr(int(given, 16))

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _taken(self, character: str) -> bool:
        if self._text[self._at : self._at + 1] != character:
            return False
        self._at += 1
        return True


def _emit(node: Any, program: list[_Instruction]) -> None:
    if len(program) >= PROGRAM:
        raise PatternError("it repeats too often")
    match node:
        case _Set():
            program.append(_Instruction("set", ranges=node.ranges))
        case _Assertion():
            program.append(_Instruction("assert", assertion=node.kind))
        case _Sequence():
            for item in node.items:
                _emit(item, program)
        case _Choice():
            _emit_choice(node, program)
        case _Repeat():
            _emit_repeat(node, program)


def _emit_choice(node: _Choice, program: list[_Instruction]) -> None:
    ends: list[int] = []
    for item in node.items[:-1]:
        split = _placeholder(program)
        _emit(item, program)
        ends.append(_placeholder(program))
        program[split] = _Instruction("split", first=split + 1, second=len(program))
    _emit(node.items[-1], program)
    for end in ends:
        program[end] = _Instruction("jump", first=len(program))


def _emit_repeat(node: _Repeat, program: list[_Instruction]) -> None:
    for _ in range(node.least):
        before = len(program)
        _emit(node.item, program)
        if len(program) == before:
            return  # it is empty, however often it is repeated
    if node.most is None:
        split = _placeholder(program)
        _emit(node.item, program)
        program.append(_Instruction("jump", first=split))
        program[split] = _Instruction("split", first=split + 1, second=len(program))
        return
    splits: list[int] = []
    for _ in range(node.most - node.least):
        splits.append(_placeholder(program))
        _emit(node.item, program)
    for split in splits:
        program[split] = _Instruction("split", first=split + 1, second=len(program))


def _placeholder(program: list[_Instruction]) -> int:
    if len(program) >= PROGRAM:
        raise PatternError("it repeats too often")
    program.append(_Instruction("jump"))
    return len(program) - 1


def _single(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


def _without(ranges: Ranges) -> Ranges:
    """All characters outside the ranges."""
    kept: list[tuple[int, int]] = []
    next_free = 0
    for low, high in sorted(ranges):
        if low > next_free:
            kept.append((next_free, low - 1))
        next_free = max(next_free, high + 1)
    if next_free <= _END:
        kept.append((next_free, _END))
    return tuple(kept)
