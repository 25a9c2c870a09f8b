"""What each event makes of the transcript: every kind of message, as clients read it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.conftest import MODEL

from holdfast.core.runtime.runtime import Runtime
from holdfast.schema import session_event as ev
from holdfast.schema.codec import decode_any
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import AgentAttachment, FileAttachment, Prompt, Source
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Session, Tokens
from holdfast.schema.session_message import FileContent, TextContent, UnknownError

pytestmark = pytest.mark.anyio

PROMPT = Prompt(
    text="see @a",
    files=(FileAttachment(uri="data:,hi", mime="text/plain", name="a", source=Source(start=4, end=6, text="@a")),),
    agents=(AgentAttachment(name="plan"),),
)
MODEL_WIRE = {"id": "echo", "providerID": "demo"}
TOKENS = Tokens(input=5, output=4, reasoning=3, cache=CacheTokens(read=2, write=1))
STARTED = (ev.StepStarted, {"agent": "build", "model": MODEL})
BARE = {"type": "assistant", "agent": "build", "model": MODEL_WIRE}

CASES: dict[str, tuple[list[tuple[type[Record], dict[str, Any]]], dict[str, Any]]] = {
    "user": (
        [(ev.Prompted, {"prompt": PROMPT, "delivery": "steer"})],
        {
            "type": "user",
            "text": "see @a",
            "files": [
                {
                    "uri": "data:,hi",
                    "mime": "text/plain",
                    "name": "a",
                    "source": {"start": 4, "end": 6, "text": "@a"},
                }
            ],
            "agents": [{"name": "plan"}],
            "time": {"created": 100},
        },
    ),
    "user, text only": (
        [(ev.Prompted, {"prompt": Prompt(text="x"), "delivery": "queue"})],
        {"type": "user", "text": "x", "time": {"created": 100}},
    ),
    "synthetic": (
        [(ev.Synthetic, {"text": "note"})],
        {"type": "synthetic", "sessionID": "ses_1", "text": "note", "time": {"created": 100}},
    ),
    "system": (
        [(ev.ContextUpdated, {"text": "exact  text\n"})],
        {"type": "system", "text": "exact  text\n", "time": {"created": 100}},
    ),
    "shell, running": (
        [(ev.ShellStarted, {"call_id": "c", "command": "ls"})],
        {"type": "shell", "callID": "c", "command": "ls", "output": "", "time": {"created": 100}},
    ),
    "shell": (
        [(ev.ShellStarted, {"call_id": "c", "command": "ls"}), (ev.ShellEnded, {"call_id": "c", "output": "a\nb"})],
        {
            "type": "shell",
            "callID": "c",
            "command": "ls",
            "output": "a\nb",
            "time": {"created": 100, "completed": 101},
        },
    ),
    "agent-switched": (
        [(ev.AgentSwitched, {"agent": "plan"})],
        {"type": "agent-switched", "agent": "plan", "time": {"created": 100}},
    ),
    "model-switched": (
        [(ev.ModelSwitched, {"model": ModelRef(id="m", provider_id="p", variant="high")})],
        {
            "type": "model-switched",
            "model": {"id": "m", "providerID": "p", "variant": "high"},
            "time": {"created": 100},
        },
    ),
    "compaction": (
        [
            (ev.CompactionStarted, {"reason": "manual"}),
            (ev.CompactionEnded, {"reason": "manual", "text": "so far", "recent": "[User]: x"}),
        ],
        {
            "type": "compaction",
            "reason": "manual",
            "summary": "so far",
            "recent": "[User]: x",
            "time": {"created": 101},
        },
    ),
    "assistant, just begun": ([STARTED], {**BARE, "content": [], "time": {"created": 100}}),
    "assistant, ended": (
        [
            (ev.StepStarted, {"agent": "build", "model": MODEL, "snapshot": "tree1"}),
            (ev.ReasoningStarted, {"reasoning_id": "r0", "provider_metadata": {"p": {"a": 1}}}),
            (ev.TextStarted, {"text_id": "t0"}),
            (ev.TextEnded, {"text_id": "t0", "text": "hello"}),
            (ev.ReasoningEnded, {"reasoning_id": "r0", "text": "thought", "provider_metadata": {"p": {"b": 2}}}),
            (
                ev.StepEnded,
                {"finish": "stop", "cost": 0.5, "tokens": TOKENS, "snapshot": "tree2", "files": ("a", "b")},
            ),
        ],
        {
            **BARE,
            "content": [
                {
                    "type": "reasoning",
                    "id": "r0",
                    "text": "thought",
                    "providerMetadata": {"p": {"b": 2}},
                    "time": {"created": 101, "completed": 104},
                },
                {"type": "text", "id": "t0", "text": "hello"},
            ],
            "snapshot": {"start": "tree1", "end": "tree2", "files": ["a", "b"]},
            "finish": "stop",
            "cost": 0.5,
            "tokens": {"input": 5, "output": 4, "reasoning": 3, "cache": {"read": 2, "write": 1}},
            "time": {"created": 100, "completed": 105},
        },
    ),
    "assistant, failed": (
        [
            STARTED,
            (ev.ReasoningStarted, {"reasoning_id": "r0", "provider_metadata": {"p": {"a": 1}}}),
            (ev.ReasoningEnded, {"reasoning_id": "r0", "text": ""}),
            (ev.StepFailed, {"error": UnknownError(message="broke")}),
        ],
        {
            **BARE,
            "content": [
                {
                    "type": "reasoning",
                    "id": "r0",
                    "text": "",
                    "providerMetadata": {"p": {"a": 1}},
                    "time": {"created": 101, "completed": 102},
                }
            ],
            "finish": "error",
            "error": {"type": "unknown", "message": "broke"},
            "time": {"created": 100, "completed": 103},
        },
    ),
    "assistant, with a tool": (
        [
            STARTED,
            (ev.ToolInputStarted, {"call_id": "c", "name": "read"}),
            (
                ev.ToolCalled,
                {"call_id": "c", "tool": "read", "input": {"path": "x"}, "provider": ev.Provider(executed=False)},
            ),
            (
                ev.ToolSuccess,
                {
                    "call_id": "c",
                    "structured": {"n": 1},
                    "content": (TextContent(text="t"), FileContent(uri="data:,x", mime="image/png", name="p")),
                    "output_paths": ("/tmp/o",),
                    "provider": ev.Provider(executed=False),
                },
            ),
        ],
        {
            **BARE,
            "content": [
                {
                    "type": "tool",
                    "id": "c",
                    "name": "read",
                    "provider": {"executed": False},
                    "state": {
                        "status": "completed",
                        "input": {"path": "x"},
                        "structured": {"n": 1},
                        "content": [
                            {"type": "text", "text": "t"},
                            {"type": "file", "uri": "data:,x", "mime": "image/png", "name": "p"},
                        ],
                        "outputPaths": ["/tmp/o"],
                    },
                    "time": {"created": 101, "ran": 102, "completed": 103},
                }
            ],
            "time": {"created": 100},
        },
    ),
}


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await runtime.sessions.create(
        id="ses_1", location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
    )


@pytest.mark.parametrize("name", CASES)
async def test_an_event_becomes_the_message_that_clients_read(runtime: Runtime, session: Session, name: str) -> None:
    """SES-191..199, SES-201: names, optional fields and times, exactly; nothing more and nothing null."""
    events, expected = CASES[name]
    for time, (kind, fields) in enumerate(events, start=100):
        names = kind.__struct_fields__
        ids = {key: "msg_1" for key in ("message_id", "assistant_message_id") if key in names}
        await runtime.log.publish(kind(timestamp=time, session_id=session.id, **ids, **fields))
    (stored,) = await runtime.sessions.messages(session.id, order="asc", limit=10)
    assert decode_any(stored.wire) == {"id": "msg_1", **expected}
    assert decode_any((await runtime.sessions.message(session.id, "msg_1")).wire) == {"id": "msg_1", **expected}
    assert stored.decode().id == "msg_1"
    assert await runtime.verify() == []


@pytest.mark.parametrize("kind", [ev.Synthetic, ev.ContextUpdated])
async def test_metadata_of_the_event_is_the_messages(
    runtime: Runtime, session: Session, kind: type[ev.Synthetic] | type[ev.ContextUpdated]
) -> None:
    """SES-192, SES-193: a common optional field of every message, kept through a rebuild."""
    event = kind(timestamp=1, session_id=session.id, message_id="msg_1", text="x")
    await runtime.log.publish(event, metadata={"origin": {"plugin": 7}})
    await runtime.rebuild()
    (stored,) = await runtime.sessions.messages(session.id, order="asc", limit=10)
    assert decode_any(stored.wire)["metadata"] == {"origin": {"plugin": 7}}


async def test_an_admission_alone_makes_no_user_message(runtime: Runtime, session: Session) -> None:
    """SES-191: only the promotion does."""
    await runtime.sessions.prompt(session.id, PROMPT, id="msg_1", resume=False)
    assert await runtime.sessions.messages(session.id, order="asc", limit=10) == []


NASTY: list[Any] = [
    "",
    "a\x00b\x00",
    "\x01\x1f\x7f\u2028\u2029\ufeff",
    'quote " backslash \\ slash / tab \t line \r\n',
    "zażółć 🦀 \U0010ffff",
    "$.path.like[0] '; drop table session; --",
    "null",
    '{"json": "inside"}',
    "x" * 100_000,
]
NASTY_JSON: list[Any] = [
    {},
    {"": {"$.a": [None, True, False, [], {}]}},
    {"a.b": 1, 'q"uote': 2, "null": None, "time": {"completed": None}},
    {"big": 2**63, "bigger": -(2**64), "small": 5e-324, "large": 1.7976931348623157e308, "tenth": 0.1, "zero": -0.0},
    {"text": NASTY},
]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
async def test_text_survives_whatever_it_holds(runtime: Runtime, session: Session, text: str) -> None:
    """SES-193, SES-194, SES-197, SES-198: the stored text is the sent text, in every place that has one."""
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}
    step: dict[str, Any] = {**stamp, "assistant_message_id": "msg_3"}
    for event in (
        ev.ContextUpdated(message_id="msg_1", text=text, **stamp),
        ev.ShellStarted(message_id="msg_2", call_id="c", command=text, **stamp),
        ev.ShellEnded(call_id="c", output=text, **stamp),
        ev.StepStarted(agent="build", model=MODEL, **step),
        ev.TextStarted(text_id="t", **step),
        ev.TextEnded(text_id="t", text=text, **step),
        ev.ReasoningStarted(reasoning_id="r", **step),
        ev.ReasoningEnded(reasoning_id="r", text=text, **step),
        ev.ToolInputStarted(call_id="c", name="n", **step),
        ev.ToolInputEnded(call_id="c", text=text, **step),
        ev.StepFailed(error=UnknownError(message=text), **step),
    ):
        await runtime.log.publish(event)
    stored = await runtime.sessions.messages(session.id, order="asc", limit=10)
    system, shell, assistant = (decode_any(message.wire) for message in stored)
    content = assistant["content"]
    assert [system["text"], shell["command"], shell["output"], assistant["error"]["message"]] == [text] * 4
    assert [content[0]["text"], content[1]["text"], content[2]["state"]["input"]] == [text] * 3


@pytest.mark.parametrize("value", NASTY_JSON, ids=range(len(NASTY_JSON)))
@pytest.mark.parametrize("ending", ["success", "failure"])
async def test_a_tools_values_survive_whatever_they_hold(
    runtime: Runtime, session: Session, value: dict[str, Any], ending: str
) -> None:
    """SES-200: input, structured output and provider metadata come back equal, through success and failure."""
    step: dict[str, Any] = {"timestamp": 1, "session_id": session.id, "assistant_message_id": "msg_1"}
    provider = ev.Provider(executed=True, metadata={"p": value})
    settled: Record = ev.ToolSuccess(call_id="c", structured=value, content=(), provider=provider, **step)
    if ending == "failure":
        settled = ev.ToolFailed(call_id="c", error=UnknownError(message="no"), provider=provider, **step)
    for event in (
        ev.StepStarted(agent="build", model=MODEL, **step),
        ev.ToolInputStarted(call_id="c", name="n", **step),
        ev.ToolCalled(call_id="c", tool="n", input=value, provider=provider, **step),
        ev.ToolProgress(call_id="c", structured=value, content=(), **step),
        settled,
    ):
        await runtime.log.publish(event)
    (stored,) = await runtime.sessions.messages(session.id, order="asc", limit=10)
    (part,) = decode_any(stored.wire)["content"]
    assert (part["state"]["input"], part["state"]["structured"]) == (value, value)
    assert part["provider"] == {"executed": True, "metadata": {"p": value}, "resultMetadata": {"p": value}}


async def test_the_newest_shell_with_that_call_id_ends(runtime: Runtime, session: Session) -> None:
    """SES-194: an earlier command with the same call id keeps its own output."""
    for number in (1, 2):
        started = ev.ShellStarted(
            timestamp=number, session_id=session.id, message_id=f"msg_{number}", call_id="c", command=f"cmd {number}"
        )
        ended = ev.ShellEnded(timestamp=number + 10, session_id=session.id, call_id="c", output=f"out {number}")
        await runtime.log.publish(started, ended)
    stored = await runtime.sessions.messages(session.id, order="asc", limit=10)
    assert [decode_any(message.wire)["output"] for message in stored] == ["out 1", "out 2"]
