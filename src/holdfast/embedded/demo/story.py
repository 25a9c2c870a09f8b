"""Plays the story: what the person does, in order, through the same API as every client. The model's part is in
`holdfast.llm.story`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.errors import check_outcome
from holdfast.core.run_to_completion import run_to_completion
from holdfast.embedded.demo.crash import crash
from holdfast.embedded.demo.project import AGENTS_LATER
from holdfast.embedded.pieces import ToolStarted
from holdfast.llm.story import script
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.model import ModelRef
from holdfast.schema.session import ForkBefore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from holdfast.embedded.holdfast import Holdfast
    from holdfast.schema.permission import PermissionRequest, Reply
    from holdfast.schema.prompt import Admission
    from holdfast.schema.question import QuestionRequest
    from holdfast.schema.session import Session

MODEL = ModelRef(id="story", provider_id="demo")
SMALL_MODEL = ModelRef(id="story-mini", provider_id="demo")
TITLE = "Fix the lost cent"
THINKING_SECONDS = 0.8
"""How long the person takes for an answer."""
LOOK_SECONDS = 0.05
LOOKS = 1200


class StoryStuck(HoldfastError):
    """Something that the story waits for did not happen."""


class Story:
    """One run. `sessions` are the roots that it made, also if it does not come to its end."""

    def __init__(self, host: Holdfast, directory: Path) -> None:
        self.sessions: list[Session] = []
        self._host = host
        self._directory = directory
        self._leave_open = False
        """Whether requests stay open for the person who looks at the demonstration."""

    async def play(self) -> AsyncGenerator[str, None]:
        """Yields what happens next, in a few words, before it happens."""
        yield "a bug is fixed: tools, a question, a steer, a queued prompt"
        main = await self._create(TITLE)
        await self._fix(main.id)
        yield "the instructions change, the provider fails once, a subagent searches"
        (self._directory / "AGENTS.md").write_text(AGENTS_LATER, encoding="utf-8")
        after_fix = await self._prompt(main.id, script.LOOK_ELSEWHERE)
        yield "another model, a command of the person, a compaction"
        await self._switch_and_compact(main.id)
        yield "a process is killed in the middle of an answer, and a person decides how to go on"
        await self._crash(main.id)
        yield "a fork, and a revert"
        await self._fork(main.id, after_fix.id)
        await self._revert()
        yield "requests that wait for you"
        self._leave_open = True
        await self._wait_for_person(main.id)

    async def _fix(self, id: str) -> None:
        steered = False
        async for piece in self._host.stream(id, script.FIX):
            if isinstance(piece, ToolStarted) and not steered:
                steered = True
                await self._host.sessions.prompt(id, text=script.KEEP_SIGNATURE, delivery="steer")
                await self._host.sessions.prompt(id, text=script.ADD_TEST, delivery="queue")
        await self._host.sessions.wait(id)

    async def _switch_and_compact(self, id: str) -> None:
        sessions = self._host.sessions
        await sessions.switch_model(id, model=SMALL_MODEL)
        await self._prompt(id, script.RELEASE_NOTE)
        await sessions.shell(id, command="git diff --stat")
        await sessions.wait(id)
        await sessions.compact(id)
        await sessions.wait(id)
        await sessions.switch_model(id, model=MODEL)

    async def _crash(self, id: str) -> None:
        undecided = await self._create("Write a longer README", SMALL_MODEL)
        await crash(self._directory, {id: script.WEIGHTS, undecided.id: script.DOCUMENT})
        await self._until(lambda: self._is_interrupted(id, undecided.id))
        await asyncio.sleep(THINKING_SECONDS)
        await self._host.sessions.recover(id, decision="continue")
        await self._host.sessions.wait(id)

    async def _fork(self, id: str, message_id: str) -> None:
        made = self._host.sessions.fork(id, boundary=ForkBefore(message_id=message_id))
        fork = await run_to_completion(self._added(made, "With fractions?"))
        await self._prompt(fork.id, script.FRACTIONS)

    async def _revert(self) -> None:
        session = await self._create("Amounts as Decimal")
        admission = await self._prompt(session.id, script.DECIMALS)
        await self._host.sessions.stage_revert(session.id, message_id=admission.id)

    async def _wait_for_person(self, id: str) -> None:
        question = await self._create("Show a currency")
        release = await self._create("Release 1.1", SMALL_MODEL)
        prompts = {id: script.CHANGELOG, question.id: script.CURRENCY, release.id: script.RELEASE}
        for session_id, prompt in prompts.items():
            await self._host.sessions.prompt(session_id, text=prompt)
        await self._until(lambda: self._is_asked(*prompts))

    async def _create(self, title: str, model: ModelRef = MODEL) -> Session:
        return await run_to_completion(self._added(self._host.sessions.create(model=model), title))

    async def _added(self, made: Awaitable[Session], title: str) -> Session:
        """Not cut in two by Ctrl-C: a Session that exists is one that can be removed again."""
        session = await made
        self.sessions.append(session)
        self._host.on_permission(self._allow, session=session.id)
        self._host.on_question(self._answer, session=session.id)
        return await self._host.sessions.rename(session.id, title=title)

    async def _prompt(self, id: str, text: str) -> Admission:
        """Prompt and wait for the answer."""
        admission = await self._host.sessions.prompt(id, text=text)
        await self._host.sessions.wait(id)
        check_outcome(await self._host.sessions.outcome(id))
        return admission

    async def _is_interrupted(self, *ids: str) -> bool:
        found = {activity.session_id for activity in await self._host.sessions.interrupted()}
        return found.issuperset(ids)

    async def _is_asked(self, *ids: str) -> bool:
        for id in ids:
            if not await self._host.permissions.list(id) and not await self._host.questions.list(id):
                return False
        return True

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(LOOKS):
            if await condition():
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise StoryStuck(f"The demo stopped: nothing happened for {LOOKS * LOOK_SECONDS:.0f} s")

    def _allow(self, request: PermissionRequest) -> Reply | None:
        """A user's own rules may ask for more than the story expects."""
        return None if self._leave_open else "once"

    async def _answer(self, request: QuestionRequest) -> str | None:
        if self._leave_open:
            return None
        await asyncio.sleep(THINKING_SECONDS)
        return request.questions[0].options[0].label
