"""A search for a part of a text, whatever its case, as patterns for databases. They name both cases of each letter:
what a database knows about letters does not matter, and no character of the search has a meaning of its own."""

from __future__ import annotations


def glob_of(search: str) -> str:
    """For GLOB of SQLite."""
    return "*" + "".join(_glob_class(_cases(character)) for character in search) + "*"


def regex_of(search: str) -> str:
    """For `~` of PostgreSQL."""
    return "".join(f"(?:{'|'.join(map(_literal, _cases(character)))})" for character in search)


def _cases(character: str) -> list[str]:
    """A letter has one other case at most, of those that are one character long."""
    return sorted({case for case in (character, character.lower(), character.upper()) if len(case) == 1})


def _glob_class(cases: list[str]) -> str:
    return f"[{''.join(cases)}]" if len(cases) > 1 or cases[0] in "*?[" else cases[0]


def _literal(character: str) -> str:
    return f"\\{character}" if character.isascii() and not character.isalnum() and character != "_" else character
