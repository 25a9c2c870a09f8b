"""Events as updates for an editor: every character once, whatever is missed; bounded and harmless content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.acp.diffs import hunks
from holdfast.acp.text import TITLE_CHARACTERS, bounded, printable, terminal_output, title
from holdfast.acp.tool_calls import RAW_CHARACTERS, RAW_ITEMS, ToolView, fenced, file_block, raw_value
from holdfast.acp.translation import ChildOf, Translation, call_key
from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev
from holdfast.schema.event import DurablePosition
from holdfast.schema.session_message import TextContent, UnknownError
from holdfast.schema.typed_event import DurableEvent, LiveEvent

Json = dict[str, Any]
SESSION, MESSAGE = "ses_1", "msg_1"


def durable(kind: type[Any], seq: int = 1, **fields: Any) -> Any:
    data = kind(timestamp=1, session_id=SESSION, **fields)
    place = DurablePosition(aggregate_id=SESSION, seq=seq, version=1)
    return DurableEvent(id="evt_1", type="x", data=data, durable=place)


def started(part: str = "t") -> Any:
    return durable(ev.TextStarted, assistant_message_id=MESSAGE, text_id=part)


def delta(text: str, part: str = "t") -> Any:
    data = live.TextDelta(timestamp=1, session_id=SESSION, assistant_message_id=MESSAGE, text_id=part, delta=text)
    return LiveEvent(id="evt_2", type="x", data=data)


def ended(text: str, part: str = "t") -> Any:
    return durable(ev.TextEnded, assistant_message_id=MESSAGE, text_id=part, text=text)


def said(translation: Translation, *events: Any) -> str:
    return "".join(update["content"]["text"] for event in events for update in translation.updates(event))


@given(st.text(alphabet="ab\n", max_size=40), st.data())
def test_every_character_is_sent_once_whatever_is_missed(text: str, data: st.DataObject) -> None:
    """ACP-030, ACP-040: deltas in any pieces, a replay of the beginning, a lost connection."""
    translation = Translation(ToolView("/p"))
    sent = ""
    replayed = data.draw(st.integers(0, len(text)))
    if data.draw(st.booleans()):
        translation.note_text(MESSAGE, "t", text[:replayed])
        sent = text[:replayed]
    sent += said(translation, started())
    at = data.draw(st.integers(0, len(text)))
    lost = data.draw(st.booleans())
    sent += said(translation, delta(text[:at]))
    if lost:
        translation.connection_lost()
    sent += said(translation, delta(text[at:]))
    sent += said(translation, ended(text))
    assert sent == text


def test_of_a_text_that_broke_off_nothing_is_sent_twice() -> None:
    """SES-474: less of it was kept than was sent."""
    translation = Translation(ToolView("/p"))
    assert said(translation, started(), delta("hello"), ended("hel")) == "hello"


def test_a_start_that_arrives_while_live_events_are_missed_waits_for_the_whole_text() -> None:
    """ACP-030"""
    translation = Translation(ToolView("/p"))
    translation.connection_lost()
    assert said(translation, started(), delta("lo"), ended("hello")) == "hello"


def test_texts_of_a_subagent_become_the_content_of_its_call() -> None:
    """ACP-044"""
    translation = Translation(ToolView("/p", "explore"), child=ChildOf("msg_0/call_0"))
    updates = [update for event in (started(), delta("x"), ended("x done")) for update in translation.updates(event)]
    assert [(update["toolCallId"], update["content"][0]["content"]["text"]) for update in updates] == [
        ("msg_0/call_0", "x done")
    ]


def test_prompts_of_this_editor_are_not_sent_back_and_others_once() -> None:
    """ACP-042"""
    from holdfast.schema.prompt import Prompt

    translation = Translation(ToolView("/p"))
    translation.own.add("msg_own")
    own = durable(ev.Prompted, message_id="msg_own", prompt=Prompt(text="mine"), delivery="steer")
    other = durable(ev.Prompted, message_id="msg_other", prompt=Prompt(text="theirs"), delivery="steer")
    assert said(translation, own, other, other) == "theirs"


def test_a_call_that_fails_shows_why() -> None:
    """ACP-030, ACP-034"""
    translation = Translation(ToolView("/p"))
    provider = ev.Provider(executed=False)
    called = durable(
        ev.ToolCalled,
        assistant_message_id=MESSAGE,
        call_id="c",
        tool="bash",
        input={"command": "rm -rf \x1b]0;x\x07 /tmp/\u202ex"},
        provider=provider,
    )
    failure = UnknownError(message="no\x00 such file")
    failed = durable(ev.ToolFailed, assistant_message_id=MESSAGE, call_id="c", error=failure, provider=provider)
    begun, end = [update for event in (called, failed) for update in translation.updates(event)]
    assert begun["title"] == "rm -rf \\u001b]0;x\\u0007 /tmp/\\u202ex"
    assert (end["status"], end["content"][0]["content"]["text"]) == ("failed", "no\\u0000 such file")
    assert not translation.calls_run


def test_call_ids_of_different_messages_differ() -> None:
    assert call_key("msg_1", "call_0") != call_key("msg_2", "call_0")


@pytest.mark.parametrize(
    ("tool", "given_input", "kind", "shown"),
    [
        ("read", {"path": "a/b.py", "offset": 7}, "read", "read a/b.py"),
        ("grep", {"pattern": "x+", "path": "src"}, "search", "grep src"),
        ("webfetch", {"url": "https://example.org"}, "fetch", "webfetch https://example.org"),
        ("subagent", {"description": "find it", "prompt": "..."}, "think", "subagent find it"),
        ("linear_create_issue", {"team": 5}, "other", "linear_create_issue"),
    ],
)
def test_calls_have_a_kind_a_title_and_places(tool: str, given_input: Json, kind: str, shown: str) -> None:
    """ACP-030"""
    view = ToolView("/project")
    assert (view.kind(tool), view.title(tool, given_input)) == (kind, shown)
    if tool == "read":
        assert view.locations(given_input) == [{"path": "/project/a/b.py", "line": 7}]


def test_a_unified_diff_is_sent_hunk_by_hunk() -> None:
    """ACP-031"""
    patch = (
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n@@ -9 +9,2 @@\n-nine\n+neun\n+--- more\n"
        "\\ No newline at end of file\n"
    )
    assert list(hunks(patch)) == [("one\ntwo\n", "one\nzwei\n"), ("nine\n", "neun\n--- more\n")]
    assert list(hunks("")) == []
    changes = ToolView("/p").changes({"files": [{"file": "x", "patch": patch}, {"file": "big"}, "odd", {}]})
    assert [change["path"] for change in changes] == ["/p/x", "/p/x"]
    assert ToolView("/p").changes({"files": "odd"}) == []


@given(st.text())
def test_text_for_an_editor_is_valid_and_has_no_control_characters(text: str) -> None:
    """ACP-034"""
    for shown in (printable(text), title(text), bounded(text, 10)):
        shown.encode()
        assert not any(character < " " and character not in "\n\t" for character in shown)
    assert len(title(text * 100)) <= TITLE_CHARACTERS


def test_only_colours_reach_a_terminal() -> None:
    """ACP-034"""
    assert terminal_output("a\x1b[1;31mred\x1b[0m\n\x1b[2J\x1b]52;c;x\x07\rb") == (
        "a\x1b[1;31mred\x1b[0m\r\n\\u001b[2J\\u001b]52;c;x\\u0007\\u000db"
    )


def test_raw_values_are_bounded_in_every_direction() -> None:
    """ACP-030"""
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    value = raw_value({"long": "y" * 10**6, "many": list(range(10**5)), "deep": deep, "odd": object()})
    assert len(value["long"]) < RAW_CHARACTERS + 100
    assert len(value["many"]) == RAW_ITEMS
    assert value["odd"] is None
    assert str(value["deep"]).count("[") < 10


def test_a_code_block_cannot_be_closed_by_its_content() -> None:
    """ACP-034"""
    assert fenced("a\n```\nb").startswith("````\n")


def test_files_are_images_or_links() -> None:
    """ACP-022"""
    assert file_block("data:image/png;base64,AAAA", "image/png", "x.png") == {
        "type": "image",
        "data": "AAAA",
        "mimeType": "image/png",
    }
    assert file_block("file:///x.txt", "text/plain", None)["type"] == "resource_link"
    assert file_block("data:text/plain;base64,AAAA", "text/plain", "notes")["uri"] == "about:blank"


def test_output_in_a_terminal_comes_once() -> None:
    """ACP-033"""
    translation = Translation(ToolView("/p"), terminals=True)
    translation.called(MESSAGE, "c", "bash", {"command": "x"}, status="in_progress")
    progress = [
        durable(
            ev.ToolProgress,
            assistant_message_id=MESSAGE,
            call_id="c",
            structured={},
            content=(TextContent(text=text),),
        )
        for text in ("one\n", "one\n", "one\ntwo\n")
    ]
    updates = [update for event in progress for update in translation.updates(event)]
    assert [update["_meta"]["terminal_output"]["data"] for update in updates] == ["one\r\n", "two\r\n"]
