"""Attaching: replay and what follows, without a gap or a repetition."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.pty.desk import PtyDesk

from holdfast.core.pty.errors import PtyExited
from holdfast.core.pty.output import TerminalOutput
from holdfast.core.pty.process import PtyProcess
from holdfast.core.pty.terminal import Attachment, Behind, End, Terminal
from holdfast.schema.pty import Pty

pytestmark = pytest.mark.anyio

INFO = Pty(id="pty_1", title="t", command="/bin/sh", args=(), cwd="/", status="running", pid=1)


class NoProcess(PtyProcess):
    """For what is about output alone."""

    def __init__(self) -> None:
        pass


def terminal(said: str = "", limit: int | None = None) -> Terminal:
    terminal = Terminal(INFO, NoProcess())
    if limit is not None:
        terminal.output = TerminalOutput(limit)
    terminal.feed(said.encode())
    return terminal


def deaf() -> None:
    pass


def taken(attachment: Attachment) -> str:
    text = ""
    while isinstance(piece := attachment.take(3), str):
        text += piece
    return text


@pytest.mark.parametrize(
    ("cursor", "replay"),
    [(None, "héllo"), (0, "héllo"), (2, "llo"), (5, ""), (99, ""), (-1, ""), (-7, "héllo")],
)
def test_a_cursor_selects_the_replay(cursor: int | None, replay: str) -> None:
    """TOL-298, TOL-309: omitted or invalid is everything, -1 nothing, beyond the end nothing; the cursor is the end."""
    shell = terminal("héllo")
    attachment = shell.attach(cursor, deaf)
    assert (attachment.replay, attachment.cursor) == (replay, 5)
    attachment.activate()
    shell.feed(b"!")
    assert taken(attachment) == "!"


def test_a_cursor_before_what_is_retained_is_clamped() -> None:
    """TOL-296, TOL-298: older output is gone; the replay begins with what is left."""
    shell = terminal("0123456789", limit=4)
    assert shell.attach(2, deaf).replay == "6789"
    assert shell.attach(8, deaf).replay == "89"


def test_output_before_activation_waits_in_order() -> None:
    """TOL-299: nothing is announced or given out before activation; then everything since the replay, then the end."""
    shell, woken = terminal("old "), []
    attachment = shell.attach(None, lambda: woken.append(True))
    shell.feed(b"one ")
    shell.feed(b"two")
    assert attachment.take() is None
    shell.exit(3)
    assert woken == []
    attachment.activate()
    assert woken == [True]
    assert (attachment.take(), attachment.take()) == ("one two", End(3))
    attachment.activate()
    assert woken == [True]


def test_detaching_discards_what_waits() -> None:
    """TOL-299: and activation afterwards does nothing."""
    shell, woken = terminal("old"), []
    attachment = shell.attach(None, lambda: woken.append(True))
    shell.feed(b"new")
    attachment.detach()
    attachment.activate()
    shell.feed(b"more")
    shell.exit(0)
    assert attachment.take() is None
    assert woken == []


def test_a_failing_watcher_is_dropped_alone(caplog: pytest.LogCaptureFixture) -> None:
    """TOL-300: the others see everything, and one end."""
    shell, woken = terminal(), []

    def faulty() -> None:
        raise ValueError("no")

    for notify in (lambda: woken.append("before"), faulty, lambda: woken.append("after")):
        shell.attach(None, notify).activate()
    with caplog.at_level(logging.ERROR):
        shell.feed(b"x")
    shell.exit(0)
    shell.finish(End())
    shell.feed(b"late")
    assert woken == ["before", "after"] * 2
    assert [record.message for record in caplog.records] == ["a watcher of terminal pty_1 failed"]


def test_an_exited_terminal_cannot_be_followed_but_replayed() -> None:
    """TOL-298, TOL-301: the error names it; what it said is still there."""
    shell = terminal("bye")
    shell.exit(1)
    with pytest.raises(PtyExited) as caught:
        shell.attach(None, deaf)
    assert caught.value.pty_id == "pty_1"
    assert shell.replay(1) == ("ye", 3)


def test_characters_split_over_reads_are_one() -> None:
    """TOL-297: and what is never completed, or no text at all, becomes replacement characters."""
    shell = terminal()
    for byte in "é😀".encode():
        shell.feed(bytes((byte,)))
    assert shell.replay(None) == ("é😀", 3)
    shell.feed(b"\xff\xf0\x9f")
    assert shell.replay(3).text == "\ufffd"
    shell.exit(0)
    assert shell.replay(3).text == "\ufffd\ufffd"


def test_a_watcher_who_falls_behind_is_told_and_may_resume() -> None:
    """TOL-302: what waits for a watcher is bounded by what is retained; nobody else notices."""
    shell = terminal(limit=10)
    slow, quick = shell.attach(None, deaf), shell.attach(None, deaf)
    slow.activate()
    quick.activate()
    shell.feed(b"0123456789")
    assert taken(quick) == "0123456789"
    assert slow.take(3) == "012"
    shell.feed(b"abcd")
    assert slow.take() == Behind(3)
    assert taken(quick) == "abcd"
    assert shell.attach(slow.cursor, deaf).replay == "456789abcd"


@settings(max_examples=100)
@given(
    said=st.text(alphabet="ab\n é😀", min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 160), max_size=8),
    moves=st.lists(st.sampled_from(["read", "leave", "return", "activate"]), max_size=24),
)
def test_coming_and_going_loses_and_repeats_nothing(said: str, cuts: list[int], moves: list[str]) -> None:
    """TOL-297, TOL-299, TOL-312: whatever the bytes are cut into, and whenever a watcher leaves and resumes."""
    data = said.encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    shell, seen, cursor = terminal(), "", 0
    attachment: Attachment | None = None
    for chunk in (data[start:stop] for start, stop in pairwise(edges)):
        shell.feed(chunk)
        for move in moves:
            if move == "return" and attachment is None:
                attachment = shell.attach(cursor, deaf)
                seen, cursor = seen + attachment.replay, attachment.cursor
            elif attachment is not None and move == "activate":
                attachment.activate()
            elif attachment is not None and move == "read":
                seen, cursor = seen + taken(attachment), attachment.cursor
            elif attachment is not None and move == "leave":
                attachment.detach()
                attachment = None
    assert seen + shell.replay(cursor).text == said


async def test_a_watcher_of_a_real_shell_sees_the_end_after_the_output(desk: PtyDesk) -> None:
    """TOL-299, TOL-300: the last words come before the exit code."""
    watchers = [desk.watch(desk.run("printf 'last words'; exit 7").id) for _ in range(3)]
    assert await asyncio.gather(*(watcher.rest() for watcher in watchers)) == [("last words", 7)] * 3
