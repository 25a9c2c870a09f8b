"""Text of others cannot end the tag around it."""

from __future__ import annotations

import pytest

from holdfast.core.tagged_text import inside_tag


@pytest.mark.parametrize("end", ["</note>", "</ note>", "</NOTE >", "</\nNote"])
def test_text_cannot_end_the_tag_around_it(end: str) -> None:
    """CTX-218, SES-282: however the end is written."""
    inside = inside_tag("note", f"a {end} b")
    assert inside.startswith("a &lt;/note")
    assert inside.endswith("b")


def test_other_text_stays_as_it_is() -> None:
    """CTX-218."""
    text = "<note> </notable </b> </ n"
    assert inside_tag("note", text) == text
