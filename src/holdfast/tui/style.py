"""The names of styles that all lines use, and the palettes that give them colours.

A name with a dot also has the style of what is before the dot: `diff.add` that of `diff`. Names:

text        dim faint strong accent ok warn error added removed selected below
prompts     user user.mark user.file
Markdown    md.h1 md.h2 md.h3 md.strong md.em md.strike md.code md.link md.target md.quote md.bullet md.rule md.table
            md.head
code        code code.keyword code.string code.comment code.number code.name code.function code.type code.operator
            code.error code.label
diffs       diff diff.file diff.hunk diff.add diff.remove diff.same diff.number diff.sign
programs    ansi.black ansi.red ansi.green ansi.yellow ansi.blue ansi.magenta ansi.cyan ansi.white ansi.dim
calls       call.ok call.run call.wait call.fail call.pending call.name call.title call.outcome call.peek
entries     reasoning mark mark.warn foot gutter
around      status status.key status.warn status.error composer composer.mark composer.hint panel panel.title panel.key
            panel.choice panel.chosen menu menu.chosen notice

Colours of programs and marks are those of the terminal, so that they suit its own theme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from prompt_toolkit.styles import Style

if TYPE_CHECKING:
    from collections.abc import Mapping

Theme = Literal["dark", "light", "none"]


class Marks(NamedTuple):
    """Signs that lines use, for terminals with and without Unicode. Each takes one column, but for the ellipsis."""

    bar: str = "▌"
    gutter: str = "│"
    corner: str = "└"
    rule: str = "─"
    ok: str = "✓"
    fail: str = "✗"
    run: str = "●"
    wait: str = "?"
    pending: str = "○"
    folded: str = "▸"
    unfolded: str = "▾"
    bullet: str = "•"
    inner_bullet: str = "◦"
    between: str = "·"
    minus: str = "−"
    down: str = "↓"
    arrow: str = "→"
    prompt: str = "❯"
    cross: str = "┼"
    ellipsis: str = "…"


UNICODE = Marks()
ASCII = Marks(
    bar="|",
    gutter="|",
    corner="`",
    rule="-",
    ok="+",
    fail="x",
    run="*",
    pending="o",
    folded=">",
    unfolded="v",
    bullet="*",
    inner_bullet="-",
    between="-",
    minus="-",
    down="v",
    arrow=">",
    prompt=">",
    cross="+",
    ellipsis="...",
)

_COMMON = {
    "strong": "bold",
    "md.h1": "bold underline",
    "md.h2": "bold",
    "md.h3": "bold",
    "md.strong": "bold",
    "md.em": "italic",
    "md.strike": "strike",
    "md.link": "underline",
    "md.head": "bold",
    "diff.file": "bold",
    "user": "bold",
    "panel.title": "bold",
    "reasoning": "italic",
}
_PROGRAMS = {f"ansi.{name}": f"ansi{name}" for name in ("red", "green", "yellow", "blue", "magenta", "cyan")} | {
    "ansi.black": "ansibrightblack",
    "ansi.white": "",
}
_DARK = {
    **_COMMON,
    **_PROGRAMS,
    "dim": "#8a8f98",
    "faint": "#5c6168",
    "accent": "ansicyan",
    "ok": "ansigreen",
    "warn": "ansiyellow",
    "error": "ansired",
    "added": "ansigreen",
    "removed": "ansired",
    "selected": "noreverse bg:#2a2f37",
    "below": "bg:#30363f #c9d1d9",
    "user.mark": "ansicyan nobold",
    "user.file": "#8a8f98 nobold",
    "md.h1": "bold underline ansicyan",
    "md.h2": "bold ansicyan",
    "md.code": "#d7ba7d",
    "md.target": "#8a8f98 nounderline",
    "md.quote": "#a0a6af italic",
    "md.bullet": "ansicyan",
    "md.rule": "#5c6168",
    "md.table": "#5c6168",
    "code.keyword": "#c792ea",
    "code.string": "#a5c97f",
    "code.comment": "#7a808a italic",
    "code.number": "#f0a072",
    "code.function": "#82aaff",
    "code.type": "#e6c07b",
    "code.operator": "#89a0b8",
    "code.error": "ansired",
    "code.label": "#5c6168",
    "diff.hunk": "#6d8fb3",
    "diff.add": "bg:#12301c",
    "diff.remove": "bg:#3a1a1d",
    "diff.number": "#5c6168",
    "diff.sign": "bold",
    "ansi.dim": "#8a8f98",
    "call.ok": "ansigreen",
    "call.run": "ansicyan",
    "call.wait": "bold ansiyellow",
    "call.fail": "ansired",
    "call.pending": "#5c6168",
    "call.name": "",
    "call.title": "#a0a6af",
    "call.outcome": "#8a8f98",
    "call.peek": "#c08080",
    "reasoning": "italic #8a8f98",
    "mark": "#8a8f98",
    "mark.warn": "ansiyellow",
    "foot": "#5c6168",
    "gutter": "#454a52",
    "status": "#8a8f98",
    "status.key": "#c9d1d9",
    "status.warn": "ansiyellow",
    "status.error": "ansired",
    "composer.mark": "ansicyan",
    "composer.hint": "#5c6168",
    "panel.title": "bold ansiyellow",
    "panel.key": "bold ansicyan",
    "panel.choice": "",
    "panel.chosen": "bg:#2a2f37 bold",
    "menu": "bg:#22262c",
    "menu.chosen": "bg:#3a4250 bold",
    "notice": "ansiyellow",
}
_LIGHT = {
    **_DARK,
    "dim": "#5f6670",
    "faint": "#9aa0a8",
    "accent": "#00697a",
    "ok": "#1a7f37",
    "warn": "#8a5a00",
    "error": "#c0202a",
    "added": "#1a7f37",
    "removed": "#c0202a",
    "selected": "noreverse bg:#e6ebf1",
    "below": "bg:#d9e0e8 #24292f",
    "user.mark": "#00697a nobold",
    "user.file": "#5f6670 nobold",
    "md.h1": "bold underline #00506b",
    "md.h2": "bold #00506b",
    "md.code": "#8a4b08",
    "md.target": "#5f6670 nounderline",
    "md.quote": "#57606a italic",
    "md.bullet": "#00697a",
    "md.rule": "#b4bac2",
    "md.table": "#b4bac2",
    "code.keyword": "#8250df",
    "code.string": "#0a6b2d",
    "code.comment": "#6e7781 italic",
    "code.number": "#b35900",
    "code.function": "#0550ae",
    "code.type": "#7d5600",
    "code.operator": "#4a5a6a",
    "code.error": "#c0202a",
    "code.label": "#9aa0a8",
    "diff.hunk": "#3d6a96",
    "diff.add": "bg:#d8f5df",
    "diff.remove": "bg:#fbdfe0",
    "diff.number": "#9aa0a8",
    "ansi.dim": "#5f6670",
    "ansi.yellow": "#8a5a00",
    "ansi.green": "#1a7f37",
    "ansi.cyan": "#00697a",
    "ansi.black": "",
    "ansi.white": "#57606a",
    "call.ok": "#1a7f37",
    "call.run": "#00697a",
    "call.wait": "bold #8a5a00",
    "call.fail": "#c0202a",
    "call.pending": "#9aa0a8",
    "call.title": "#3d444d",
    "call.outcome": "#5f6670",
    "call.peek": "#9a3b41",
    "reasoning": "italic #5f6670",
    "mark": "#5f6670",
    "mark.warn": "#8a5a00",
    "foot": "#9aa0a8",
    "gutter": "#c8ced6",
    "status": "#5f6670",
    "status.key": "#24292f",
    "status.warn": "#8a5a00",
    "status.error": "#c0202a",
    "composer.mark": "#00697a",
    "composer.hint": "#9aa0a8",
    "panel.title": "bold #8a5a00",
    "panel.key": "bold #00697a",
    "panel.chosen": "bg:#e6ebf1 bold",
    "menu": "bg:#eef1f5",
    "menu.chosen": "bg:#d0dae6 bold",
    "notice": "#8a5a00",
}
_NONE = {
    **_COMMON,
    "menu": "noinherit",
    "selected": "reverse",
    "below": "reverse",
    "md.quote": "italic",
    "diff.sign": "bold",
    "diff.add": "bold",
    "call.wait": "bold",
    "call.fail": "bold",
    "status.warn": "bold",
    "status.error": "bold",
    "error": "bold",
    "warn": "bold",
    "panel.key": "bold",
    "panel.chosen": "reverse",
    "menu.chosen": "reverse",
}
_PALETTES: Mapping[Theme, Mapping[str, str]] = {"dark": _DARK, "light": _LIGHT, "none": _NONE}


def style_of(theme: Theme) -> Style:
    return Style.from_dict(dict(_PALETTES[theme]))


def theme_of(environment: Mapping[str, str], chosen: str | None = None) -> Theme:
    """The chosen theme, else `none` with NO_COLOR, else as COLORFGBG tells, else `dark`."""
    for theme in _PALETTES:
        if chosen == theme:
            return theme
    if environment.get("NO_COLOR"):
        return "none"
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background.isdecimal() and (int(background) == 7 or 9 <= int(background) <= 15) else "dark"


def marks_for(encoding: str | None) -> Marks:
    """Signs that text of this encoding can have."""
    try:
        "".join(UNICODE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
