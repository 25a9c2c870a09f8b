"""Checks rendered HTML with the parser of the standard library: only what the page may show, well nested, nothing that
acts."""

from __future__ import annotations

from html.parser import HTMLParser

from holdfast.server.render.sanitize import ATTRIBUTES, CLASSES, LINK, SCHEMES, TAGS, span_classes

VOID = {"br", "hr"}
INVISIBLE = {*map(chr, range(0x20)), "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff"} - {"\n", "\t"}


class _Check(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            if name == "class":
                allowed = span_classes() if tag == "span" else CLASSES.get(tag, frozenset())
                assert set((value or "").split()) <= allowed, (tag, value)
                continue
            assert name in ATTRIBUTES.get(tag, frozenset()), (tag, name)
            if name == "href":
                assert (value or "").partition(":")[0].lower() in SCHEMES, value
            if name in LINK:
                assert value == LINK[name]
        if tag == "a":
            assert {name for name, _ in attrs} >= {*LINK, "href"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open, tag
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


def check(html: str) -> str:
    """Returns the text of the HTML."""
    html.encode()
    parser = _Check()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    text = "".join(parser.text)
    assert not INVISIBLE & set(text), sorted(INVISIBLE & set(text))
    return text
