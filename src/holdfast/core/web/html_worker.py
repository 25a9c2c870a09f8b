"""The program that turns a page on its input into Markdown or text on its output. It limits itself, and imports nothing
of this package: it is run by its path, apart from everything."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from typing import Any

from holdfast.schema.pattern import pattern

MEMORY_BYTES = 2 * 1024**3


def to_markdown(page: str) -> str:
    import html2text

    writer = html2text.HTML2Text(bodywidth=0)
    writer.ul_item_mark = "-"
    writer.emphasis_mark = "*"
    writer.backquote_code_style = True
    writer.tag_callback = _own_rule  # type: ignore[assignment]
    return writer.handle(page).strip()


def to_text(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    reader.close()
    lines = (line.rstrip() for line in "".join(reader.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _own_rule(writer: Any, tag: str, attributes: dict[str, str | None], start: bool) -> bool:
    """html2text writes a rule as `* * *`."""
    if tag != "hr":
        return False
    if start:
        writer.p()
        writer.o("---")
        writer.p()
    return True


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden = self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in HIDDEN
        self._verbatim += tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in HIDDEN))
        self._verbatim = max(0, self._verbatim - (tag == "pre"))
        self._break(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if not self._verbatim:
            data = _SPACES.sub(" ", data)
            if not self.pieces or self.pieces[-1].endswith((" ", "\n")):
                data = data.lstrip(" ")
        self.pieces.append(data)

    def _break(self, tag: str) -> None:
        if tag not in INLINE:
            self.pieces.append("\n")


# `embed` has no content, and no end tag that could end the hiding.
HIDDEN = frozenset(("script", "style", "noscript", "iframe", "object"))
INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em embed font i img input ins kbd label mark meter q s samp
    small span strike strong sub sup time tt u var wbr
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_SPACES = pattern(r"\s+")


def work(form: str, cpu_seconds: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    page = sys.stdin.buffer.read().decode("utf-8")
    text = to_markdown(page) if form == "markdown" else to_text(page)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
