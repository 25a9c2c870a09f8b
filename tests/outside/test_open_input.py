"""Compaction makes room out of older history. What the user asked and nobody has answered reaches the model word for
word, or is refused with the numbers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Machine, Provider, frame

from holdfast import Holdfast
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import FileInput, PromptInput
from holdfast.schema.session_message import AssistantMessage, CompactionMessage, UserMessage

pytestmark = pytest.mark.anyio

NOTES = "## Objective\nNOTES OF EARLIER WORK"
LARGE = ModelRef(provider_id="mock", id="large")
SMALL = ModelRef(provider_id="mock", id="m")
STATED = "This model's maximum context length is 20000 tokens. However, your messages resulted in 21000 tokens."


def is_summary(body: dict[str, Any]) -> bool:
    return str(body["messages"][0]["content"]).startswith("<conversation>")


class Script:
    """Answers turns in order, then with `fine`; every request for a summary with the notes."""

    def __init__(self, provider: Provider, *turns: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.provider = provider
        self.turns = list(turns)
        provider.behave = self._answer

    @property
    def requests(self) -> list[list[dict[str, Any]]]:
        """The messages of each turn's request, without the system text."""
        return [body["messages"][1:] for body in self.provider.bodies if not is_summary(body)]

    @property
    def summaries(self) -> list[str]:
        return [str(body["messages"][0]["content"]) for body in self.provider.bodies if is_summary(body)]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        if is_summary(self.provider.bodies[-1]):
            says(NOTES)(handler)
        elif self.turns:
            self.turns.pop(0)(handler)
        else:
            says("fine")(handler)


def order(provider: Provider) -> list[str]:
    """Turns and summaries as they came; a summary may take several requests."""
    kinds = ["summary" if is_summary(body) else "turn" for body in provider.bodies]
    return [kind for kind, before in zip(kinds, ["turn", *kinds], strict=False) if (kind, before) != ("summary",) * 2]


