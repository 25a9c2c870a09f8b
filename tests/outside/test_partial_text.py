"""The text that people have seen of a running answer outlives its process."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Server, frame
from tests.outside.test_left_behind import asked, client_of, end, in_turn, new_session, until

from holdfast import AsyncClient, Holdfast, PromptInput
from holdfast.schema.session_message import AssistantMessage, ReasoningPart, TextPart, ToolError, ToolPart, ToolPending

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
PIECE_SECONDS = 0.02
ANSWERED_SECONDS = 2.0
"""How long a server answers before it is killed."""
LOST_SECONDS = 1.5
"""A second, and the time that a slow machine takes for a commit."""


class Teller:
    """Answers with numbered words, one every 20 ms, until it is told to stop. Remembers when it sent each."""

    def __init__(self, provider: Provider, *, reasoning: bool = False) -> None:
        self._released = provider.released
        self._field = "reasoning_content" if reasoning else "content"
        self.sent: list[float] = []
        self.stopped = False

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        while not self._released.is_set() and not self.stopped:
            try:
                handler.wfile.write(frame({self._field: word(len(self.sent))}))
                handler.wfile.flush()
            except OSError:
                return
            self.sent.append(time.monotonic())
            self._released.wait(PIECE_SECONDS)
        handler.wfile.write(frame({}, "stop") + b"data: [DONE]\n\n")

    def words_before(self, moment: float) -> int:
        return sum(sent <= moment for sent in self.sent)


def word(number: int) -> str:
    return f"w{number} "


def words(text: str) -> int:
    """How many numbered words a text has, in their order and without a gap."""
    count = len(text.split())
    assert text == "".join(map(word, range(count)))
    return count


def answers(items: object) -> list[AssistantMessage]:
    return [item for item in items if isinstance(item, AssistantMessage)]  # type: ignore[attr-defined]


async def newest(client: AsyncClient, session_id: str) -> AssistantMessage | None:
    found = answers((await client.sessions.messages(session_id, limit=1)).items)
    return found[0] if found else None


async def asked_for(client: AsyncClient, machine: Machine) -> str:
    session_id = await new_session(client, machine)
    await client.sessions.prompt(session_id, prompt=PromptInput(text="tell"))
    return session_id


async def partial_of(client: AsyncClient, session_id: str) -> str | None:
    answer = await newest(client, session_id)
    for part in answer.content if answer is not None else ():
        holder = part.state if isinstance(part, ToolPart) else part
        if isinstance(holder, TextPart | ReasoningPart | ToolPending) and holder.partial:
            return holder.partial
    return None


async def killed_while_answering(machine: Machine, serve: Serve, provider: Provider, teller: Teller) -> tuple[str, int]:
    """A Session whose server was killed while it answered, and how many words a person must still see."""
    machine.use_provider(provider.url, settings={"recovery": "ask"})
    in_turn(provider, teller, Provider.answer)
    server = serve()
    async with client_of(server, machine) as client:
        session_id = await asked_for(client, machine)
        await until(lambda: asyncio.sleep(0.05, len(teller.sent) * PIECE_SECONDS > ANSWERED_SECONDS))
    killed = time.monotonic()
    end(server, signal.SIGKILL)
    return session_id, teller.words_before(killed - LOST_SECONDS)


async def test_text_that_was_seen_is_kept_when_the_server_is_killed(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-470, SES-472, SES-473: another server has it as `partial` until somebody goes on with the Session. Then it is
    the text of a step that was interrupted, and the log says the same. The model is not sent it."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    other = serve()
    session_id, seen = await killed_while_answering(holdfast, serve, provider, Teller(provider))
    async with client_of(other, holdfast) as client:
        left = await partial_of(client, session_id)
        assert words(left or "") >= seen > 0
        assert answers(await client.sessions.context(session_id)) == [await newest(client, session_id)]
        await client.sessions.recover(session_id, decision="continue")
        await client.sessions.outcome(session_id)
        broken, complete = answers((await client.sessions.messages(session_id, order="asc")).items)
        (part,) = broken.content
        assert isinstance(part, TextPart)
        assert (part.text, part.partial, part.broken_off) == (left, None, True)
        assert broken.error is not None
        assert "interrupted" in broken.error.message
        assert complete.text == "fine"
    assert "w0" not in json.dumps(asked(provider)[-1]["messages"])
    checked = holdfast("doctor")
    assert checked.code == 0, checked.out + checked.err


async def test_an_abandoned_answer_keeps_its_text(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-473: whatever was decided about it. Reasoning as well, of which nothing goes back to the model."""
    teller = Teller(provider, reasoning=True)
    session_id, seen = await killed_while_answering(holdfast, serve, provider, teller)
    async with client_of(serve(), holdfast) as client:
        await client.sessions.recover(session_id, decision="abandon")
        broken = await until(lambda: completed(client, session_id))
        (part,) = broken.content
        assert isinstance(part, ReasoningPart)
        assert words(part.text) >= seen > 0
        assert part.broken_off
        await client.sessions.prompt(session_id, prompt=PromptInput(text="and now?"))
        assert (await client.sessions.outcome(session_id)).type == "completed"
    assert "w0" not in json.dumps(asked(provider)[-1]["messages"])


async def completed(client: AsyncClient, session_id: str) -> AssistantMessage | None:
    answer = await newest(client, session_id)
    return answer if answer is not None and answer.time.completed is not None else None


