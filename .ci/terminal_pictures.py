"""Makes the pictures of the interactive terminal in docs/pictures: `holdfast demo` seen in tmux, drawn by Chromium.

`PYTHONPATH=. python .ci/terminal_pictures.py [folder]`. They show times, so they differ with every run: they are
made by hand when the terminal changes, and no check compares them."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from prompt_toolkit.utils import get_cwidth
from tests.acceptance.terminal.tmux import Pane, Tmux

from holdfast.client.discovery import running_servers
from holdfast.tui.requests_panel import GUARD_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
CHROMIUM = os.environ.get("CHROMIUM") or "/usr/bin/chromium"
MOST_BYTES = 120_000
WIDE, NARROW = (100, 30), (40, 20)
MAIN = "Fix the lost cent"
_SGR = re.compile(r"\x1b\[([\d;:]*)m|\x1b[()][A-Z0-9]|[\x0e\x0f]")


class Colours(NamedTuple):
    background: str
    foreground: str
    frame: str
    named: tuple[str, ...]
    """The sixteen colours that a terminal gives names."""


DARK = Colours(
    "#16191d",
    "#d5dae1",
    "#2a2f36",
    (
        *("#3b4048", "#e06c75", "#8fc477", "#e0b860", "#6cb0f2", "#c98be0", "#5cc0cc", "#d5dae1"),
        *("#7a818c", "#f08a92", "#a9d894", "#f0cf85", "#8cc4ff", "#dcabf0", "#80d8e2", "#ffffff"),
    ),
)
LIGHT = Colours(
    "#ffffff",
    "#24292f",
    "#d9dee4",
    (
        *("#24292f", "#c0202a", "#1a7f37", "#8a5a00", "#0550ae", "#8250df", "#00697a", "#6e7781"),
        *("#57606a", "#a40e26", "#2da44e", "#b07800", "#218bff", "#a475f9", "#3192aa", "#8c959f"),
    ),
)


class Picture(NamedTuple):
    name: str
    act: Callable[[Pane], None]
    """Brings the screen into the state that is pictured."""
    size: tuple[int, int] = WIDE
    dark: bool = True


def conversation(pane: Pane) -> None:
    pane.wait_for("The fix is in the changelog.", "idle", "context")


def approval(pane: Pane) -> None:
    pane.wait_for("Permission to", "allow it once")


def allowed(pane: Pane) -> None:
    approval(pane)
    time.sleep(GUARD_SECONDS + 0.1)
    pane.press("y")
    conversation(pane)


def slash_menu(pane: Pane) -> None:
    approval(pane)
    time.sleep(GUARD_SECONDS + 0.1)
    pane.press("Escape")
    pane.wait_for("Ctrl-G answers it")
    pane.type("/")
    pane.wait_for("begin a new session")


def sessions(pane: Pane) -> None:
    conversation(pane)
    pane.send("/sessions")
    pane.wait_for("Sessions", MAIN)


def unfolded(pane: Pane) -> None:
    conversation(pane)
    pane.press("M-Up")
    pane.press("Enter")
    pane.wait_for("## Unreleased")


PICTURES = (
    Picture("approval", approval),
    Picture("approval-light", approval, dark=False),
    Picture("approval-narrow", approval, size=NARROW),
    Picture("menu", slash_menu),
    Picture("conversation", allowed),
    Picture("conversation-light", conversation, dark=False),
    Picture("conversation-narrow-light", conversation, size=NARROW, dark=False),
    Picture("sessions", sessions),
    Picture("unfolded", unfolded),
)
"""In this order: the fifth one answers the request that those before it show."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        home = Path(made)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": made,
            "LANG": "C.UTF-8",
            "TERM": "tmux-256color",
            "PROMPT_TOOLKIT_COLOR_DEPTH": "DEPTH_24_BIT",
        }
        project = home / "projects" / "bill"
        project.parent.mkdir()
        choices = home / ".local" / "state" / "holdfast" / "choices.json"
        choices.parent.mkdir(parents=True, mode=0o700)
        choices.touch()
        subprocess.run(
            [HOLDFAST, "demo", "--directory", str(project)], env=environment, check=True, capture_output=True
        )
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tmux = Tmux(home)
        try:
            for picture in PICTURES:
                captured = capture(tmux, picture, project, environment)
                size = save(draw(browser, captured, picture), folder / f"terminal-{picture.name}.png")
                print(f"terminal-{picture.name}.png {size:,} bytes")
        finally:
            tmux.stop()
            browser.close()
            for server in running_servers(environment):  # it would go on, because Sessions of the demo wait for answers
                os.kill(server.pid, signal.SIGTERM)


def capture(tmux: Tmux, picture: Picture, project: Path, environment: dict[str, str]) -> str:
    theme = "dark" if picture.dark else "light"
    columns, rows = picture.size
    command = [HOLDFAST, "attach", MAIN, "--theme", theme]
    pane = Pane(tmux, command, folder=project, environment=environment, columns=columns, rows=rows)
    pane.wait_until(lambda screen: "connecting" not in screen and "❯" in screen, "no conversation is shown")
    picture.act(pane)
    captured = pane.coloured
    pane.close()
    return captured


