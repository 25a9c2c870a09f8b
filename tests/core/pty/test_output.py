"""Retained output against a plain list of code units."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.pty.output import TerminalOutput, pieces

TEXTS = st.lists(st.text(alphabet="ab\né€😀𝄞", max_size=12), max_size=12)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@settings(max_examples=100)
@given(texts=TEXTS, limit=st.integers(2, 20))
def test_the_last_units_are_kept_in_whole_characters(texts: list[str], limit: int) -> None:
    """TOL-296, TOL-297: cursors count UTF-16 units from the first output; what is dropped never splits a pair."""
    output, said = TerminalOutput(limit), ""
    for text in texts:
        output.append(text)
        said += text
        kept, end = output.read(output.start)
        assert end == output.end == units(said)
        assert said.endswith(kept)
        assert output.end - output.start == units(kept) <= limit
        dropped = said[: len(said) - len(kept)]
        assert not dropped or units(dropped[-1] + kept) > limit, "dropped too much"


@settings(max_examples=100)
@given(text=st.text(alphabet="ab😀", max_size=40), cursor=st.integers(-3, 90), limit=st.integers(2, 9))
def test_a_reader_goes_on_from_any_cursor(text: str, cursor: int, limit: int) -> None:
    """TOL-297, TOL-298: a place is between characters, within what is retained; reading on from it misses nothing."""
    output = TerminalOutput()
    output.append(text)
    place = output.place(cursor)
    nearest = min(max(cursor, 0), units(text))
    assert place in (nearest, nearest - 1)
    rest, found = output.read(place)[0], ""
    while place < output.end:
        piece, place = output.read(place, limit)
        assert 0 < units(piece) <= limit
        found += piece
    assert found == rest
    assert text.endswith(rest)


@settings(max_examples=100)
@given(text=st.text(alphabet="ab😀", max_size=60), limit=st.integers(2, 9))
def test_pieces_are_full_and_whole(text: str, limit: int) -> None:
    """TOL-297, TOL-310: frames are measured in units and never split a character."""
    found = list(pieces(text, limit))
    assert "".join(found) == text
    assert all(limit - 1 <= units(piece) <= limit for piece in found[:-1])
