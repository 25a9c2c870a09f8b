"""The status line, lists to choose from, pages, large pastes, and prompts that are sent until they are received."""

from __future__ import annotations

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from holdfast.client.errors import ClientError
from holdfast.client.new_ids import new_message_id
from holdfast.schema.exceptions import InvalidRequest
from holdfast.tui.commands import read_call
from holdfast.tui.lines import line_columns, plain_text
from holdfast.tui.pager import Pager
from holdfast.tui.paste_input import PasteParser
from holdfast.tui.pickers import Pick, Picker
from holdfast.tui.sending import until_received
from holdfast.tui.status_line import Budget, StatusView, elapsed, money, status_fragments, tokens

pytestmark = pytest.mark.anyio

BUSY = StatusView(
    state="running",
    wait="the model answers",
    wait_since=100.0,
    model="anthropic/claude-opus",
    agent="build",
    context_used=32_000,
    context_limit=200_000,
    cache=0.91,
    turn_cost=0.01,
    tree_cost=1.234,
    sessions=3,
    budget=Budget(1.234, 5.0),
)


def text(view: StatusView, width: int = 200, now: float = 107.2) -> str:
    line = status_fragments(view, width, now)
    assert sum(len(part) for _, part in line) <= width
    return "".join(part for _, part in line)


def test_the_status_line_tells_everything_where_there_is_room() -> None:
    """TUI-140"""
    shown = text(BUSY)
    for part in (
        "the model answers 7s",
        "anthropic/claude-opus",
        "build",
        "context 16%",
        "cache 91%",
        "turn $0.0100",
        "$1.23 (3 sessions)",
        "budget $1.23/$5.00",
    ):
        assert part in shown


@pytest.mark.parametrize("width", [20, 24, 40, 60, 80, 120])
def test_a_narrow_status_line_keeps_what_matters_most(width: int) -> None:
    """TUI-140"""
    assert text(BUSY, width).startswith(("| the model", "/ the model", "- the model", "\\ the model"))
    if width >= 40:
        assert "claude-opus" in text(BUSY, width)


def test_a_lost_connection_comes_before_everything_else() -> None:
    """TUI-141"""
    view = BUSY._replace(connection="reconnecting", connection_since=100.0)
    assert text(view).startswith("reconnecting 7s")


def test_open_requests_and_untrusted_settings_are_told() -> None:
    """TUI-140"""
    shown = text(StatusView(state="waiting", wait="waits for you", wait_since=47.0, requests=2, untrusted=4))
    assert shown == "waits for you 1m00s  2 requests: Ctrl-G  4 settings untrusted"


def test_figures_are_short() -> None:
    """TUI-140"""
    assert [tokens(count) for count in (999, 1500, 250_000)] == ["999", "1.5k", "250k"]
    assert [money(dollars) for dollars in (0, 0.0123, 12.5)] == ["$0", "$0.0123", "$12.50"]
    assert [elapsed(seconds) for seconds in (5, 65, 3700)] == ["5s", "1m05s", "1h01m"]


# -- pickers -----------------------------------------------------------------------------------------------------


def test_a_picker_is_searched_and_chooses() -> None:
    """TUI-142"""
    chosen: list[str] = []
    picks = [Pick("1", "anthropic/opus"), Pick("2", "openai/gpt", current=True), Pick("3", "openai/mini")]
    picker = Picker("Model", picks, chosen.append)
    assert picker.selected == 1
    for key in "mini":
        assert not picker.key(key)
    assert picker.key("enter")
    assert chosen == ["3"]


def test_a_picker_without_a_match_chooses_nothing() -> None:
    """TUI-142"""
    chosen: list[str] = []
    picker = Picker("Model", [Pick("1", "one")], chosen.append)
    picker.key("z")
    assert not picker.key("enter")
    assert picker.key("escape")
    assert chosen == []


