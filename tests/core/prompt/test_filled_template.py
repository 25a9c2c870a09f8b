"""Where the parts of a filled-in template come from, and what that means for mentions."""

from __future__ import annotations

import pytest

from holdfast.core.prompt.filled_template import FilledTemplate
from holdfast.core.prompt.mention import parse

TEXT = "Compare @a.py with @b.py: @c.py and @d.py"


def at(word: str) -> tuple[int, int]:
    start = TEXT.index(word)
    return start, start + len(word)


def mentioned(filled: FilledTemplate, text: str = TEXT) -> list[str]:
    found = parse(filled.without_output(text))
    return [mention.path for mention in found if filled.may_mention(mention.source)]


def test_the_output_of_commands_holds_no_mention() -> None:
    """CAT-230: not even one that only ends or begins there."""
    assert mentioned(FilledTemplate(output=(at("@b.py"),))) == ["a.py", "c.py", "d.py"]
    assert mentioned(FilledTemplate(output=(at("@a.py"), at(".py:"), at("d.py")))) == ["b", "c.py"]
    quoted = 'See @"a output b" and @"c"'
    start = quoted.index("output")
    assert mentioned(FilledTemplate(output=((start, start + 6),)), quoted) == ["c"]


def test_backticks_in_output_hide_no_mention() -> None:
    """CAT-230."""
    text = "log: `oops then @a.py and `"
    output = text.index("`oops"), text.index("`oops") + 5
    assert mentioned(FilledTemplate(output=(output,)), text) == ["a.py"]


def test_mentions_of_the_arguments_count_if_the_caller_asks() -> None:
    """CAT-230, API-460: a mention that is made of template and argument has to do with both."""
    spans = at("@a.py"), at("c.py")
    assert mentioned(FilledTemplate(arguments=spans)) == ["a.py", "b.py", "c.py", "d.py"]
    assert mentioned(FilledTemplate(arguments=spans, resolves_arguments=False)) == ["b.py", "d.py"]


@pytest.mark.parametrize("trusted", [True, False])
def test_only_what_the_caller_wrote_is_free_of_the_template(trusted: bool) -> None:
    """CAT-230: `@` of an untrusted template before an argument makes it the template's mention."""
    filled = FilledTemplate(arguments=(at("@a.py with "), at("c.py")), trusted=trusted)
    confined = [mention.path for mention in parse(TEXT) if filled.is_confined(mention.source)]
    assert confined == ([] if trusted else ["b.py", "c.py", "d.py"])