async def test_a_reader_without_a_live_stream_sees_the_text_so_far(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-471, SES-472: it grows, it is no event, and the end of the block takes its place."""
    holdfast.use_provider(provider.url)
    teller = Teller(provider)
    in_turn(provider, teller, Provider.answer)
    async with client_of(serve(), holdfast) as client:
        session_id = await asked_for(client, holdfast)
        first = await until(lambda: partial_of(client, session_id))
        before = [event.type for event in (await client.sessions.history(session_id)).events]
        longer = await until(lambda: grown(client, session_id, first))
        assert longer.startswith(first)
        words(longer)
        assert [event.type for event in (await client.sessions.history(session_id)).events] == before
        entry = (await client.sessions.rendered(session_id, limit=1)).items[0]
        assert entry.parts[0].open  # type: ignore[union-attr]
        assert entry.parts[0].partial.startswith(longer)  # type: ignore[union-attr]
        teller.stopped = True
        assert (await client.sessions.outcome(session_id)).type == "completed"
        answer = await newest(client, session_id)
        assert answer is not None
        assert words(answer.text) == len(teller.sent)
        assert await partial_of(client, session_id) is None


async def grown(client: AsyncClient, session_id: str, text: str) -> str | None:
    now = await partial_of(client, session_id)
    return now if now is not None and len(now) > len(text) else None


async def test_the_input_of_a_call_is_seen_while_it_is_written(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-470, SES-473: and after a crash its call has failed, as any that was cut off."""

    def writes(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        call = {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": "write", "arguments": '{"content": "'},
        }
        handler.wfile.write(frame({"tool_calls": [call]}))
        handler.wfile.flush()
        provider.released.wait(60)

    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    in_turn(provider, writes, Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await asked_for(client, holdfast)
        assert await until(lambda: partial_of(client, session_id)) == '{"content": "'
    end(server, signal.SIGKILL)
    async with client_of(serve(), holdfast) as client:
        await client.sessions.recover(session_id, decision="abandon")
        broken = await until(lambda: completed(client, session_id))
        (part,) = broken.content
        assert isinstance(part, ToolPart)
        assert isinstance(part.state, ToolError)
        ended = [
            event.data for event in (await client.sessions.history(session_id)).events if "input.ended" in event.type
        ]
        assert [data.text for data in ended] == ['{"content": "']  # type: ignore[union-attr]


async def test_a_deleted_session_leaves_no_text_behind(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-471: neither does a purged one."""
    session_id, _ = await killed_while_answering(holdfast, serve, provider, Teller(provider))
    async with client_of(serve(), holdfast) as client:
        await client.sessions.delete(session_id)
    purged = holdfast("sessions", "purge", session_id, "--yes")
    assert purged.code == 0, purged.out + purged.err


async def test_an_export_leaves_the_text_so_far_out(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-471: a bundle holds events."""
    session_id, _ = await killed_while_answering(holdfast, serve, provider, Teller(provider))
    exported = holdfast("export", session_id, "-o", "left.holdfast")
    assert exported.code == 0, exported.out + exported.err
    elsewhere = {"XDG_DATA_HOME": str(holdfast.home / "elsewhere")}
    imported = holdfast("import", "left.holdfast", **elsewhere)
    assert imported.code == 0, imported.out + imported.err
    async with Holdfast(holdfast.project, data=holdfast.home / "elsewhere" / "holdfast", recover=False) as there:
        (answer,) = answers((await there.sessions.messages(session_id)).items)
        assert [part.partial for part in answer.content if isinstance(part, TextPart)] == [None]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), json.dumps(event).encode()) for event in events
    )


async def test_a_step_that_goes_on_with_its_call_does_not_show_the_model_the_text(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-473, TOL-101: the call waited for a person when the server was killed, while the model still wrote."""
    call = {"type": "tool_use", "id": "call_1", "name": "bash", "input": {}}
    arguments = json.dumps({"command": "echo once >> ran.txt", "description": "d"})

    def call_and_tell(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
        handler.wfile.write(
            sse(
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": call},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": arguments},
                },
                {"type": "content_block_stop", "index": 0},
                {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "half a thought"}},
            )
        )
        handler.wfile.flush()
        provider.released.wait(60)

    def finish(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        handler.wfile.write(
            sse(
                {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fine"}},
                {"type": "content_block_stop", "index": 0},
                delta,
                {"type": "message_stop"},
            )
        )

    options = {"baseURL": provider.url, "apiKey": "k"}
    mock = {"npm": "@ai-sdk/anthropic", "options": options, "models": {"m": {}}}
    own = {"recovery": "ask", "retry": {"total_seconds": 0}, "titles": False}
    holdfast.configure_user(model="mock/m", provider={"mock": mock}, permission={"bash": "ask"}, holdfast=own)
    provider.behave = call_and_tell
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await asked_for(client, holdfast)
        (request,) = await until(lambda: client.permissions.list(session_id))
        assert await until(lambda: partial_of(client, session_id)) == "half a thought"
    end(server, signal.SIGKILL)
    provider.behave = finish
    async with client_of(serve(), holdfast) as client:
        await client.permissions.reply(session_id, request_id=request.id, reply="once")
        assert (await client.sessions.outcome(session_id)).type == "completed"
        broken, complete = answers((await client.sessions.messages(session_id, order="asc")).items)
        assert (broken.error, complete.text) == (None, "fine")
        assert (broken.text, [part.broken_off for part in broken.content if isinstance(part, TextPart)]) == (
            "half a thought",
            [True],
        )
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert "tool_result" in json.dumps(provider.bodies[-1]["messages"])
    assert "half a thought" not in json.dumps(provider.bodies[-1]["messages"])
