"""Recorded sessions at the terminal: hostile text, large pastes, small and simple terminals."""

from __future__ import annotations

import re

import pytest
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling
from tests.acceptance.terminal.conftest import READY, Terminals

pytestmark = pytest.mark.acceptance

TITLE = "\x1b]0;stolen title\x07"
CLEAR = "\x1b[2J\x1b[H\x1bc"
LEAVE = "\x1b[?1049l\x1b[?1000l"
HOSTILE = f"{TITLE}{CLEAR}{LEAVE}\x9b31m\u202eright to left"
COLOUR = re.compile(r"\x1b\[[0-9;]*?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


def test_control_sequences_are_shown_and_never_executed(
    machine: Machine, provider: Provider, terminals: Terminals
) -> None:
    """TUI-001, TUI-013, TUI-126: of a model, of a file's name, of a program's output, and of a prompt."""
    name = "bad\x1b]0;stolen title\x07\x1b[2J.txt"
    (machine.project / name).write_text("harmless\n", encoding="utf-8")
    provider.on(
        "Be hostile",
        calling("bash", command=f"printf '%b' {HOSTILE.encode('unicode_escape').decode()!r}; false"),
        calling("read", path=name),
        Reply(f"before {HOSTILE} after"),
    )
    pane = terminals.opened(machine)
    before = pane.title
    pane.send("Be hostile")
    shown = pane.wait_for("after", "idle")
    pane.press("C-t")  # unfolds all calls
    unfolded = pane.wait_until(lambda screen: "harmless" in screen or "stolen" in screen, "no call was unfolded")
    assert pane.is_full_screen
    assert pane.title == before
    assert "Be hostile" in shown
    assert "\\u001b" in shown + unfolded
    assert READY in unfolded
    pane.press("@")
    pane.type("bad")
    pane.wait_for("bad\\u001b")
    assert pane.title == before
    assert pane.is_full_screen


def test_a_paste_of_five_megabytes_is_refused_and_one_of_three_is_folded(
    machine: Machine, terminals: Terminals
) -> None:
    """TUI-110, TUI-111"""
    pane = terminals.opened(machine)
    pane.paste(b"x" * 79 + b"\n" + (b"y" * 79 + b"\n") * (5 * 1024 * 1024 // 80))
    pane.wait_for("the paste has 5.0 MiB", "mention it with @")
    pane.paste((b"z" * 79 + b"\n") * (3 * 1024 * 1024 // 80))
    pane.wait_for("[pasted 39321 lines")
    pane.type(" typed behind")
    pane.wait_for("typed behind")
    pane.press("C-c")
    pane.wait_without("typed behind")


def test_twenty_columns_and_five_lines(machine: Machine, terminals: Terminals) -> None:
    """TUI-109: it says so, takes keys, and is whole again when there is room."""
    pane = terminals.open(machine, "--new", size=(20, 5))
    pane.wait_for("too small")
    pane.type("abc")
    pane.wait_for("abc")
    pane.resize(80, 24)
    pane.wait_for("A new session", "abc")
    pane.resize(20, 5)
    pane.wait_for("too small", "abc")


def test_without_colours(machine: Machine, provider: Provider, terminals: Terminals) -> None:
    """TUI-050: NO_COLOR"""
    provider.on("Show code", Reply("```python\nreturn 'x'\n```\n\n**bold**"))
    plain = terminals.opened(machine, NO_COLOR="1")
    plain.send("Show code")
    plain.wait_for("return 'x'", "idle")
    assert not COLOUR.search(plain.coloured)
    coloured = terminals.opened(machine)
    coloured.send("Show code")
    coloured.wait_for("return 'x'", "idle")
    assert COLOUR.search(coloured.coloured)


def test_a_locale_without_unicode(machine: Machine, provider: Provider, terminals: Terminals) -> None:
    """TUI-051: all signs are ASCII, and so is everything else."""
    provider.on("Speak plainly", calling("bash", command="true"), Reply("Grüße — ✓ 漢字"))
    pane = terminals.opened(machine, LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    pane.send("Speak plainly")
    shown = pane.wait_for("Gr??e", "idle")
    assert shown.isascii(), shown
    assert "+ bash" in shown


def test_a_dumb_terminal_is_used_line_by_line(machine: Machine, provider: Provider, terminals: Terminals) -> None:
    """TUI-060, TUI-061, TUI-160"""
    provider.on("Tag linearly", calling("bash", command="git tag linear"), Reply("Tagged linearly."))
    pane = terminals.open(machine, "--new", TERM="dumb")
    pane.wait_for("line by line")
    pane.send("Tag linearly")
    pane.wait_for("Request: Permission to bash", "git tag linear", "1. allow it once")
    pane.send("not an answer")
    pane.wait_for("is not a choice")
    pane.send("1")
    pane.wait_for("Tagged linearly.", "Ready.")
    assert not pane.is_full_screen
    assert "\x1b" not in pane.coloured
    pane.send("/quit")
    assert pane.wait_for_exit() == 0
