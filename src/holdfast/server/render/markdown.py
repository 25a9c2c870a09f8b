"""Markdown as safe HTML. Raw HTML in it is text, images are links, and links lead to web pages and to mail only."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.server.render.ansi import plain
from holdfast.server.render.code import code_html
from holdfast.server.render.sanitize import SCHEMES, clean, link_start
from holdfast.server.render.text import bounded, encodable, escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

LARGEST = 200_000
"""Characters of a text; what follows is left out."""
CUT = '<p class="note dim">The rest is left out here because of its size.</p>'
TARGET = 200
"""Characters of a target that is shown because it is no link."""
ALIGNMENT = {"text-align:right": "end", "text-align:center": "mid"}


def markdown_html(text: str) -> str:
    text, cut = bounded(encodable(plain(text)), LARGEST)
    html = clean(_parser().render(text))
    return html + CUT if cut else html


def is_link(target: str) -> bool:
    try:
        return urlsplit(target).scheme.lower() in SCHEMES
    except ValueError:
        return False


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign] # the rules below decide what becomes a link
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


@cache
def _block_parser() -> MarkdownIt:
    """Finds blocks, and does not look into them."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False})
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def block_starts(text: str) -> list[int]:
    """The lines at which the blocks of a text begin."""
    return [token.map[0] for token in _block_parser().parse(text) if token.map and token.level == 0]


def _text(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    return escaped(tokens[index].content)


def _code_inline(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    return f"<code>{escaped(tokens[index].content)}</code>"


def _code_block(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    return _figure(tokens[index].content, "")


def _fence(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    words = tokens[index].info.split(maxsplit=1)
    return _figure(tokens[index].content, words[0] if words else "")


def _figure(content: str, language: str) -> str:
    caption = f"<figcaption>{escaped(language[:40])}</figcaption>" if language else ""
    return f"<figure>{caption}<pre><code>{code_html(content, language)}</code></pre></figure>\n"


def _link_open(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    target = str(tokens[index].attrGet("href") or "")
    return link_start(target) if is_link(target) else ""


def _link_close(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    opening = index
    while tokens[opening].type != "link_open":  # links do not nest
        opening -= 1
    target = str(tokens[opening].attrGet("href") or "")
    return "</a>" if is_link(target) else _shown_target(target)


def _image(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    target, label = str(token.attrGet("src") or ""), escaped(token.content)
    inside = index > 0 and tokens[index - 1].type == "link_open"
    if is_link(target) and not inside:
        return f"{link_start(target)}{label or escaped(target)}</a>"
    return label + _shown_target(target)


def _cell(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    name = ALIGNMENT.get(str(token.attrGet("style") or ""))
    return f'<{token.tag} class="{name}">' if name else f"<{token.tag}>"


def _shown_target(target: str) -> str:
    return f' <span class="dim">({escaped(one_line(target, TARGET))})</span>'


_RULES = {
    "text": _text,
    "code_inline": _code_inline,
    "code_block": _code_block,
    "fence": _fence,
    "link_open": _link_open,
    "link_close": _link_close,
    "image": _image,
    "th_open": _cell,
    "td_open": _cell,
}