def says(text: str, *, used: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    usage = {"choices": [], "usage": {"prompt_tokens": used, "completion_tokens": 1}}
    counted = b"data: " + json.dumps(usage).encode() + b"\n\n" if used else b""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        handler.wfile.write(frame({"content": text}) + frame({}, "stop") + counted + b"data: [DONE]\n\n")

    return answer


def calls(path: str, number: int = 0, tool: str = "read") -> Callable[[BaseHTTPRequestHandler], None]:
    """One call of a tool."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        function = {"name": tool, "arguments": json.dumps({"path": path})}
        call = {"index": 0, "id": f"call_{path}_{number}", "type": "function", "function": function}
        Provider.head(handler)
        handler.wfile.write(frame({"tool_calls": [call]}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    return answer


def refuses(message: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler, 400, "application/json")
        handler.wfile.write(json.dumps({"error": {"message": message, "code": "context_length_exceeded"}}).encode())

    return answer


@asynccontextmanager
async def host(
    machine: Machine, provider: Provider, *, context: int, keep: int = 0, auto: bool = True
) -> AsyncIterator[Holdfast]:
    """`mock/m` with a window of so many tokens, 0 for an unknown one, and `mock/large`."""
    limits = {"m": {"context": context, "output": 100}} if context else {}
    models = {name: {"limit": limit} for name, limit in limits.items()} or {"m": {}}
    models["large"] = {"limit": {"context": 1_000_000, "output": 100}}
    served = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": provider.url}, "models": models}
    machine.configure_user(
        model="mock/m",
        provider={"mock": served},
        compaction={"auto": auto, "buffer": 100, "keep": {"tokens": keep}},
        holdfast={"titles": False, "retry": {"total_seconds": 0}},
    )
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as hf:
        yield hf


async def say(hf: Holdfast, session_id: str, text: str, *files: FileInput) -> None:
    prompt = PromptInput(text=text, files=files) if files else PromptInput(text=text)
    await hf.sessions.prompt(session_id, prompt=prompt)
    await hf.sessions.wait(session_id)


def note(text: str, name: str = "note.txt") -> FileInput:
    return FileInput(uri=f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}", name=name)


def words(name: str, tokens: int) -> str:
    """About so many tokens, which nothing else contains."""
    return f"{name} begins. " + "word " * (tokens * 4 // 5) + f"{name} ends?"


def texts(messages: list[dict[str, Any]], role: str = "user") -> list[str]:
    return [_text(message["content"]) for message in messages if message["role"] == role]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def own(messages: list[dict[str, Any]]) -> list[str]:
    """What the user said in messages of their own, not in a record of the conversation."""
    return [text for text in texts(messages) if not text.startswith("<conversation-checkpoint>")]


async def checkpoints(hf: Holdfast, session_id: str) -> list[CompactionMessage]:
    page = await hf.sessions.messages(session_id, limit=200, order="asc")
    return [item for item in page.items if isinstance(item, CompactionMessage)]


@pytest.mark.parametrize("keep", [0, 50, 8_000])
async def test_the_prompt_that_triggers_compaction_reaches_the_model_with_its_attachments(
    keep: int, holdfast: Machine, provider: Provider
) -> None:
    """CMP-050, CMP-051, CMP-055, CMP-016, CMP-023: whatever `keep` is; the older exchanges give way as far as they have
    to, and the summary is made without it."""
    script = Script(provider, *[says(words("answer", 3_000))] * 2)
    async with host(holdfast, provider, context=14_000, keep=keep) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 4_000))
        question = words("question", 3_000)
        await say(hf, session.id, question, note("ATTACHED TEXT " * 600))
        assert len(script.summaries) == 1
        assert "question" not in script.summaries[0]
        record, asked = texts(script.requests[-1])
        assert record.startswith("<conversation-checkpoint>")
        assert NOTES in record
        assert asked.startswith(question)
        assert "ATTACHED TEXT " * 600 in asked
        assert len(json.dumps(provider.bodies[-1])) // 4 <= 14_000
        assert await hf.verify() == []


async def test_everything_promoted_since_the_last_answer_stays(holdfast: Machine, provider: Provider) -> None:
    """CMP-050, CMP-051: several inputs, also those of a turn that failed, in their order."""
    script = Script(provider, says(words("answer", 5_000)), refuses("bad field"))
    async with host(holdfast, provider, context=14_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 4_000))
        await say(hf, session.id, "failed")
        for text in ("second", "third"):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=text), resume=False)
        await say(hf, session.id, words("fourth", 4_000))
        assert len(script.summaries) == 1
        assert own(script.requests[-1]) == ["failed", "second", "third", words("fourth", 4_000)]


async def test_a_loop_keeps_the_input_that_it_answers(holdfast: Machine, provider: Provider) -> None:
    """CMP-052, CMP-053, CMP-015: steps of the same activity give way, more than once; the newest input stays, and who
    summarises its steps is told what they are for."""
    for number in range(8):
        (holdfast.project / f"{number}.txt").write_text(
            words(f"file {number}", 3_000).replace("word word word ", "word word word\n"), encoding="utf-8"
        )
    script = Script(provider, says("first done"), *[calls(f"{number}.txt") for number in range(8)])
    async with host(holdfast, provider, context=14_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, "first")
        await say(hf, session.id, "read all files", note("WITH CARE"))
        assert len(script.summaries) >= 2
        assert "first done" in script.summaries[0]
        assert "[User]: read all files" in script.summaries[0]
        for request in script.requests[1:]:
            newest = own(request)[-1]
            assert newest.startswith("read all files")
            assert "WITH CARE" in newest
        page = await hf.sessions.messages(session.id, limit=1, order="desc")
        assert isinstance(page.items[0], AssistantMessage)
        assert page.items[0].finish == "stop"


async def test_a_steer_into_a_loop_is_its_newest_input(holdfast: Machine, provider: Provider) -> None:
    """CMP-050, CMP-052: it stays word for word; what the loop began with is older history by then."""
    script = Script(provider, calls("hello.txt", tool="steered"))
    async with host(holdfast, provider, context=14_000) as hf:
        session = await hf.sessions.create(model=SMALL)

        @hf.tool
        async def steered(path: str) -> str:
            """Is given a new direction meanwhile."""
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="a new direction"))
            return "\n".join(["line " * 20] * 200)

        await say(hf, session.id, words("beginning", 6_000))
        assert len(script.summaries) == 1
        assert "beginning begins" in script.summaries[0]
        assert own(script.requests[-1]) == ["a new direction"]


async def test_an_answered_input_is_older_history(holdfast: Machine, provider: Provider) -> None:
    """CMP-054, CMP-063: the next compaction summarises it; inspecting a checkpoint tells what it replaced, and undoing
    it brings the boundary before back."""
    script = Script(provider, says(words("one", 5_000)), says(words("two", 5_000)))
    async with host(holdfast, provider, context=14_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 4_000))
        await say(hf, session.id, words("second", 4_000))
        assert own(script.requests[-1]) == [words("second", 4_000)]
        found = await hf.sessions.checkpoint(session.id)
        page = await hf.sessions.messages(session.id, limit=200, order="asc")
        kinds = {item.id: type(item) for item in page.items}
        assert found is not None
        assert [kinds[id] for id in found.replaced] == [UserMessage, AssistantMessage]
        await hf.sessions.compact(session.id)
        again = await hf.sessions.checkpoint(session.id)
        assert again is not None
        assert [kinds[id] for id in again.replaced] == [CompactionMessage, UserMessage, AssistantMessage]
        await hf.sessions.undo_compaction(session.id)
        assert await hf.sessions.checkpoint(session.id) == found
        await say(hf, session.id, "third")
        assert own(script.requests[-1])[:1] == [words("second", 4_000)]
        assert await hf.verify() == []


async def test_the_request_after_a_compaction_is_a_stable_prefix(holdfast: Machine, provider: Provider) -> None:
    """CMP-053, CMP-039: later requests begin with its messages, in this process and in the next."""
    script = Script(provider, says(words("one", 5_000)))
    async with host(holdfast, provider, context=14_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 4_000))
        await say(hf, session.id, words("second", 4_000), note("ATTACHED"))
        await say(hf, session.id, "third")
        assert await hf.rebuild() == 1
    async with host(holdfast, provider, context=14_000) as hf:
        await say(hf, session.id, "fourth")
        assert await hf.verify() == []
    second, third, fourth = [body["messages"] for body in provider.bodies if not is_summary(body)][1:]
    assert third[: len(second)] == second
    assert fourth[: len(third)] == third
    assert len(script.summaries) == 1


# -- what cannot fit -------------------------------------------------------------------------------------------------


async def test_a_prompt_that_cannot_fit_is_refused_with_the_numbers(holdfast: Machine, provider: Provider) -> None:
    """CMP-056, CMP-057: nothing is sent, summarised or lost; a larger model answers it with the next prompt."""
    script = Script(provider)
    prompt = words("question", 25_000)
    async with host(holdfast, provider, context=24_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        heard: list[str] = []
        async with listening(hf, heard) as told:
            await say(hf, session.id, prompt, note("ATTACHED"))
            await told.wait()
        assert provider.bodies == []
        assert await checkpoints(hf, session.id) == []
        (message,) = heard
        assert "mock/m takes 24,000 tokens" in message
        assert "switch the Session to a model with a larger window" in message
        outcome = await hf.sessions.outcome(session.id)
        assert outcome.type == "failed"
        assert "mock/m takes 24,000 tokens" in (outcome.error or "")
        assert await hf.sessions.interrupted() == []
        await hf.sessions.switch_model(session.id, model=LARGE)
        await say(hf, session.id, "go on")
        first, second = own(script.requests[-1])
        assert first.startswith(prompt)
        assert "ATTACHED" in first
        assert second.startswith("go on")
        context = await hf.sessions.context(session.id)
        assert isinstance(context[-1], AssistantMessage)
        assert context[-1].error is None


@asynccontextmanager
async def listening(hf: Holdfast, heard: list[str]) -> AsyncIterator[asyncio.Event]:
    """What live errors say meanwhile; the event is set with the first."""
    connected, told = asyncio.Event(), asyncio.Event()

    async def listen() -> None:
        async with aclosing(aiter(hf.events.subscribe())) as events:
            async for event in events:
                connected.set()
                if event.type == "session.error":
                    heard.append(json.dumps(msgspec.to_builtins(event.data)))
                    told.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(listen())
        await connected.wait()
        yield told
        task.cancel()


async def test_a_run_sends_a_refused_prompt_to_a_larger_model(holdfast: Machine, provider: Provider) -> None:
    """CMP-057, SES-257: without a word more."""
    script = Script(provider)
    prompt = words("question", 25_000)
    async with host(holdfast, provider, context=24_000) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, prompt, note("ATTACHED"))
        assert provider.bodies == []
        await hf.sessions.switch_model(session.id, model=LARGE)
        assert (await hf.sessions.run(session.id)).type == "completed"
        (sent,) = own(script.requests[-1])
        assert sent.startswith(prompt)
        assert "ATTACHED" in sent


async def test_automatic_compaction_switched_off_refuses_nothing(holdfast: Machine, provider: Provider) -> None:
    """CMP-056, CMP-006: the estimate decides nothing then; the provider does."""
    script = Script(provider)
    async with host(holdfast, provider, context=24_000, auto=False) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("question", 25_000))
        assert own(script.requests[-1]) == [words("question", 25_000)]


# -- what a refusal teaches ------------------------------------------------------------------------------------------


async def test_an_overflow_is_recovered_without_a_configured_limit(holdfast: Machine, provider: Provider) -> None:
    """CMP-058, CMP-059, CMP-060, CMP-031: overflow, summary, retry; the limit that the provider named is kept, so the
    next conversation that grows beyond it is compacted before it is sent."""
    script = Script(provider, says(words("one", 9_000)), refuses(STATED), says("made it"), says(words("two", 9_000)))
    async with host(holdfast, provider, context=0) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 9_000))
        await say(hf, session.id, "second")
        assert order(provider) == ["turn", "turn", "summary", "turn"]
        assert own(script.requests[-1]) == ["second"]
        other = await hf.sessions.create(model=SMALL)
        await say(hf, other.id, words("third", 9_000))
        await say(hf, other.id, "fourth")
        assert order(provider)[4:] == ["turn", "summary", "turn"]
        assert own(script.requests[-1]) == ["fourth"]


async def test_a_learned_limit_outlives_the_process(holdfast: Machine, provider: Provider) -> None:
    """CMP-061: it is read back from the Session's last dispatch."""
    script = Script(provider, says(words("one", 9_000)), refuses(STATED), says(words("two", 9_000)))
    async with host(holdfast, provider, context=0) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 9_000))
        await say(hf, session.id, "second")
    async with host(holdfast, provider, context=0) as hf:
        await say(hf, session.id, words("third", 8_500))
        assert order(provider) == ["turn", "turn", "summary", "turn", "summary", "turn"]
        assert own(script.requests[-1]) == [words("third", 8_500)]


