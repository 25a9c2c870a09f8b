"""Text that is being written, as finished blocks and an open tail."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.schema.view import Block
from holdfast.server.render.markdown import markdown_html
from holdfast.server.web.open_blocks import OpenBlock

PIECES = [
    *(
        "word",
        " ",
        "\n",
        "\n\n",
        "\n\n\n",
        "- item",
        "* item",
        "1. one",
        "2) two",
        "  ",
        "    ",
        "\t",
        "> quote",
        "# head",
    ),
    *(
        "```\n",
        "```python\n",
        "\n```\n",
        "~~~\n",
        "~~~~\n",
        "|a|b|\n|-|-|\n",
        "|c|d|\n",
        "---\n",
        "===\n",
        "***\n",
        "+ x\n",
    ),
    *("  ```\n", "- ```\n", ">\n", "> - a\n", "**b**", "`c`", "<b>", "\\", "é"),
]


class Page:
    """What a page does with the frames."""

    def __init__(self) -> None:
        self.finished: dict[int, str] = {}
        self.tail = ""
        self.tail_index = -1

    def take(self, frames: list[Block]) -> None:
        for frame in frames:
            if frame.html is not None:
                assert frame.index not in self.finished, "a finished block is sent once"
                self.finished[frame.index] = frame.html
            elif frame.text is not None:
                self.tail, self.tail_index = frame.text, frame.index
            else:
                assert frame.add is not None
                assert frame.index == self.tail_index
                self.tail += frame.add
        assert sorted(self.finished) == list(range(len(self.finished)))


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.integers(1, 5))
@example(["- a\n", "  ```\n", "  x\n\n", "next\n\n", "```\n", "code\n\n", "code2\n", "```\n", "end"], 1)
@example(["a\n", "===\n\n", "b\n"], 1)
def test_finished_blocks_and_the_rest_are_the_whole_text(pieces: list[str], step: int) -> None:
    """WEB-123: rendered apart, the finished blocks and the rest look as the text does."""
    block, page, text = OpenBlock("msg_1", "text-0", "text"), Page(), ""
    for start in range(0, len(pieces), step):
        part = "".join(pieces[start : start + step])
        text += part
        block.add(part)
        page.take(block.take())
    rest = markdown_html(page.tail) if page.tail_index == len(page.finished) else ""
    shown = "".join(page.finished[index] for index in sorted(page.finished)) + rest
    assert shown == markdown_html(text)


def test_the_open_tail_is_added_to_and_finished_blocks_are_sent_once() -> None:
    """WEB-123."""
    block = OpenBlock("msg_1", "text-0", "text")
    sent = []
    for piece in ("Hello ", "world", "\n\nSecond", " one\n\n```py\nx", " = 1\n\ny\n```\n\nEnd"):
        block.add(piece)
        sent.append([(frame.index, frame.html, frame.text, frame.add) for frame in block.take()])
    assert sent[0] == [(0, None, "Hello ", None)]
    assert sent[1] == [(0, None, None, "world")]
    assert [frame[:2] for frame in sent[3]][:2] == [(0, "<p>Hello world</p>\n"), (1, "<p>Second one</p>\n")]
    assert block.take() == []


def test_invisible_characters_are_named_in_the_tail_too() -> None:
    """WEB-101."""
    block = OpenBlock("msg_1", "text-0", "text", "a\u202eb")
    (frame,) = block.take()
    assert frame.text == "aU+202Eb"


def test_output_of_a_command_is_kept_to_its_end() -> None:
    """WEB-124: progress bars overwrite themselves."""
    block = OpenBlock("msg_1", "call", "shell")
    page = Page()
    for piece in ("a\n", "10%", "\r20%", "\r100%\n", "\x1b[31mred\x1b[0m\n"):
        block.add(piece)
        page.take(block.take())
    assert page.tail == "a\n100%\nred\n"
    for _ in range(100):
        block.add("x" * 1_000 + "\n")
        page.take(block.take())
    assert len(page.tail) <= 25_000


def test_a_long_text_without_blocks_costs_in_proportion_to_its_length() -> None:
    """WEB-123: a fence of a hundred thousand characters is not searched again for each line."""
    import time

    block = OpenBlock("msg_1", "text-0", "text", "```\n")
    begun = time.thread_time()
    for _ in range(3_000):
        block.add("some code in a long fence\n\n")
        block.take()
    assert time.thread_time() - begun < 3
