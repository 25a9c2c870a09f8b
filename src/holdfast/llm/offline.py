"""Models that need no network: they speak OpenAI's wire format through the same transport seam as a real provider.

`echo` reads the file that a prompt names and answers from it; to a prompt with a format it answers with an example made
from the prompt's text. `scripted` plays a list of turns from a file. `story` and `story-mini` play the story of
`holdfast demo`. `ScriptedTransport` plays turns from Python and can hold a turn until an event is set."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.llm.answer_format import DESCRIPTION, WRAPPER
from holdfast.llm.errors import LLMError
from holdfast.llm.example_value import example_value
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.deferred import deferred
from holdfast.schema.pattern import pattern
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from holdfast.llm.route.transport import HttpRequest
    from holdfast.llm.story import model as story
    from holdfast.llm.story.model import StoryModel
else:
    story = deferred("holdfast.llm.story.model")

SCHEME = "offline"
BASE_URL = "offline://demo/v1"


class Call(Record):
    tool: str
    input: dict[str, Any]


class Usage(Record):
    """Tokens of a turn. `input` includes `cached`, `output` includes `reasoning`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


class Turn(Record):
    """One turn of the model. `answer` is given in the form that the request asks for: by a call, or as JSON. `fail`
    answers with this HTTP status; `cut` ends the stream unfinished. `pause` is the time in seconds before the first
    word, `pace` that between two words."""

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[Call, ...] | None = None
    answer: Any = msgspec.UNSET
    fail: int | None = None
    cut: bool = False
    pause: float = 0
    pace: float = 0
    usage: Usage | None = None


