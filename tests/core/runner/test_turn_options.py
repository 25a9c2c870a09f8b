"""Which tools a prompt leaves."""

from __future__ import annotations

import pytest

from holdfast.core.runner.turn_options import NO_OPTIONS, deciding, left_out, unknown_tools
from holdfast.schema.prompt import Admission, Prompt, PromptOptions

TOOLS = ("bash", "read", "write", "webfetch", "websearch")


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (None, TOOLS),
        ({}, TOOLS),
        ({"bash": False}, ("read", "write", "webfetch", "websearch")),
        ({"*": False}, ()),
        ({"*": False, "read": True}, ("read",)),
        ({"read": True, "*": False}, ("read",)),
        ({"web*": False, "websearch": True}, ("bash", "read", "write", "websearch")),
        ({"*": False, "web*": True, "webs*": False}, ("webfetch",)),
        ({"*": True}, TOOLS),
        ({"rea?": False, "*ead": True}, ("bash", "write", "webfetch", "websearch")),
        ({"unknown": True, "b*h": False}, ("read", "write", "webfetch", "websearch")),
    ],
)
def test_a_name_decides_before_a_pattern_and_a_longer_pattern_before_a_shorter_one(
    chosen: dict[str, bool] | None, left: tuple[str, ...]
) -> None:
    """TOL-416: whatever the order of the names."""
    turned = dict(reversed(chosen.items())) if chosen else chosen
    assert left_out(chosen, TOOLS) == left_out(turned, TOOLS) == set(TOOLS) - set(left)


def test_unknown_names_are_found_and_patterns_are_not_names() -> None:
    """TOL-417."""
    assert unknown_tools({"bahs": False, "b?s*": False, "read": True, "nope": True}, TOOLS) == ["bahs", "nope"]
    assert unknown_tools(None, TOOLS) == []


def admission(options: PromptOptions | None) -> Admission:
    prompt = Prompt(text="x", options=options)
    return Admission(admitted_seq=1, id="msg_1", session_id="ses_1", prompt=prompt, delivery="steer", time_created=0)


def test_the_last_input_that_asks_for_an_answer_decides() -> None:
    """SES-206, SES-297."""
    brief, silent = PromptOptions(system="brief"), PromptOptions(no_reply=True)
    assert deciding([], brief) == brief
    assert deciding([admission(silent)], brief) == brief
    assert deciding([admission(brief), admission(silent)], NO_OPTIONS) == brief
    assert deciding([admission(brief), admission(None)], brief) == NO_OPTIONS
