"""Source code as tokens. The language is given by its name or by that of a file, never guessed from the content.
Pygments is imported with the first code."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.lexer import Lexer, LexerMeta
    from pygments.token import _TokenType

LARGEST = 100_000
"""Characters of a text; a larger one is not highlighted."""
LONGEST_LINE = 2_000
"""Some lexers take quadratic time on a line."""
PATH = 300
"""Characters at the end of a path that are looked at."""
AMBIGUOUS = {
    "conf": "ini",
    "cts": "typescript",
    "h": "c",
    "html": "html",
    "js": "javascript",
    "m": "objective-c",
    "md": "markdown",
    "mts": "typescript",
    "patch": "diff",
    "pl": "perl",
    "py": "python",
    "pyi": "python",
    "r": "r",
    "sh": "bash",
    "sql": "sql",
    "svg": "xml",
    "ts": "typescript",
    "txt": "",
    "xml": "xml",
}
"""Extensions that several languages of Pygments have, or none."""
_NAME = pattern(r"[a-z0-9_+#.-]{1,40}")


def tokens(code: str, language: str, seconds: float) -> Iterator[tuple[_TokenType | None, str]]:
    """The code in pieces, each with its kind of token; None for what is not highlighted: all of it if the language is
    unknown or the code too large, and what is left after so many seconds of processor time."""
    lexer = _lexer(language) if language and len(code) <= LARGEST else None
    if lexer is None or max(map(len, code.split("\n"))) > LONGEST_LINE:
        yield None, code
        return
    done, until = 0, time.thread_time() + seconds
    for kind, value in lexer.get_tokens(code):
        done += len(value)
        yield kind, value
        if time.thread_time() > until:
            yield None, code[done:]
            return


def language_of(path: str) -> str:
    """The language of a file by its name; empty if unknown."""
    name = path[-PATH:].rpartition("/")[2].lower()
    extension = name.rpartition(".")[2] if "." in name else ""
    return AMBIGUOUS[extension] if extension in AMBIGUOUS else _by_file().get(name) or _by_file().get(extension, "")


def _lexer(language: str) -> Lexer | None:
    name = language.lower()
    if not _NAME.fullmatch(name) or name not in _aliases():
        return None
    # A new one for each text, because some keep state. Nothing is stripped or added: the tokens are the code.
    lexer: Lexer = _built_in(name)(stripnl=False, ensurenl=False)
    return lexer


@cache
def _aliases() -> dict[str, str]:
    """Of lexers that come with pygments: its own search would import plugins of other packages."""
    from pygments.lexers import LEXERS

    return {alias.lower(): entry[1] for entry in LEXERS.values() for alias in entry[2]}


@cache
def _by_file() -> dict[str, str]:
    """Aliases by extension or by name of a file."""
    from pygments.lexers import LEXERS

    found: dict[str, str] = {}
    for _, _, aliases, files, _ in LEXERS.values():
        for file in files if aliases else ():
            found.setdefault(file.lower().removeprefix("*."), aliases[0])
    return found


@cache
def _built_in(name: str) -> LexerMeta:
    from pygments.lexers import find_lexer_class

    found = find_lexer_class(_aliases()[name])
    assert found is not None
    return found
