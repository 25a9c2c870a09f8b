"""The text of an HTML page: its text nodes, with line breaks between block elements."""

from __future__ import annotations

from html.parser import HTMLParser

from holdfast.schema.pattern import pattern


def to_text(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    reader.close()
    lines = (line.rstrip() for line in "".join(reader.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


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


# `embed` has no content and no end tag.
HIDDEN = frozenset(("script", "style", "noscript", "iframe", "object"))
INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em embed font i img input ins kbd label mark meter q s samp
    small span strike strong sub sup time tt u var wbr
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
_SPACES = pattern(r"\s+")
