"""Guesses the commands in text that the grammar does not accept. Used to match deny rules, never allow rules."""

from __future__ import annotations

from holdfast.core.shell.script import SimpleCommand, Word
from holdfast.schema.pattern import pattern

LONGEST_GUESS = 128 * 1024
"""Longer than the system's limit for one argument."""


def guessed_commands(text: str, most: int) -> list[SimpleCommand]:
    found: list[SimpleCommand] = []
    for piece in _BETWEEN.split(text[:LONGEST_GUESS]):
        if len(found) >= most:
            break
        words = piece.split()
        first = next((index for index, word in enumerate(words) if _PASSED_OVER.fullmatch(word) is None), len(words))
        if first < len(words):
            named = tuple(Word(word, _QUOTES.sub("", word)) for word in words[first:])
            found.append(SimpleCommand(" ".join(words[first:]), (), named))
    return found


_BETWEEN = pattern(r"[;&|\n(){}`<>]+")
_PASSED_OVER = pattern(r"if|then|elif|else|fi|while|until|do|done|esac|!|time|\[\[|\]\]|[0-9$'\"\\]+|[A-Za-z_]\w*=.*")
_QUOTES = pattern(r"['\"\\]")
