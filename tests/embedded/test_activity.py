"""The work on one prompt, followed over a connection that breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    ActivityFailed,
    ClientError,
    Done,
    Event,
    Holdfast,
    PermissionPiece,
    QuestionPiece,
    TextPiece,
    ToolFinished,
)
from holdfast.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
TEXT = " ".join(str(number) for number in range(40))


def break_streams(hf: Holdfast, after: int) -> list[int]:
    """Every stream of a Session ends after so many events. Returns how many each of them had."""
    lengths: list[int] = []
    real = hf.sessions.events

    async def broken(*arguments: Any, **options: Any) -> AsyncGenerator[Event, None]:
        lengths.append(0)
        async with aclosing(aiter(real(*arguments, **options))) as events:
            async for event in events:
                yield event
                lengths[-1] += 1
                if lengths[-1] == after:
                    return

    hf.sessions.events = broken  # type: ignore[assignment, method-assign]
    return lengths


@pytest.mark.parametrize("after", [1, 2, 3, 7])
async def test_nothing_is_lost_or_repeated_when_the_stream_breaks(tmp_path: Path, after: int) -> None:
    """API-502: the recorded text decides, wherever the stream breaks."""
    model = ScriptedModel([TEXT, ToolCall("read", path="hello.txt")], TEXT[::-1])
    async with asyncio.timeout(PATIENCE), model.host(tmp_path) as hf:
        (tmp_path / "project" / "hello.txt").write_text("hello")
        session = await hf.sessions.create()
        lengths = break_streams(hf, after)
        pieces = [piece async for piece in hf.stream(session, "go")]
    texts: dict[str, str] = {}
    for piece in pieces:
        if isinstance(piece, TextPiece):
            assert not piece.replaces
            texts[piece.message_id] = texts.get(piece.message_id, "") + piece.text
    assert list(texts.values()) == [TEXT, TEXT[::-1]]
    assert [piece.error for piece in pieces if isinstance(piece, ToolFinished)] == [None]
    assert isinstance(pieces[-1], Done)
    assert len(lengths) > 2


async def test_a_request_that_was_asked_while_the_stream_was_lost_is_yielded(tmp_path: Path) -> None:
    """API-501, API-502: once, however often the stream breaks."""
    question = {"question": "Which?", "header": "Which", "options": [{"label": "red", "description": "Red"}]}
    model = ScriptedModel(
        [ToolCall("bash", command="true"), ToolCall("question", questions=[question])], "Both are answered."
    )
    asked: list[str] = []
    async with (
        asyncio.timeout(PATIENCE),
        model.host(tmp_path, config={"permission": {"bash": "ask", "question": "allow"}}) as hf,
    ):
        session = await hf.sessions.create()
        break_streams(hf, 1)
        async with aclosing(hf.stream(session, "go")) as pieces:
            async for piece in pieces:
                match piece:
                    case PermissionPiece(request=request):
                        asked.append(request.id)
                        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
                    case QuestionPiece(request=request):
                        asked.append(request.id)
                        await hf.questions.reply(session.id, request_id=request.id, answers=[["red"]])
                    case _:
                        pass
    assert isinstance(piece, Done)
    assert (len(asked), len(set(asked))) == (2, 2)


async def test_a_reader_that_waits_gets_everything(tmp_path: Path) -> None:
    """API-502: the Session does not wait for the reader."""
    model = ScriptedModel(TEXT)
    async with asyncio.timeout(PATIENCE), model.host(tmp_path) as hf:
        session = await hf.sessions.create()
        stream = hf.stream(session, "go")
        first = await anext(stream)
        await hf.sessions.wait(session.id)
        text = first.text + "".join([piece.text async for piece in stream])
    assert text == TEXT


async def test_a_withdrawn_prompt_is_not_answered(tmp_path: Path) -> None:
    """API-500: whoever waits for it is told."""
    async with asyncio.timeout(PATIENCE), ScriptedModel("one").host(tmp_path) as hf:
        session = await hf.sessions.create()
        real = hf.sessions.prompt

        async def withdrawn(session_id: str, **given: Any) -> Any:
            admission = await real(session_id, **given, resume=False)
            await hf.sessions.withdraw(session_id, message_id=admission.id)
            return admission

        hf.sessions.prompt = withdrawn  # type: ignore[method-assign]
        with pytest.raises(ActivityFailed, match="withdrawn"):
            await hf.run("go", session=session)


async def test_no_task_is_left(tmp_path: Path) -> None:
    """API-503: neither after an answer nor after an early end."""
    model = ScriptedModel("one", "two", "three")
    async with asyncio.timeout(PATIENCE), model.host(tmp_path) as hf:
        session = (await hf.run("go")).session
        async with aclosing(hf.stream(session, "go")) as pieces:
            await anext(pieces)
        running = asyncio.create_task(hf.run("go", session=session))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        names = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith("holdfast-answer") for name in names)


async def test_a_host_that_is_not_open_says_so(tmp_path: Path) -> None:
    """API-402."""
    hf = ScriptedModel("one").host(tmp_path)
    with pytest.raises(ClientError, match="not open"):
        await hf.run("go")
    with pytest.raises(ClientError, match="not open"):
        [piece async for piece in hf.stream("ses_1", "go")]
