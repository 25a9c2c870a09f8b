"""Finds mentions in the text of a prompt: `@path`, `@path#L10-20`, `@"path with spaces"`, `@reference/path`, `@agent`,
`@server:resource`.

A pure function of the text and the names of MCP servers, in linear time. Not mentions: `\\@`, an `@` directly after a
letter, digit or one of `_ . + - % / @` and the like (e-mail addresses, URLs), and everything in fenced or inline code.
What a mention names is decided by its resolution (mentions.py)."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from holdfast.core.session.attachment_source import LINE_DIGITS, LineRange
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.prompt import Source

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterator

PATH_CHARACTERS = 4096
BEFORE = frozenset("_.+-%/\\@~=#&$`")
"""Characters directly before an `@` that make it part of something else."""
PAIRS = {")": "(", "]": "[", "}": "{"}

# fmt: off
EXTENSIONS = frozenset({
    "asm", "astro", "avif", "bash", "bat", "bmp", "c", "cc", "cfg", "clj", "cmake", "conf", "cpp", "cs", "css", "csv",
    "cxx", "dart", "diff", "docx", "ejs", "elm", "env", "erl", "ex", "exs", "fish", "fs", "gif", "go", "gradle",
    "graphql", "groovy", "h", "hcl", "hpp", "hs", "htm", "html", "ini", "ipynb", "java", "jpeg", "jpg", "js", "json",
    "json5", "jsonc", "jsonl", "jsx", "kt", "kts", "less", "lock", "log", "lua", "markdown", "md", "mdx", "mjs", "ml",
    "mm", "nim", "nix", "patch", "pdf", "php", "pl", "plist", "png", "properties", "proto", "ps1", "py", "pyi", "pyx",
    "rb", "rs", "rst", "sass", "scala", "scss", "sh", "sln", "sql", "svelte", "svg", "swift", "tex", "tf", "tiff",
    "toml", "ts", "tsv", "tsx", "txt", "vb", "vue", "wasm", "webp", "xhtml", "xlsx", "xml", "yaml", "yml", "zig", "zsh",
})
# fmt: on
"""Extensions by which a name without a slash is taken for a file. Others are words, as in `@functools.cache`."""


class Mention(Frozen):
    path: str
    """What follows the `@`, without quotes and lines; of a resource its address."""
    source: Source
    lines: LineRange | None
    is_quoted: bool
    looks_like_path: bool
    """Whether a note tells that it names nothing. Otherwise it stays plain text, as in quoted names of packages."""
    server: str | None = None
    """The MCP server, if a resource is mentioned."""

    @property
    def name(self) -> str:
        """As written, without the `@` and quotes."""
        written = self.source.text[1:]
        return written.replace('"', "") if self.is_quoted else written


def may_mention(text: str) -> bool:
    """False for a text for which resolving mentions makes no difference, so that it is not recorded either."""
    return "@" in text


def parse(text: str, servers: Collection[str] = ()) -> Iterator[Mention]:
    """The mentions in the order of the text. `servers` are the names of the MCP servers."""
    done = 0
    for start, end in _paragraphs(text):
        code = iter(_inline_code(text, start, end))
        span = next(code, None)
        for match in _TOKEN.finditer(text, start, end):
            while span is not None and span[1] <= match.start():
                span = next(code, None)
            if (span is not None and span[0] <= match.start()) or match.start() < done:
                continue
            if (mention := _mention(text, match, servers)) is not None:
                done = mention.source.end
                yield mention


def _mention(text: str, match: re.Match[str], servers: Collection[str]) -> Mention | None:
    start = match.start()
    before = text[start - 1] if start else ""
    if before and not _may_precede(before):
        return None
    quoted = match["quoted"]
    if servers and (resource := _resource(text, match, servers)) is not None:
        return resource
    if quoted is not None:
        path, lines, end = quoted, _lines(match["lines"]), match.end()
    else:
        written = _trimmed(match["plain"])
        found = _LINES.search(written)
        path, lines = (written[: found.start()], _lines(found[0])) if found else (written, None)
        end = start + 1 + len(written)
    if not 0 < len(path) <= PATH_CHARACTERS or not (any(map(str.isalnum, path)) or path in ("./", "../")):
        return None
    return Mention(
        path=path,
        source=Source(start=start, end=end, text=text[start:end]),
        lines=lines,
        is_quoted=quoted is not None,
        looks_like_path=before not in ("'", '"') and _looks_like_path(path),
    )


def _resource(text: str, match: re.Match[str], servers: Collection[str]) -> Mention | None:
    """A mention of a resource: the name of a server, a colon, and an address with a scheme."""
    start, quoted = match.start(), match["quoted"]
    if quoted is not None:
        server = next((name for name in servers if quoted.startswith(f"{name}:")), None)
        uri = quoted[len(server) + 1 :] if server is not None else ""
        end = match.end("quoted") + 1
        if server is None or not _ADDRESS.match(uri):
            return None
    else:
        server = match["plain"]
        follows = server in servers and text.startswith(":", match.end())
        found = _ADDRESS.match(text, match.end() + 1) if follows else None
        if found is None:
            return None
        uri = _trimmed(found[0], ".,;:!?([{")
        end = found.start() + len(uri)
    if not 0 < len(uri) <= PATH_CHARACTERS:
        return None
    return Mention(
        path=uri,
        source=Source(start=start, end=end, text=text[start:end]),
        lines=None,
        is_quoted=quoted is not None,
        looks_like_path=True,
        server=server,
    )


def _may_precede(character: str) -> bool:
    """Letters of scripts that are written without spaces may stand before a mention."""
    if character.isalnum():
        return unicodedata.category(character) == "Lo"
    return character not in BEFORE


def _trimmed(written: str, ends: str = ".([{") -> str:
    """Without punctuation at its end that belongs to the sentence: full stops, and brackets without a partner."""
    end = len(written)
    surplus = {closing: written.count(closing) - written.count(opening) for closing, opening in PAIRS.items()}
    while end:
        last = written[end - 1]
        if last in surplus:
            if surplus[last] <= 0:
                break
            surplus[last] -= 1
        elif last not in ends:
            break
        end -= 1
    return written[:end]


def _looks_like_path(path: str) -> bool:
    _, dot, extension = path.rpartition(".")
    return "/" in path or (bool(dot) and extension.lower() in EXTENSIONS)


def _lines(written: str | None) -> LineRange | None:
    if not written:
        return None
    first, _, last = written[2:].partition("-")
    return LineRange(int(first), int(last.removeprefix("L") or first))


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """The spans of consecutive lines that are neither empty nor part of a fenced code block."""
    fence = ""
    begin: int | None = None
    for line in _LINE.finditer(text):
        opened = _FENCE.match(line[0])
        if fence:
            if opened and opened[1].startswith(fence) and not opened[2].strip():
                fence = ""
            continue
        is_fence = opened is not None and not (opened[1][0] == "`" and "`" in opened[2])
        if begin is not None and (is_fence or not line[0].strip()):
            yield begin, line.start()
            begin = None
        if is_fence and opened is not None:
            fence = opened[1]
        elif begin is None and line[0].strip():
            begin = line.start()
    if begin is not None:
        yield begin, len(text)


def _inline_code(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The spans between two runs of equally many backticks."""
    runs = [(run.start(), run.end()) for run in _BACKTICKS.finditer(text, start, end)]
    partner: dict[int, int] = {}
    latest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        if length in latest:
            partner[index] = latest[length]
        latest[length] = index
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        closing = partner.get(index)
        if closing is not None:
            spans.append((runs[index][0], runs[closing][1]))
        index = index + 1 if closing is None else closing + 1
    return spans


_RANGE = rf"#L[0-9]{{1,{LINE_DIGITS}}}(?:-L?[0-9]{{1,{LINE_DIGITS}}})?"
_ENDS = r"""\s"'`<>|,;:!?*\\。，、；：！？（）「」『』【】《》“”‘’«»…"""
_QUOTED = rf'"(?P<quoted>[^"\n]*)"(?P<lines>{_RANGE}(?![0-9A-Za-z_]))?'
_TOKEN = pattern(rf"@(?:{_QUOTED}|(?P<plain>[^@{_ENDS}][^{_ENDS}]*))")
_ADDRESS = pattern(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\s"'`<>|\\。，、；：！？（）「」『』【】《》“”‘’«»…]+""")
_LINES = pattern(rf"{_RANGE}\Z")
_LINE = pattern(r"[^\n]*\n?")
_FENCE = pattern(r"[ \t>]*(`{3,}|~{3,})([^\n]*)")
_BACKTICKS = pattern(r"`+")