class OfflineResponse:
    def __init__(self, status: int, frames: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = {"content-type": "text/event-stream" if status == 200 else "application/json"}
        self._frames = frames

    def chunks(self) -> AsyncIterator[bytes]:
        return self._frames

    def release(self) -> None:
        pass

    async def close(self) -> None:
        pass


class OfflineTransport:
    """Answers for every model below the offline scheme."""

    def __init__(self, script: Path | None = None) -> None:
        self._script = script
        self._story: StoryModel | None = None

    async def send(self, request: HttpRequest) -> OfflineResponse:
        body = decode_any(b"".join(request.body))
        return respond(with_answer(self._turn(body), body), body["model"])

    async def close(self) -> None:
        pass

    def _turn(self, body: dict[str, Any]) -> Turn:
        match body["model"]:
            case "scripted":
                return self._scripted(body)
            case "story" | "story-mini":
                if self._story is None:
                    self._story = story.StoryModel()
                return self._story.turn(body)
            case _:
                return echo(body)

    def _scripted(self, body: dict[str, Any]) -> Turn:
        if self._script is None:
            raise LLMError("InvalidRequest", "demo/scripted needs HOLDFAST_SCRIPT, the path of a JSON list of turns")
        try:
            turns = msgspec.json.decode(self._script.read_bytes(), type=list[Turn])
        except (OSError, msgspec.DecodeError) as error:
            raise LLMError("InvalidRequest", f"cannot play {self._script}: {error}") from error
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return turns[done] if done < len(turns) else Turn(text="The script is over.")


class ScriptedTransport:
    """A model that tests control: turns are played in order, requests are recorded, any turn can be held."""

    def __init__(self, turns: Sequence[Turn | Callable[[dict[str, Any]], Turn]] = ()) -> None:
        self._turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self.raw: list[HttpRequest] = []
        self._arrived = asyncio.Condition()
        self._gates: dict[int, asyncio.Event] = {}

    def hold(self, turn: int) -> asyncio.Event:
        """Hold a turn (0 is the first) after its request has arrived, until the event is set."""
        return self._gates.setdefault(turn, asyncio.Event())

    async def seen(self, count: int) -> None:
        """Returns once that many requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def send(self, request: HttpRequest) -> OfflineResponse:
        body = decode_any(b"".join(request.body))
        index = len(self.requests)
        async with self._arrived:
            self.raw.append(request)
            self.requests.append(body)
            self._arrived.notify_all()
        if gate := self._gates.get(index):
            await gate.wait()
        turn = self._turns[index] if index < len(self._turns) else Turn(text="done")
        return respond(with_answer(turn(body) if callable(turn) else turn, body), body["model"])

    async def close(self) -> None:
        pass


def echo(body: dict[str, Any]) -> Turn:
    """Read the file that the prompt names, if possible, and answer from it."""
    messages = body["messages"]
    asked = max(index for index, message in enumerate(messages) if message["role"] == "user")
    prompt = _text(messages[asked]["content"])
    results = [message["content"] for message in messages[asked + 1 :] if message["role"] == "tool"]
    if results:
        return Turn(text=f"The file begins: {_first_line(results[-1])}")
    can_read = any(tool["function"]["name"] == "read" for tool in body.get("tools", ()))
    if can_read and (named := _FILE.search(prompt)):
        return Turn(
            text=f"Reading {named[0]}.",
            calls=(Call(tool="read", input={"path": named[0]}),),
        )
    if (form := _asked_format(body)) is not None:
        return Turn(answer=example_value(form.schema, prompt))
    return Turn(text=prompt)


def with_answer(turn: Turn, body: dict[str, Any]) -> Turn:
    """The turn with its answer as the request asks for it: as a call of the tool for answers, or as JSON."""
    if turn.answer is msgspec.UNSET:
        return turn
    asked = _asked_format(body)
    wrapped = asked is not None and list(asked.schema.get("properties", ())) == [WRAPPER]
    given = turn.answer
    if wrapped and not (isinstance(given, dict) and list(given) == [WRAPPER]):
        given = {WRAPPER: given}
    if asked is None or asked.tool is None:
        return replace(turn, text=(turn.text or "") + encode(given).decode(), answer=msgspec.UNSET)
    return replace(turn, calls=(*(turn.calls or ()), Call(tool=asked.tool, input=given)), answer=msgspec.UNSET)


class _AskedFormat(Record):
    tool: str | None
    schema: dict[str, Any]


def _asked_format(body: dict[str, Any]) -> _AskedFormat | None:
    if (given := body.get("response_format")) is not None:
        return _AskedFormat(tool=None, schema=given["json_schema"]["schema"])
    functions = [tool["function"] for tool in body.get("tools", ())]
    found = next((function for function in functions if function["description"] == DESCRIPTION), None)
    return None if found is None else _AskedFormat(tool=found["name"], schema=found["parameters"])


def respond(turn: Turn, model: str) -> OfflineResponse:
    if turn.fail is not None:
        failure = {"error": {"message": f"scripted failure {turn.fail}", "type": "scripted"}}
        return OfflineResponse(turn.fail, _stream([encode(failure)], turn))
    return OfflineResponse(200, _stream(_frames(turn, model), turn))


def _frames(turn: Turn, model: str) -> list[bytes]:
    base = {"id": "chatcmpl-offline", "object": "chat.completion.chunk", "created": 0, "model": model}

    def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    frames = [frame({"role": "assistant", "content": ""})]
    frames += [frame({"reasoning_content": word}) for word in _words(turn.reasoning)]
    words = _words(turn.text)
    frames += [frame({"content": word}) for word in words]
    for index, call in enumerate(turn.calls or ()):
        function = {"name": call.tool, "arguments": encode(call.input).decode()}
        frames.append(
            frame({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]})
        )
    if turn.cut:
        return frames
    frames.append(frame({}, "tool_calls" if turn.calls else "stop"))
    return [*frames, _sse({**base, "choices": [], "usage": _usage(turn, len(words))}), b"data: [DONE]\n\n"]


def _words(text: str | None) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text or "")


def _usage(turn: Turn, words: int) -> dict[str, Any]:
    if (used := turn.usage) is None:
        return {"prompt_tokens": 0, "completion_tokens": words, "total_tokens": words}
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }


async def _stream(frames: Sequence[bytes], turn: Turn) -> AsyncIterator[bytes]:
    await asyncio.sleep(turn.pause)
    for frame in frames:
        yield frame
        await asyncio.sleep(turn.pace)


def _sse(value: object) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(item.get("text", "") for item in content)


def _first_line(result: str) -> str:
    """Of what the read tool shows: a heading, then numbered lines."""
    lines = [text for line in result.splitlines() if (text := _NUMBERED.sub("", line, count=1)) != line]
    return next((line.strip() for line in lines or result.splitlines() if line.strip()), "(nothing)")


_NUMBERED = pattern(r"^\s*\d+: ?")
# Starts at a word boundary; otherwise a long word would take quadratic time.
_FILE = pattern(r"(?<![\w-])(?:[\w.-]+/)*(?:[\w-]+\.\w{1,8}|LICENSE|Makefile|README)\b")