async def test_a_refusal_without_a_number_bounds_what_is_sent(holdfast: Machine, provider: Provider) -> None:
    """CMP-059: nothing as large as what was refused is sent again while there is something to summarise."""
    script = Script(
        provider,
        says(words("one", 9_000)),
        refuses("Input is too long for requested model."),
        says(words("two", 19_000)),
    )
    async with host(holdfast, provider, context=0) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, words("first", 9_000))
        await say(hf, session.id, "second")
        await say(hf, session.id, words("third", 1_000))
        assert order(provider) == ["turn", "turn", "summary", "turn", "summary", "turn"]
        assert own(script.requests[-1]) == [words("third", 1_000)]


async def test_a_larger_request_that_was_answered_ends_a_learned_limit(holdfast: Machine, provider: Provider) -> None:
    """CMP-061: the provider's window has grown; from then on nothing is compacted for the old one."""
    script = Script(provider, says(words("one", 1_000)), refuses(STATED), says("large one", used=25_000))
    async with host(holdfast, provider, context=0) as hf:
        session = await hf.sessions.create(model=SMALL)
        await say(hf, session.id, "first")
        await say(hf, session.id, words("second", 22_000))
        (made,) = await checkpoints(hf, session.id)
        await say(hf, session.id, "third")
        assert own(script.requests[-1]) == [words("second", 22_000), "third"]
        assert await checkpoints(hf, session.id) == [made]