def draw(browser: Browser, captured: str, picture: Picture) -> bytes:
    colours = DARK if picture.dark else LIGHT
    page = browser.new_page(device_scale_factor=1.5 if picture.size == WIDE else 2)
    page.set_content(document(captured, colours, picture.size[0]))
    taken = page.locator("figure").screenshot()
    page.close()
    return taken


def document(captured: str, colours: Colours, columns: int) -> str:
    lines = "\n".join(markup(captured.rstrip("\n").split("\n"), colours))
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: transparent }}
figure {{ display: inline-block; margin: 0; background: {colours.background}; border: 1px solid {colours.frame} }}
header {{ background: {colours.frame}; height: 22px; display: flex; align-items: center; gap: 6px; padding-left: 10px }}
header i {{ width: 10px; height: 10px; border-radius: 5px; background: {colours.named[8]} }}
pre {{ margin: 8px 10px; width: {columns}ch; color: {colours.foreground}; line-height: 1.3;
       font: 13px/1.3 "DejaVu Sans Mono", monospace }}
b {{ font-weight: bold }}
span {{ padding: 1px 0 }}
u {{ display: inline-block; overflow: visible; height: 1.3em; vertical-align: top; text-decoration: none }}
</style><figure><header><i></i><i></i><i></i></header><pre>
{lines}</pre></figure>"""


class Style(NamedTuple):
    front: str = ""
    back: str = ""
    marks: frozenset[int] = frozenset()
    """1 bold, 2 dim, 3 italic, 4 underlined, 7 reversed, 9 struck."""

    def css(self, colours: Colours) -> str:
        front, back = self.front, self.back
        if 7 in self.marks:
            front, back = back or colours.background, front or colours.foreground
        lines = " ".join(word for mark, word in ((4, "underline"), (9, "line-through")) if mark in self.marks)
        rules = {
            "color": front,
            "background": back,
            "font-weight": "bold" if 1 in self.marks else "",
            "font-style": "italic" if 3 in self.marks else "",
            "opacity": "0.7" if 2 in self.marks else "",
            "text-decoration": lines,
        }
        return ";".join(f"{name}:{value}" for name, value in rules.items() if value)


def markup(lines: list[str], colours: Colours) -> list[str]:
    """Lines with the sequences of their colours, as HTML."""
    style = Style()
    made = []
    for line in lines:
        pieces, place = [], 0
        for found in [*_SGR.finditer(line), None]:
            text = line[place : found.start() if found is not None else None]
            if text:
                pieces.append(f'<span style="{style.css(colours)}">{"".join(map(cell, text))}</span>')
            if found is not None:
                place = found.end()
                style = changed(style, found[1], colours) if found[1] is not None else style
        made.append("".join(pieces))
    return made


def cell(character: str) -> str:
    """A character that another font may draw keeps the width that it has in a terminal."""
    if character.isascii():
        return html.escape(character)
    return f'<u style="width:{get_cwidth(character)}ch">{character}</u>'


def changed(style: Style, given: str, colours: Colours) -> Style:
    numbers = [int(part or 0) for part in re.split("[;:]", given)] if given else [0]
    while numbers:
        match numbers:
            case [38 | 48 as which, 2, red, green, blue, *rest]:
                colour = f"#{red:02x}{green:02x}{blue:02x}"
                style, numbers = (style._replace(front=colour) if which == 38 else style._replace(back=colour)), rest
            case [38 | 48 as which, 5, number, *rest]:
                colour = indexed(number, colours)
                style, numbers = (style._replace(front=colour) if which == 38 else style._replace(back=colour)), rest
            case [number, *rest]:
                style, numbers = simple(style, number, colours), rest
    return style


def simple(style: Style, number: int, colours: Colours) -> Style:
    match number:
        case 0:
            return Style()
        case 1 | 2 | 3 | 4 | 7 | 9:
            return style._replace(marks=style.marks | {number})
        case 22:
            return style._replace(marks=style.marks - {1, 2})
        case 23 | 24 | 27 | 29:
            return style._replace(marks=style.marks - {number - 20})
        case 39:
            return style._replace(front="")
        case 49:
            return style._replace(back="")
        case _ if 30 <= number <= 37 or 90 <= number <= 97:
            return style._replace(front=indexed(number - 30 if number < 90 else number - 82, colours))
        case _ if 40 <= number <= 47 or 100 <= number <= 107:
            return style._replace(back=indexed(number - 40 if number < 100 else number - 92, colours))
    return style


def indexed(number: int, colours: Colours) -> str:
    """A colour of the table of 256."""
    if number < 16:
        return colours.named[number]
    if number >= 232:
        level = 8 + (number - 232) * 10
        return f"rgb({level},{level},{level})"
    levels = (0, 95, 135, 175, 215, 255)
    red, green, blue = (levels[(number - 16) // step % 6] for step in (36, 6, 1))
    return f"rgb({red},{green},{blue})"


def save(png: bytes, path: Path) -> int:
    """With at most 256 colours, chosen so that those of few letters stay."""
    image = Image.open(BytesIO(png)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path} has {size} bytes"
    return size


if __name__ == "__main__":
    main()
