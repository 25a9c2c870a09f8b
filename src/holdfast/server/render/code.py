"""Source code as HTML with classes `hl-…`. The language is given by name, never guessed from the content."""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from holdfast.server.render.text import escaped

if TYPE_CHECKING:
    from pygments.lexer import Lexer, LexerMeta

PREFIX = "hl-"
LARGEST = 100_000
"""Characters of a block; a larger one is not highlighted."""
LONGEST_LINE = 2_000
"""Some lexers take quadratic time on a line."""
SECONDS = 0.5
"""Of processor time; what is left then is not highlighted."""
_NAME = re.compile(r"[a-z0-9_+#.-]{1,40}")
EXTENSIONS = {
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
    "cxx": "cpp",
    "mjs": "javascript",
    "cjs": "javascript",
    "mts": "typescript",
    "cts": "typescript",
    "pyi": "python",
    "yml": "yaml",
    "cfg": "ini",
    "conf": "ini",
    "htm": "html",
    "svg": "xml",
    "kt": "kotlin",
    "kts": "kotlin",
    "rs": "rust",
    "ex": "elixir",
    "exs": "elixir",
    "erl": "erlang",
    "hs": "haskell",
    "ml": "ocaml",
    "tf": "terraform",
    "markdown": "markdown",
    "jsonl": "json",
    "patch": "diff",
}
FILES = {"dockerfile": "docker", "makefile": "make", "cmakelists.txt": "cmake"}


def code_html(code: str, language: str) -> str:
    """The inside of `<pre><code>`."""
    code = code.replace("\r\n", "\n")
    lexer = _lexer(language) if language and len(code) <= LARGEST else None
    if lexer is None or max(map(len, code.split("\n"))) > LONGEST_LINE:
        return escaped(code)
    from pygments.token import STANDARD_TYPES

    parts: list[str] = []
    done, until = 0, time.thread_time() + SECONDS
    for kind, value in lexer.get_tokens(code):
        done += len(value)
        while (name := STANDARD_TYPES.get(kind)) is None and kind.parent is not None:
            kind = kind.parent
        shown = escaped(value)
        parts.append(f'<span class="{PREFIX}{name}">{shown}</span>' if name and value.strip() else shown)
        if time.thread_time() > until:
            parts.append(escaped(code[done:]))
            break
    return "".join(parts)


def language_of(path: str) -> str:
    """The language of a file by its name; empty if unknown."""
    name = PurePosixPath(path[-300:]).name.lower()
    extension = name.rpartition(".")[2] if "." in name else ""
    return FILES.get(name) or EXTENSIONS.get(extension, extension)


@cache
def classes() -> frozenset[str]:
    """Every class that highlighted code may have."""
    from pygments.token import STANDARD_TYPES

    return frozenset(PREFIX + name for name in STANDARD_TYPES.values() if name)


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
def _built_in(name: str) -> LexerMeta:
    from pygments.lexers import find_lexer_class

    found = find_lexer_class(_aliases()[name])
    assert found is not None
    return found
