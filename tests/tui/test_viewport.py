"""What is visible of a conversation, and how it is moved."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from prompt_toolkit.data_structures import Point
from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType
from tests.tui.samples import answer, block, call, entries, page, text, user
from tests.tui.test_conversation import opened, rows

from holdfast.schema.rendered import BodySection, CallBody, Entry
from holdfast.tui.conversation import Conversation
from holdfast.tui.conversation_control import ConversationControl
from holdfast.tui.lines import plain_text
from holdfast.tui.passages import Target
from holdfast.tui.viewport import Viewport


def shown(viewport: Viewport, width: int = 40, height: int = 10) -> list[str]:
    return [plain_text(row.line).rstrip() for row in viewport.draw(width, height)]


def prompts(first: int, last: int) -> list[Entry]:
    return [user(number, f"prompt {number}") for number in range(first, last + 1)]


def drawn(control: ConversationControl, width: int = 40, height: int = 10) -> list[str]:
    content = control.create_content(width, height)
    return [
        plain_text((style, text) for style, text, *_ in content.get_line(row)).rstrip()
        for row in range(content.line_count)
    ]


def test_only_what_is_visible_of_ten_thousand_entries_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """TUI-030"""
    conversation = opened(*(answer(number, text(f"**answer** {number}")) for number in range(10_000)))
    built: list[int] = []
    passages = Conversation.passages

    def count(self: Conversation, index: int) -> object:
        built.append(index)
        return passages(self, index)

    monkeypatch.setattr(Conversation, "passages", count)
    viewport = Viewport(conversation)

    assert shown(viewport)[-3:] == ["  answer 9999", "", "  12 s"]
    viewport.go_home()
    assert shown(viewport)[:1] == ["  answer 0"]
    assert len(set(built)) < 20


def test_the_end_stays_visible_while_it_is() -> None:
    """TUI-031"""
    conversation = opened(*prompts(1, 20))
    viewport = Viewport(conversation)
    assert shown(viewport)[-1] == "▌ prompt 20"

    conversation.apply(entries(21, *prompts(21, 21)))
    assert shown(viewport)[-1] == "▌ prompt 21"
    assert viewport.at_end


def test_what_is_looked_at_stays_while_others_are_added() -> None:
    """TUI-031, TUI-032: before it and after it; how many are new is told."""
    conversation = opened(*prompts(11, 30), next="older")
    viewport = Viewport(conversation)
    shown(viewport)
    viewport.scroll(-15)
    before = shown(viewport)

    conversation.apply(entries(32, *prompts(31, 32)))
    conversation.add_older(page(*prompts(1, 10)))

    assert shown(viewport) == before
    assert not viewport.at_end
    assert viewport.new_below == 2
    viewport.go_end()
    assert shown(viewport)[-1] == "▌ prompt 32"
    assert viewport.new_below == 0


def test_scrolling_to_the_end_sticks_to_it_again() -> None:
    """TUI-031"""
    conversation = opened(*prompts(1, 20))
    viewport = Viewport(conversation)
    shown(viewport)
    viewport.scroll(-5)
    shown(viewport)
    viewport.scroll(4)
    shown(viewport)
    assert not viewport.at_end
    viewport.scroll(1)
    assert shown(viewport)[-1] == "▌ prompt 20"
    assert viewport.at_end


def test_the_same_text_stays_at_the_top_when_the_terminal_changes_its_size() -> None:
    """TUI-031"""
    conversation = opened(*(answer(number, text(f"answer {number} " + "word " * 30)) for number in range(50)))
    viewport = Viewport(conversation)
    shown(viewport)
    viewport.scroll(-150)
    shown(viewport)
    anchor = viewport.anchor
    assert anchor is not None

    for width, height in ((20, 5), (100, 40), (40, 10)):
        shown(viewport, width, height)
        assert viewport.anchor == anchor


def test_older_entries_are_asked_for_before_they_are_needed() -> None:
    """TUI-033: and at the top until there are none."""
    conversation = opened(*prompts(101, 120), next="c1")
    asked: list[str] = []

    def load() -> None:
        if conversation.older is not None:
            asked.append(conversation.older)

    control = ConversationControl(conversation, lambda message, call: None, on_older=load)
    drawn(control)
    assert asked == []
    control.scroll_page(-3)
    drawn(control)
    assert asked == ["c1"]

    control.go_home()
    conversation.add_older(page(*prompts(51, 100), next="c2"))
    assert drawn(control)[0] == "▌ prompt 51"
    conversation.add_older(page(*prompts(1, 50)))
    assert drawn(control)[0] == "▌ prompt 1"
    assert asked == ["c1", "c2"]
    assert not control.at_end


def test_a_conversation_that_is_shorter_than_the_screen_begins_at_its_top() -> None:
    conversation = opened(*prompts(1, 2))
    viewport = Viewport(conversation)

    assert shown(viewport) == ["▌ prompt 1", "", "▌ prompt 2"]
    viewport.scroll(-5)
    assert shown(viewport) == ["▌ prompt 1", "", "▌ prompt 2"]
    assert viewport.at_end
    assert shown(Viewport(Conversation())) == []


def test_very_wide_terminals_are_used_up_to_a_readable_width() -> None:
    """TUI-034"""
    conversation = opened(answer(1, text("word " * 100)))

    assert max(map(len, shown(Viewport(conversation), 200, 20))) <= 120


def test_the_cursor_moves_between_what_can_be_unfolded() -> None:
    """TUI-035: Enter unfolds it, and its line stays where it is on the screen."""
    loaded: list[tuple[str, str]] = []
    conversation = opened(
        *prompts(1, 8),
        answer(9, call("read", "a", "c1"), call("read", "b", "c2"), finish="tool-calls"),
        *prompts(10, 11),
    )
    control = ConversationControl(conversation, lambda message, call: loaded.append((message, call)))
    assert drawn(control)[-6:-4] == ["✓ read a", "✓ read b"]

    assert not control.toggle()
    control.select(-1)
    control.select(-1)
    control.select(-1)  # there is none before
    assert control.viewport.selected == Target("call", "msg_a9", "c1")
    before = drawn(control).index("✓ read a")
    assert control.toggle()
    assert drawn(control)[before : before + 2] == ["✓ read a", "│ …"]
    assert loaded == [("msg_a9", "c1")]

    lines = CallBody(sections=(BodySection(kind="output", text="\n".join(f"line {n}" for n in range(50))),))
    conversation.set_body("msg_a9", "c1", lines)
    assert drawn(control)[before : before + 2] == ["✓ read a", "│ line 0"]
    control.select(1)
    assert "✓ read b" in drawn(control)
    assert loaded == [("msg_a9", "c1")]


def test_a_click_unfolds_and_the_wheel_scrolls() -> None:
    """TUI-035"""
    conversation = opened(*prompts(1, 20), answer(21, call("read", "a"), finish="tool-calls"))
    control = ConversationControl(conversation, lambda message, call: None)
    lines = drawn(control)

    def mouse(kind: MouseEventType, y: int) -> None:
        control.mouse_handler(MouseEvent(Point(2, y), kind, MouseButton.LEFT, frozenset()))

    mouse(MouseEventType.MOUSE_UP, lines.index("✓ read a"))
    assert drawn(control)[-1] == "│ …"
    mouse(MouseEventType.MOUSE_UP, 0)
    mouse(MouseEventType.MOUSE_UP, 99)
    mouse(MouseEventType.SCROLL_UP, 0)
    assert drawn(control)[-1].endswith("↓ more below")
    assert not control.at_end
    mouse(MouseEventType.SCROLL_DOWN, 0)
    drawn(control)
    assert control.at_end


def test_all_calls_are_unfolded_and_folded_at_once() -> None:
    """TUI-035"""
    conversation = opened(answer(1, call("read", "a", "c1"), call("read", "b", "c2"), finish="tool-calls"))
    control = ConversationControl(conversation, lambda message, call: None)

    control.toggle_calls()
    assert drawn(control).count("│ …") == 2
    control.toggle_calls()
    assert drawn(control).count("│ …") == 0
    assert [control.next_detail() for _ in range(3)] == ["full", "quiet", "normal"]


def test_new_things_below_are_counted_on_the_last_line() -> None:
    """TUI-032: without colours or signs of Unicode too."""
    conversation = opened(*prompts(1, 20))
    control = ConversationControl(conversation, lambda message, call: None, encoding="latin-1")
    drawn(control)
    control.scroll(-4)
    drawn(control)
    conversation.apply(entries(23, *prompts(21, 23)))

    assert drawn(control)[-1].endswith("? 3 new below")
    assert drawn(control, 5)[-1] == "?  ?"


class Moves(RuleBasedStateMachine):
    """Any sequence of changes and movements."""

    @initialize()
    def begin(self) -> None:
        self.conversation = opened(*prompts(1000, 1010), next="older")
        self.viewport = Viewport(self.conversation)
        self.next, self.first = 1011, 1000
        self.width, self.height = 40, 10

    @rule(lines=st.integers(-30, 30))
    def scroll(self, lines: int) -> None:
        self.viewport.scroll(lines)

    @rule(step=st.sampled_from([-1, 1]))
    def select(self, step: int) -> None:
        self.viewport.select(step)
        if self.viewport.selected is not None:
            self.viewport.toggle(self.viewport.selected)

    @rule(width=st.integers(1, 130), height=st.integers(1, 30))
    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height

    @rule(size=st.integers(0, 3), words=st.integers(0, 200))
    def answer(self, size: int, words: int) -> None:
        calls = [call("read", "x", f"c{number}", peek="bad") for number in range(size)]
        self.conversation.apply(entries(self.next, answer(self.next, text("word " * words), *calls)))
        self.next += 1

    @rule()
    def grow(self) -> None:
        self.conversation.apply(entries(self.next, answer(self.next, text("", open=True), open=True, finish=None)))
        self.conversation.apply(block(f"msg_a{self.next}", "t1", text="some\n\ntext " * 20))
        self.next += 1

    @rule()
    def older(self) -> None:
        self.first -= 5
        self.conversation.add_older(
            page(*prompts(self.first, self.first + 4), next="older" if self.first > 900 else None)
        )

    @rule()
    def home(self) -> None:
        self.viewport.go_home()

    @rule()
    def end(self) -> None:
        self.viewport.go_end()

    @invariant()
    def the_screen_is_full_if_there_is_enough(self) -> None:
        if not hasattr(self, "viewport"):
            return
        visible = self.viewport.draw(self.width, self.height)
        assert len(visible) <= self.height
        assert [row.line for row in self.viewport.draw(self.width, self.height)] == [row.line for row in visible]
        if len(visible) < self.height:
            every = rows(self.conversation, self.viewport.width)
            assert len([line for line in every if line]) <= len(visible)


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@given(st.integers(1, 130), st.integers(1, 40), st.integers(0, 100))
def test_scrolling_up_and_down_by_the_same_comes_back(width: int, height: int, lines: int) -> None:
    """TUI-031"""
    conversation = opened(*(answer(number, text("word " * number), call("read", "x")) for number in range(40)))
    viewport = Viewport(conversation)
    viewport.draw(width, height)
    viewport.scroll(-50)
    before = viewport.draw(width, height)
    viewport.scroll(-lines)
    moved = viewport.draw(width, height)
    at_top = viewport.anchor == viewport.rows[0].anchor and moved[0].anchor.entry_id == "msg_a0"
    viewport.scroll(lines)

    assert at_top or viewport.draw(width, height) == before
