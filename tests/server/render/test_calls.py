"""Tool calls with anything in them: models and MCP servers decide what inputs and results hold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.server.render.allowed import check

from holdfast.core.filesystem.diff import file_diff
from holdfast.schema.model import ModelRef
from holdfast.schema.rendered import AssistantEntry, RenderedCall
from holdfast.schema.session_message import (
    AssistantMessage,
    FileContent,
    TextContent,
    Time,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolRunning,
    ToolState,
    ToolTime,
    UnknownError,
)
from holdfast.server.render.call_body import LARGEST, call_body
from holdfast.server.render.entries import Surroundings, entry_of

NAMES = [
    "read",
    "write",
    "edit",
    "apply_patch",
    "bash",
    "glob",
    "grep",
    "webfetch",
    "question",
    "todowrite",
    "task",
    "x",
]
KEYS = [
    *(
        "path",
        "command",
        "pattern",
        "url",
        "description",
        "questions",
        "todos",
        "patchText",
        "content",
        "files",
        "value",
    ),
    *("entries", "exit", "timeout", "encoding", "mime", "offset", "type", "additions", "status", "patch", "sessionID"),
]
TEXTS = st.sampled_from(["<script>", "\u202e", "\x1b[31m", "text-page", "base64", "ses_1", "a\nb", ""]) | st.text(
    max_size=6
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)
CONTENTS = st.lists(
    TEXTS.map(lambda text: TextContent(text=text)) | TEXTS.map(lambda text: FileContent(uri=text, mime=text)),
    max_size=2,
).map(tuple)
STATES: st.SearchStrategy[ToolState] = st.one_of(
    st.builds(ToolRunning, input=OBJECTS, structured=OBJECTS, content=CONTENTS),
    st.builds(ToolCompleted, input=OBJECTS, structured=OBJECTS, content=CONTENTS),
    st.builds(
        ToolError,
        input=OBJECTS,
        structured=OBJECTS,
        content=CONTENTS,
        error=TEXTS.map(lambda m: UnknownError(message=m)),
    ),
)


def part_of(name: str, state: ToolState) -> ToolPart:
    return ToolPart(id="call_1", name=name, state=state, time=ToolTime(created=1))


def line_of(part: ToolPart) -> RenderedCall:
    message = AssistantMessage(
        id="msg_1", time=Time(created=1), agent="a", model=ModelRef(id="m", provider_id="p"), content=(part,)
    )
    entry = entry_of(message, 3, Surroundings(directory="/project"))
    assert isinstance(entry, AssistantEntry)
    (call,) = entry.parts
    assert isinstance(call, RenderedCall)
    return call


@given(st.sampled_from(NAMES), STATES)
def test_any_call_can_be_shown(name: str, state: ToolState) -> None:
    """WEB-112, WEB-113: whatever its input and its result hold."""
    part = part_of(name, state)
    call = line_of(part)
    assert len(call.title) <= 300
    assert "\n" not in call.title
    assert "\x1b" not in f"{call.title}{call.outcome}{call.peek}"
    check(call_body(part).html)


def test_paths_are_relative_to_the_location() -> None:
    """WEB-112: those outside stay as they are."""

    def title(path: str) -> str:
        return line_of(part_of("read", ToolRunning(input={"path": path}, structured={}, content=()))).title

    assert [title(path) for path in ("/project/a/b.py", "/projects/x", "c.py", "/project")] == [
        "a/b.py",
        "/projects/x",
        "c.py",
        ".",
    ]


def test_a_body_is_bounded() -> None:
    """WEB-114: text that takes more room as HTML, many files, long diffs."""
    quotes = ToolCompleted(input={"command": "x" * 10**6}, structured={}, content=(TextContent(text="&" * 10**7),))
    files = [
        {
            "file": f"f{number}",
            "additions": 1,
            "deletions": 0,
            "status": "added",
            "patch": "@@ -1 +1 @@\n" + "+<\n" * 9_000,
        }
        for number in range(200)
    ]
    changed = ToolCompleted(input={}, structured={"files": files}, content=())
    for name, state in (("bash", quotes), ("edit", changed), ("x", quotes)):
        body = call_body(part_of(name, state))
        assert body.cut
        assert len(body.html.encode()) <= LARGEST
        check(body.html)


def test_the_preview_of_a_call_takes_the_place_of_its_result() -> None:
    """WEB-115."""
    running = ToolRunning(input={"path": "a"}, structured={}, content=())
    shown = call_body(part_of("write", running), preview=(file_diff("a", b"old\n", b"new\n"),))
    assert '<tr class="add"><td class="ln"></td><td class="ln">1</td><td class="cd">new</td></tr>' in shown.html
    refused = call_body(part_of("write", running), preview="because <b>")
    assert "because &lt;b&gt;" in refused.html
