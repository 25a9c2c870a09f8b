"""The allow-list that all HTML for the page passes: tags, attributes, classes and schemes of links."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holdfast.server.render import ansi, code
from holdfast.server.render.text import attribute

if TYPE_CHECKING:
    import nh3

TAGS = frozenset(
    (
        *("a", "b", "br", "code", "em", "s", "span", "strong"),
        *("blockquote", "div", "figcaption", "figure", "hr", "li", "ol", "p", "pre", "ul"),
        *("h1", "h2", "h3", "h4", "h5", "h6"),
        *("table", "tbody", "td", "th", "thead", "tr"),
    )
)
SCHEMES = frozenset({"http", "https", "mailto"})
LINK = {"target": "_blank", "rel": "noopener noreferrer nofollow"}
ATTRIBUTES = {"a": frozenset({"href", *LINK}), "ol": frozenset({"start"}), "td": frozenset({"colspan"})}
CLASSES = {
    "div": frozenset({"md", "tbl", "cd", "output"}),
    "figure": frozenset({"code"}),
    "p": frozenset({"note", "dim"}),
    "pre": frozenset({"term", "code"}),
    "table": frozenset({"diff"}),
    "td": frozenset({"ln", "cd", "end", "mid"}),
    "th": frozenset({"end", "mid"}),
    "tr": frozenset({"add", "rem", "hunk"}),
}
"""Those of `span` are in `span_classes`."""


@cache
def span_classes() -> frozenset[str]:
    return frozenset({"ctl", "dim", "cut"}) | ansi.CLASSES | code.classes()


def link_start(target: str) -> str:
    """The opening tag of a link to a page outside."""
    fixed = " ".join(f'{name}="{value}"' for name, value in LINK.items())
    return f'<a href="{attribute(target)}" {fixed}>'


def clean(html: str) -> str:
    """What of some HTML is allowed."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    import nh3

    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) - set(LINK) for tag, names in ATTRIBUTES.items()},
        tag_attribute_values={"a": {name: {value} for name, value in LINK.items()}},
        allowed_classes={**{tag: set(names) for tag, names in CLASSES.items()}, "span": set(span_classes())},
        url_schemes=set(SCHEMES),
        link_rel=None,
        strip_comments=True,
    )
