"""A search for a part of a text, whatever its case, as a pattern for the stores. It names both cases of each letter:
what a store knows about letters does not matter, and no character of the search has a meaning of its own."""

from __future__ import annotations


def pattern_of(search: str) -> str:
    """For GLOB of SQLite, and for `~` of PostgreSQL with `^` escaped: each character is a set of its cases, except `^`,
    which cannot be one alone. A backslash is in its set twice, for PostgreSQL, where it escapes."""
    return "".join("^" if character == "^" else f"[{_cases(character)}]" for character in search)


def _cases(character: str) -> str:
    """Only cases that are one character long."""
    cases = {case for case in (character, character.lower(), character.upper()) if len(case) == 1}
    return "".join(sorted(cases)).replace("\\", "\\\\")