def test_a_picker_asks_for_more_and_ignores_late_answers() -> None:
    """TUI-142"""
    asked: list[str] = []
    picker = Picker("Sessions", [], lambda value: None, ask=asked.append)
    picker.key("a")
    picker.key("b")
    assert asked == ["a", "ab"]
    picker.offer("a", [Pick("1", "abacus")])
    assert picker.shown == []
    picker.offer("ab", [Pick("1", "abacus")])
    assert [pick.value for pick in picker.shown] == ["1"]


@pytest.mark.parametrize(("width", "height"), [(24, 5), (40, 12), (120, 40)])
def test_a_picker_fits_and_shows_what_is_selected(width: int, height: int) -> None:
    """TUI-142"""
    picker = Picker(
        "All", [Pick(str(n), f"item {n} " + "漢" * 50, "detail\x1b[2J") for n in range(100)], lambda _: None
    )
    for _ in range(60):
        picker.key("down")
    lines = picker.lines(width, height)
    assert len(lines) <= height
    assert all(line_columns(line) <= width for line in lines)
    assert any("item 60" in plain_text(line) for line in lines)
    assert not any("\x1b" in plain_text(line) for line in lines)


def test_a_page_is_scrolled_and_closed() -> None:
    """TUI-143"""
    page = Pager("Help", "\n".join(f"line {n}" for n in range(50)))
    assert "line 0" in plain_text(page.lines(40, 10)[1])
    page.key("end")
    assert plain_text(page.lines(40, 10)[-1]) == "line 49"
    page.key("home")
    assert "line 0" in plain_text(page.lines(40, 10)[1])
    assert page.key("escape")


@pytest.mark.parametrize(
    ("typed", "call"),
    [
        ("/help", ("help", "")),
        ("/review main  now", ("review", "main  now")),
        ("/usr/bin", ("usr/bin", "")),
        (" /help", None),
        ("/", None),
        ("text /help", None),
    ],
)
def test_calls_begin_with_a_slash(typed: str, call: tuple[str, str] | None) -> None:
    """TUI-150"""
    assert read_call(typed) == call


# -- pastes as they arrive ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1024])
def test_a_paste_in_pieces_arrives_whole_and_keys_after_it_too(size: int) -> None:
    """TUI-111"""
    pasted = "line one\nline \x1b[2 two " * 20
    sent = f"a\x1b[200~{pasted}\x1b[201~b\x1b[200~x\x1b[201~\x1b[A"
    keys: list[KeyPress] = []
    parser = PasteParser(keys.append)
    for start in range(0, len(sent), size):
        parser.feed(sent[start : start + size])
    parser.flush()
    assert [(press.key, press.data) for press in keys[:4]] == [
        ("a", "a"),
        (Keys.BracketedPaste, pasted),
        ("b", "b"),
        (Keys.BracketedPaste, "x"),
    ]
    assert keys[4].key == Keys.Up


# -- sending -----------------------------------------------------------------------------------------------------


async def test_a_prompt_is_sent_again_until_it_is_received() -> None:
    """TUI-120"""
    attempts: list[int] = []
    pauses: list[float] = []

    async def send() -> str:
        attempts.append(1)
        if len(attempts) < 2:
            raise ClientError("Transport", "the connection broke")
        return "receipt"

    assert await until_received(send, waiting=pauses.append) == "receipt"
    assert len(attempts) == 2
    assert pauses == [0.25]


async def test_what_the_server_refuses_is_not_sent_again() -> None:
    """TUI-120"""
    attempts: list[int] = []

    async def send() -> None:
        attempts.append(1)
        raise InvalidRequest("no", kind="Payload", field="text")

    with pytest.raises(InvalidRequest):
        await until_received(send)
    assert len(attempts) == 1


async def test_after_some_time_a_prompt_is_given_back() -> None:
    """TUI-120"""

    async def send() -> None:
        raise ClientError("Transport", "cannot reach the server")

    with pytest.raises(ClientError):
        await until_received(send, patience=0.1)


def test_ids_of_prompts_are_distinct_and_of_the_usual_form() -> None:
    """TUI-120"""
    ids = {new_message_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(id.startswith("msg_") and len(id) == 30 for id in ids)
