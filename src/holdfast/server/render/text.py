"""Plain text for HTML: escaped, bounded, and with invisible characters made visible."""

from __future__ import annotations

import re

from holdfast.text.visible_text import HIDDEN

LINE = 20_000
"""Characters of one line; more is left out with a note."""

_SPECIAL = re.compile(f'[&<>"{HIDDEN}]')
_HIDDEN = re.compile(f"[{HIDDEN}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escaped(text: str) -> str:
    """The text as HTML. Characters that would be invisible or change the direction of others are named: `U+202E`."""
    return _SPECIAL.sub(_replacement, text)


def visible(text: str) -> str:
    """The text for a place where no HTML is, with invisible characters named."""
    return _HIDDEN.sub(lambda found: _code(found[0]), text)


def attribute(text: str) -> str:
    """The text as the value of an attribute, without invisible characters."""
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], ""), text)


def encodable(text: str) -> str:
    """Without lone surrogates, which no encoding has."""
    return _SURROGATES.sub("\ufffd", text)


def bounded(text: str, limit: int, *, line: int = LINE) -> tuple[str, bool]:
    """The beginning of a text, with long lines cut, and whether something was left out."""
    cut = len(text) > limit
    text = text[:limit]
    if len(text) <= line:
        return text, cut
    lines = text.split("\n")
    long = [index for index, one in enumerate(lines) if len(one) > line]
    for index in long:
        lines[index] = f"{lines[index][:line]}… ({len(lines[index]) - line:,} characters left out)"
    return "\n".join(lines) if long else text, cut or bool(long)


def last_lines(text: str, lines: int, *, characters: int) -> str:
    """The end of a text, each line bounded."""
    tail = text.rstrip()[-lines * characters * 4 :].split("\n")[-lines:]
    return "\n".join(line if len(line) <= characters else line[:characters] + "…" for line in tail)


def one_line(text: str, characters: int) -> str:
    """The beginning of a text without line ends and invisible characters, for where no HTML is."""
    short = visible(" ".join(text[: characters * 4].split()))
    return short if len(short) <= characters else short[: characters - 1] + "…"


def _replacement(found: re.Match[str]) -> str:
    character = found[0]
    return _ENTITIES.get(character) or f'<span class="ctl">{_code(character)}</span>'


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
