"""Random conversations against a provider with a small window: whatever is compacted, each request carries the open
input word for word, and without a compaction in between it begins with the request before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Machine, Provider
from tests.outside.test_open_input import LARGE, SMALL, calls, host, is_summary, note, own, refuses, say, says, words

from holdfast.schema.prompt import PromptInput

pytestmark = pytest.mark.anyio

WINDOW = 12_000
FILES = {"small.txt": 300, "medium.txt": 1_500, "large.txt": 4_000}
Step = Literal["small.txt", "medium.txt", "large.txt", "fails", "answers", "answers at length"]

SIZES = st.sampled_from([3, 200, 1_500, 5_000, 14_000])
PROMPTS = st.lists(st.tuples(SIZES, st.sampled_from([0, 0, 100, 2_000])), min_size=1, max_size=3)
STEPS = st.lists(st.sampled_from(get_args(Step)), max_size=5)
EXCHANGES = st.lists(st.tuples(PROMPTS, STEPS), min_size=2, max_size=5)
Exchanges = list[tuple[list[tuple[int, int]], list[Step]]]
CONVERSATIONS = given(exchanges=EXCHANGES, known=st.booleans(), keep=st.sampled_from([0, 300, 8_000]))
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=200)


class Model:
    """Refuses what does not fit its window, plays its steps, and checks each request against what is open."""

    def __init__(self, provider: Provider, window: int) -> None:
        self._provider = provider
        self._window = window
        self._steps: Iterator[Step] = iter(())
        self._open: list[tuple[str, str]] = []
        self._heard = True
        """Whether the model has completed a step since the newest input."""
        self._previous: list[dict[str, Any]] = []
        self._compacted = False
        self._reads = 0
        self.faults: list[str] = []
        provider.behave = self._answer

    def begin(self, prompts: list[tuple[str, str]], steps: list[Step]) -> None:
        self._open = [*([] if self._heard else self._open), *prompts]
        self._heard = False
        self._steps = iter(steps)

    @property
    def input(self) -> list[tuple[str, str]]:
        """What has no complete answer."""
        return self._open

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = self._provider.bodies[-1]
        large = "large" in body["model"]
        if not large and len(json.dumps(body)) // 4 > self._window:
            said = f"maximum context length is {self._window} tokens"
            if not is_summary(body):
                self._check(body["messages"])
            refuses(said)(handler)
        elif is_summary(body):
            self._compacted = True
            says("notes of earlier work")(handler)
        else:
            self._check(body["messages"])
            self._play(next(self._steps, "answers"), handler)

    def _play(self, step: Step, handler: BaseHTTPRequestHandler) -> None:
        if step == "fails":
            refuses("bad field")(handler)
            return
        self._heard = True
        if step in FILES:
            self._reads += 1
            calls(step, self._reads)(handler)
            return
        self._open = []
        says(words("answer", 2_000) if step == "answers at length" else "fine")(handler)

    def _check(self, messages: list[dict[str, Any]]) -> None:
        said = own(messages)[-len(self._open) :]
        for (text, attached), shown in zip(self._open, said, strict=False):
            if not shown.startswith(text) or attached not in shown:
                self.faults.append(f"expected {text[:40]!r}, found {shown[:40]!r}")
        if len(said) != len(self._open):
            self.faults.append(f"{len(self._open)} inputs are open, {len(said)} were sent")
        if not self._compacted and messages[: len(self._previous)] != self._previous:
            self.faults.append("the request does not begin with the one before")
        self._previous, self._compacted = messages, False


@FEW
@CONVERSATIONS
async def test_open_input_is_in_every_request(
    exchanges: Exchanges, known: bool, keep: int, holdfast: Machine, provider: Provider
) -> None:
    """CMP-050, CMP-051, CMP-052, CMP-053, CMP-057, CMP-058: whether the window is configured or only learned. In the
    end a larger model answers what was too large."""
    await check_conversation(exchanges, known, keep, holdfast, provider)


@pytest.mark.prove
@pytest.mark.timeout(3_600)
@MANY
@CONVERSATIONS
async def test_open_input_is_in_every_request_of_many_conversations(
    exchanges: Exchanges, known: bool, keep: int, holdfast: Machine, provider: Provider
) -> None:
    """CMP-050, CMP-051, CMP-052, CMP-053, CMP-057, CMP-058: the same, for longer."""
    await check_conversation(exchanges, known, keep, holdfast, provider)


async def check_conversation(
    exchanges: Exchanges, known: bool, keep: int, holdfast: Machine, provider: Provider
) -> None:
    for name, size in FILES.items():
        text = words(name, size).replace("word word word ", "word word word\n")
        (holdfast.project / name).write_text(text, encoding="utf-8")
    model = Model(provider, WINDOW)
    async with host(holdfast, provider, context=WINDOW if known else 0, keep=keep) as hf:
        session = await hf.sessions.create(model=SMALL)
        for number, (sizes, steps) in enumerate(exchanges):
            prompts = [
                (words(f"prompt {number}.{index}", size), f"ATTACHED {number}.{index} " * (attached // 4))
                for index, (size, attached) in enumerate(sizes)
            ]
            model.begin([*prompts, ("now", "")], steps)
            for text, attached in prompts:
                files = (note(attached),) if attached else ()
                prompt = PromptInput(text=text, files=files) if files else PromptInput(text=text)
                await hf.sessions.prompt(session.id, prompt=prompt, resume=False)
            await say(hf, session.id, "now")
        await hf.sessions.switch_model(session.id, model=LARGE)
        model.begin([("the end", "")], [])
        await say(hf, session.id, "the end")
        assert model.faults == []
        assert model.input == []
        assert await hf.verify() == []
