"""The form of log lines."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from holdfast.core.observe.log_context import fields, note_turn, working_for
from holdfast.embedded.log_output import JsonLines, TextLines

WHEN = 1_700_000_000.25


def record(message: str, *arguments: object, **values: object) -> logging.LogRecord:
    made = logging.LogRecord("holdfast.turn", logging.INFO, "file.py", 1, message, arguments, None)
    made.created = WHEN
    made.__dict__.update(fields(**values))
    return made


def test_text_has_time_level_logger_message_and_fields() -> None:
    line = TextLines(messages=False).format(record("turn ended", model="mock/m", ms=12, note="two words"))
    assert line == '2023-11-14T22:13:20.250Z info holdfast.turn: turn ended model=mock/m ms=12 note="two words"'


def test_json_has_the_same() -> None:
    line = JsonLines(messages=False).format(record("turn %s", "ended", model="mock/m", ms=12))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "holdfast.turn",
        "message": "turn ended",
        "model": "mock/m",
        "ms": 12,
    }


@pytest.mark.parametrize("lines", [JsonLines, TextLines])
@pytest.mark.parametrize("hostile", ["a\nb", "a\r\x1b[2Jb", "a\u2028b\x85c", "a\x00\ud800b", "a\u202eb"])
def test_a_record_is_one_line_whatever_is_in_it(lines: type[JsonLines | TextLines], hostile: str) -> None:
    line = lines(messages=True).format(record("said %s", hostile, value=hostile, values=[hostile]))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    line.encode()


def test_an_exception_is_told_without_its_message_which_may_quote_content() -> None:
    try:
        raise ValueError("the prompt was: secret")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    told = json.loads(JsonLines(messages=False).format(failed))
    assert told["exception"] == "builtins.ValueError"
    assert told["frames"][-1].endswith(" test_an_exception_is_told_without_its_message_which_may_quote_content")
    assert "secret" not in json.dumps({name: value for name, value in told.items() if name != "frames"})
    assert json.loads(JsonLines(messages=True).format(failed))["exception_message"] == "the prompt was: secret"
    assert len(TextLines(messages=True).format(failed).splitlines()) == 1


def test_the_session_and_the_turn_of_the_running_work_are_named() -> None:
    with working_for("ses_1"):
        note_turn("msg_1")
        told = json.loads(JsonLines(messages=False).format(record("working")))
    assert (told["session"], told["turn"]) == ("ses_1", "msg_1")
    assert "session" not in json.loads(JsonLines(messages=False).format(record("idle")))
