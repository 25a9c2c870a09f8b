"""Previews of texts that exceed the output limits: head, marker, tail. Pure functions over pieces of text.

Invariants
- A preview stays within both limits, begins with a prefix of the text and ends with a suffix of it. If there is room
  only for the marker, it is the marker.
- Time is linear in the text; memory is constant: text is read in blocks, and two windows of `max_bytes` are kept."""

from __future__ import annotations

import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")

SAVED = "... output truncated; full content saved to {path} ..."
PARTLY_SAVED = "... output truncated; only its beginning is saved, in {path} ..."
LOST = "... output truncated; complete content could not be saved ..."

BLOCK = 64 * 1024
CLUSTER = 32
"""How many characters a cut may move to avoid splitting a grapheme cluster."""
ESCAPE_REACH = 256
GROUP = 256
FEW = 16
SHORT = 256

_SURROGATES = pattern("[\ud800-\udfff]")
_ESCAPE = pattern(rf"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]{{0,{ESCAPE_REACH}}}(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_JOINER = "\u200d"
_PLAIN = frozenset((type(None), bool, int, float))


class OutputLimits(Frozen):
    """Limits for all text of one settlement."""

    max_lines: int = 2000
    max_bytes: int = 50 * 1024


class Sample(Frozen):
    """The first and the last `max_bytes` characters of a text, and its number of lines."""

    head: str
    tail: str
    lines: int


def bounded_text(text: str, limits: OutputLimits) -> str:
    """Return the text if it fits, else a preview; the rest is not saved."""
    return scrub(text) if fits([text], limits) else preview(sample([text], limits), limits, LOST)


def fits(pieces: Iterable[str], limits: OutputLimits) -> bool:
    """Stops reading once a limit is exceeded."""
    lines, size = 1, 0
    for block in blocks(pieces):
        lines += block.count("\n")
        size += len(block) if block.isascii() else len(block.encode())
        if lines > limits.max_lines or size > limits.max_bytes:
            return False
    return True


def sample(pieces: Iterable[str], limits: OutputLimits) -> Sample:
    window = limits.max_bytes
    head, tail, lines = "", "", 1
    for block in blocks(pieces):
        lines += block.count("\n")
        if len(head) < window:
            head += block[: window - len(head)]
        tail = block[-window:] if len(block) >= window else (tail + block)[-window:]
    return Sample(head, tail, lines)


def preview(of: Sample, limits: OutputLimits, marker: str) -> str:
    marker = scrub(marker)
    lines = limits.max_lines - 4 - marker.count("\n")
    room = limits.max_bytes - 4 - len(marker.encode())
    if lines <= 0 or room <= 0:
        return _first_lines(_prefix(marker, limits.max_bytes), limits.max_lines)
    head, tail = of.head, of.tail
    if by_lines := of.lines > lines:
        head, tail = _first_lines(head, -(-lines // 2)), _last_lines(tail, lines // 2)
    if not by_lines or len(head.encode()) + len(tail.encode()) > room:
        head, tail = _prefix(head, -(-room // 2)), _suffix(tail, room // 2)
    return f"{head}\n\n{marker}\n\n{tail}" if tail else f"{head}\n\n{marker}"


def scrub(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Regroup the text into scrubbed blocks of `BLOCK` to two times `BLOCK` characters; the last may be shorter."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        for start in range(0, len(piece), BLOCK):
            part = piece if len(piece) <= BLOCK else piece[start : start + BLOCK]
            waiting.append(part)
            size += len(part)
            if size >= BLOCK:
                yield scrub("".join(waiting))
                waiting, size = [], 0
    if waiting:
        yield scrub("".join(waiting))


def pretty(value: Any, margin: str = "\n") -> Iterator[str]:
    """JSON indented by two, in pieces, so that the whole text is never in memory."""
    inner = f"{margin}  "
    match value:
        case dict() if value:
            before = "{"
            for pairs in _groups(value.items()):
                if (flat := _flat(dict(pairs), [item for _, item in pairs], margin)) is not None:
                    yield f"{before}{flat}"
                else:
                    for key, item in pairs:
                        yield f"{before}{inner}{encode(scrub(str(key))).decode()}: "
                        yield from pretty(item, inner)
                        before = ","
                before = ","
            yield f"{margin}}}"
        case list() | tuple() if value:
            before = "["
            for items in _groups(value):
                if (flat := _flat(items, items, margin)) is not None:
                    yield f"{before}{flat}"
                else:
                    for item in items:
                        yield f"{before}{inner}"
                        yield from pretty(item, inner)
                        before = ","
                before = ","
            yield f"{margin}]"
        case str():
            yield '"'
            for start in range(0, len(value), BLOCK):
                yield encode(scrub(value[start : start + BLOCK])).decode()[1:-1]
            yield '"'
        case _:
            yield encode(value).decode()


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while group := list(islice(rest, GROUP)):
        yield group


def _flat(container: dict[Any, Any] | list[Any], items: list[Any], margin: str) -> str | None:
    """Format a group of small items in one call, without the surrounding brackets; None if an item is too large."""
    if not all(map(_is_small, items)):
        return None
    try:
        text = msgspec.json.format(encode(container), indent=2)
    except UnicodeEncodeError:
        return None
    return text[1:-2].decode().replace("\n", margin)


def _is_small(item: Any) -> bool:
    """A short value, or a container of at most `FEW` short values."""
    if type(item) is dict:
        return len(item) <= FEW and all(map(_is_short, item.values()))
    if type(item) is list:
        return len(item) <= FEW and all(map(_is_short, item))
    return _is_short(item)


def _is_short(item: Any) -> bool:
    return len(item) <= SHORT if type(item) is str else type(item) in _PLAIN


def _first_lines(text: str, count: int) -> str:
    at = -1
    for _ in range(count):
        at = text.find("\n", at + 1)
        if at < 0:
            return text
    return text[:at].removesuffix("\r")


def _last_lines(text: str, count: int) -> str:
    at = len(text)
    for _ in range(count):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return text
    return text[at + 1 :]


def _prefix(text: str, room: int) -> str:
    """The longest prefix of at most `room` bytes that splits no grapheme cluster and no escape sequence."""
    data = text[:room].encode()
    end = room
    if len(data) > room:
        while data[end] & 0xC0 == 0x80:
            end -= 1
    cut = len(data[:end].decode())
    if (escape := _escape_at(text, cut)) is not None:
        cut = escape.start()
    return text[: next((at for at in range(cut, max(cut - CLUSTER, -1), -1) if not _joined(text, at)), cut)]


def _suffix(text: str, room: int) -> str:
    data = text[-room:].encode() if room else b""
    start = max(len(data) - room, 0)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    cut = len(text) - len(data[start:].decode())
    if (escape := _escape_at(text, cut)) is not None:
        cut = escape.end()
    return text[next((at for at in range(cut, min(cut + CLUSTER, len(text) + 1)) if not _joined(text, at)), cut) :]


def _escape_at(text: str, cut: int) -> re.Match[str] | None:
    """The terminal escape sequence that a cut at this position would split."""
    start = text.rfind("\x1b", max(cut - ESCAPE_REACH, 0), cut)
    found = _ESCAPE.match(text, start) if start >= 0 and cut < len(text) else None
    return found if found is not None and found.end() > cut else None


def _joined(text: str, at: int) -> bool:
    """Whether the characters on both sides form one unit: CRLF, a combining mark, an emoji sequence."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before == "\r":
        return after == "\n"
    if after < "\u0300":
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        run = at
        while run > max(at - CLUSTER, 0) and _is_flag_half(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return before == _JOINER or after == _JOINER or _extends(after)


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character)[0] == "M"
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags of regional flags
        or "\u1160" <= character <= "\u11ff"  # vowels and finals of Hangul
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
