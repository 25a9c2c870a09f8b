"""Sessions as a state machine: random operations, crashes included, against a plain reading of the event log.

The runtime lives on a loop that runs only while an operation does, so that work stands still between operations, in
the middle of whatever it was doing. A crash closes the database under it, and nothing of that life runs again."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import Coroutine, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.conftest import new_session
from tests.core.session.support_lab import (
    LAB,
    OTHER,
    Lab,
    Reply,
    calls,
    die,
    error_event,
    overflows,
    refuses,
    says,
    tool,
)
from tests.llm.support import chat_model, chunk, claude, sse

from holdfast.core.database.errors import StorageError
from holdfast.core.runner.history import Frame, History
from holdfast.core.runner.lowering import lower
from holdfast.core.runner.preparation import ReadyTurn
from holdfast.core.runner.sending import Sending
from holdfast.core.session.input_errors import InputNotFound, InputNotPending, PromptConflict
from holdfast.llm.model import Model
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.request import make_request, user
from holdfast.llm.route.auth import NoAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Admission, Prompt
from holdfast.schema.session_message import UserMessage

T = TypeVar("T")
Delivery = Literal["steer", "queue"]
SUMMARY = "notes"
LONG = "input {} " + "and more " * 60
PATIENCE = 20.0
LIMIT = {"context": 1_000_000, "output": 100}
CONFIG = {"compaction": {"buffer": 10, "keep": {"tokens": 0}}, "agents": {"quick": {"mode": "all", "steps": 2}}}
FAILURES = ("refuse", "cut", "error", "error in a call", "overflow")
BEHAVIOURS = ("two tools", "held tool", "tool", "unknown tool", "bad input", "text", *FAILURES)
PLANS = st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=4)


def _other_protocols() -> list[Model]:
    found = [chat_model(), claude()]
    for protocol in (OpenAIResponses(), Gemini(), BedrockConverse()):
        found.append(Model("m", "p", Route(protocol.id, protocol, "https://host.invalid", NoAuth())))
    return found


PROTOCOLS = _other_protocols()


class Oracle:
    """A provider which checks every request it gets, then does what was planned."""

    def __init__(self) -> None:
        self.plans: deque[str] = deque()
        self.frames: dict[str, Frame] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.failures = 0
        self.requests = 0
        self.faults: list[str] = []
        self.runtime: Lab | None = None

    async def send(self, request: HttpRequest) -> Reply:
        raw = b"".join(request.body)
        body = decode_any(raw)
        summary = body["messages"][0]["role"] == "user" and "<conversation>" in str(body["messages"][0]["content"])[:20]
        if not summary:
            self.requests += 1
            self._check_calls(body)
            await self._check_cold(request.headers["x-session-id"], raw)
        await self.open.wait()
        if summary:
            return says(SUMMARY)
        plan = self.plans.popleft() if self.plans else "text"
        self.failures += plan in FAILURES
        return _reply(plan)

    async def close(self) -> None:
        pass

    def _check_calls(self, body: Mapping[str, Any]) -> None:
        """Each call is followed, before anybody else speaks, by exactly its result."""
        waiting: list[str] = []
        for message in body["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    self.faults.append(f"a result without a call: {message}")
                else:
                    waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                self.faults.append(f"calls without results: {waiting}")
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if waiting:
            self.faults.append(f"calls without results at the end: {waiting}")

    async def _check_cold(self, session_id: str, raw: bytes) -> None:
        assert self.runtime is not None
        cold = await History(self.runtime.store, session_id).request(self.frames[session_id], None)
        if cold.body != raw:
            same = next(i for i, pair in enumerate(zip_longest(raw, cold.body)) if pair[0] != pair[1])
            self.faults.append(f"hot is not cold:\n{raw[max(0, same - 300) :]!r}\n{cold.body[max(0, same - 300) :]!r}")


def _reply(plan: str) -> Reply:
    match plan:
        case "text":
            return says("done")
        case "tool":
            return calls(("act", {}), text="calling")
        case "two tools":
            return calls(("act", {}), ("act", {"again": 1}))
        case "held tool":
            return calls(("act", {}), ("held", {}))
        case "unknown tool":
            return calls(("nothing", {"x": 1}))
        case "bad input":
            return calls(("act", '{"broken'))
        case "refuse":
            return refuses("no")
        case "cut":
            return Reply([sse(chunk({"content": "half"})), *calls(("act", {})).pieces[:1]])
        case "error":
            return Reply([sse(chunk({"content": "half"})), error_event("broken")])
        case "error in a call":
            return Reply([sse(chunk({"content": "half"})), *calls(("act", {})).pieces[:1], error_event("broken")])
        case _:
            return overflows()


class Reading:
    """What a plain reader makes of one Session's events, and what is wrong with them."""

    def __init__(self, stored: list[Any]) -> None:
        self.events = [(event.seq, event.type.rpartition(".")[0], decode_any(event.data)) for event in stored]
        assert [seq for seq, _, _ in self.events] == list(range(len(self.events))), "a gap in the log"
        self.inbox: dict[str, tuple[str, str, int]] = {}
        self.promoted: dict[str, int] = {}
        self.users: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.open_calls: set[tuple[str, str]] = set()
        self.settled: list[tuple[str, str]] = []
        self.open_steps: set[str] = set()
        self.open_compactions: set[str] = set()
        self.dispatched = False
        for seq, type, data in self.events:
            self._read(seq, type.removeprefix("session.next."), data)

    @property
    def pending(self) -> list[str]:
        waiting = [id for id in self.inbox if id not in self.promoted]
        return sorted(waiting, key=lambda id: self.inbox[id][2])

    def _read(self, seq: int, type: str, data: dict[str, Any]) -> None:
        call = (data.get("assistantMessageID", ""), data.get("callID", ""))
        match type:
            case "prompt.admitted":
                assert data["messageID"] not in self.inbox, "admitted twice"
                self.inbox[data["messageID"]] = (data["prompt"]["text"], data["delivery"], seq)
            case "prompted":
                self._promote(seq, data["messageID"], data["delivery"])
            case "input.withdrawn":
                assert data["messageID"] in self.pending, "withdrawn though not pending"
                del self.inbox[data["messageID"]]
            case "revert.committed":
                self._revert(self.made[data["messageID"]])
            case "step.started":
                assert not self.open_steps, "a step before the end of the one before"
                self.made[data["assistantMessageID"]] = seq
                self.open_steps.add(data["assistantMessageID"])
            case "step.ended" | "step.failed":
                assert data["assistantMessageID"] in self.open_steps, "a step ended twice"
                assert not {key for key in self.open_calls if key[0] == data["assistantMessageID"]}, (
                    "ended before a call"
                )
                self.open_steps.clear()
                self.dispatched = False
            case "turn.dispatched":
                assert not self.open_calls, "dispatched while a call is open"
                self.dispatched = True
            case "turn.abandoned":
                self.dispatched = False
            case "tool.called":
                assert call not in self.open_calls, "called twice"
                self.open_calls.add(call)
            case "tool.success" | "tool.failed":
                assert call not in self.settled, "settled twice"
                self.open_calls.discard(call)
                self.settled.append(call)
            case "compaction.started":
                assert not self.open_compactions
                self.open_compactions.add(data["messageID"])
            case "compaction.ended" | "compaction.failed":
                self.open_compactions.remove(data["messageID"])
                self.made[data["messageID"]] = seq
            case _ if "messageID" in data:
                self.made.setdefault(data["messageID"], seq)

    def _promote(self, seq: int, id: str, delivery: str) -> None:
        assert id in self.pending, "promoted though not pending"
        older = [other for other in self.pending if self.inbox[other][1] == delivery]
        assert older[0] == id, "promoted out of the order of admission"
        self.promoted[id] = self.users[id] = self.made[id] = seq

    def _revert(self, boundary: int) -> None:
        self.users = {id: seq for id, seq in self.users.items() if seq <= boundary}
        gone = [id for id, row in self.inbox.items() if row[2] > boundary or self.promoted.get(id, -1) > boundary]
        for id in gone:
            del self.inbox[id]
        # A call that a crash left open and a revert took out of the conversation has nothing left to settle.
        self.open_calls = {call for call in self.open_calls if self.made[call[0]] <= boundary}


class SessionMachine(RuleBasedStateMachine):
    """Rules of the spec that any run must keep: see the test that runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-machine-"))
        self.receipts: dict[str, Admission] = {}
        self.sessions: list[str] = []
        self.owed: dict[str, set[str]] = {}
        self.orphans: set[str] = set()
        """Sessions that a crash may have left with something open which nobody has closed yet."""
        self.failures = 0
        self.number = 0
        self.lives = 0
        self._patched = Sending.send
        Sending.send = _noting(self._patched)  # type: ignore[method-assign]
        self._live()

    # -- lives -------------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        self.lives += 1
        self.loop = asyncio.new_event_loop()
        self.background: list[asyncio.Task[Any]] = []
        self.do(self._open())

    async def _open(self) -> None:
        self.oracle = Oracle()
        self.release = asyncio.Event()
        self.release.set()
        tools = {"act": tool(lambda context: {"acted": True}), "held": tool(self._held)}
        self.runtime = Lab(self.folder, self.oracle, tools=tools, config=CONFIG, limit=LIMIT)
        (self.runtime.directory / "sub").mkdir(exist_ok=True)
        self.oracle.runtime = self.runtime
        await self.runtime.__aenter__()

    async def _held(self, context: object) -> dict[str, Any]:
        await self.release.wait()
        return {"released": True}

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE):
                return await work

        return self.loop.run_until_complete(bounded())

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something that may have to wait for what the test holds back."""

        async def start() -> None:
            self.background.append(asyncio.ensure_future(work))
            await asyncio.sleep(0)

        self.do(start())

    # -- operations --------------------------------------------------------------------------------------------------

    @initialize()
    def first(self) -> None:
        self.create()

    @precondition(lambda self: len(self.sessions) < 2)
    @rule()
    def create(self) -> None:
        session = self.do(new_session(self.runtime, model=LAB))
        self.sessions.append(session.id)
        self.owed[session.id] = set()

    @rule(which=st.integers(0, 1))
    def create_again_and_wake(self, which: int) -> None:
        known = self.do(self.runtime.sessions.get(self._session(which)))
        again = self.do(new_session(self.runtime, id=known.id, model=OTHER, agent="quick"))
        assert (again.agent, again.model, again.location) == (known.agent, known.model, known.location)
        self.do(self.runtime.sessions.wake(known.id))

    @rule(
        which=st.integers(0, 1),
        delivery=st.sampled_from(("steer", "queue")),
        resume=st.sampled_from((True, True, True, False)),
        plans=PLANS,
        held=st.sampled_from(("tools", "nothing", "nothing", "model")),
        turns=st.sampled_from((60, 30, 10, 3, 0)),
    )
    def prompt(self, which: int, delivery: Delivery, resume: bool, plans: list[str], held: str, turns: int) -> None:
        self.number += 1
        self.oracle.plans.extend(plans)
        self.hold(held)
        self._prompt(self._session(which), LONG.format(self.number), f"msg_{self.number:06d}", delivery, resume)
        self.breathe(turns)

    @precondition(lambda self: self.receipts)
    @rule(which=st.integers(0, 99), resume=st.booleans())
    def prompt_again(self, which: int, resume: bool) -> None:
        known = self._receipt(which)
        if known.id in self._reading(known.session_id).inbox:
            again = self._prompt(known.session_id, known.prompt.text, known.id, known.delivery, resume)
            assert again.admitted_seq == known.admitted_seq
            self._conflict(known)

    def _conflict(self, known: Admission) -> None:
        other: Delivery = "queue" if known.delivery == "steer" else "steer"
        try:
            self.do(self.runtime.sessions.prompt(known.session_id, known.prompt, id=known.id, delivery=other))
        except PromptConflict:
            return
        raise AssertionError("a reused id was accepted")

    def _prompt(self, session_id: str, text: str, id: str, delivery: Delivery, resume: bool) -> Admission:
        prompting = self.runtime.sessions.prompt(session_id, Prompt(text=text), id=id, delivery=delivery, resume=resume)
        receipt = self.do(prompting)
        self.receipts.setdefault(id, receipt)
        if resume:
            self.owed[session_id].add(id)
        return receipt

    @precondition(lambda self: self.receipts)
    @rule(which=st.integers(0, 99))
    def withdraw(self, which: int) -> None:
        known = self._receipt(which)
        try:
            self.do(self.runtime.sessions.withdraw(known.session_id, known.id))
        except (InputNotFound, InputNotPending):
            assert known.id not in self._reading(known.session_id).pending
        else:
            assert known.id not in self._reading(known.session_id).pending
        self.owed[known.session_id].discard(known.id)

    @rule(which=st.integers(0, 1))
    def run(self, which: int) -> None:
        self.spawn(self.runtime.sessions.run(self._session(which)))

    @rule(which=st.integers(0, 1))
    def compact(self, which: int) -> None:
        self.spawn(self.runtime.sessions.compact(self._session(which)))

    @rule(which=st.integers(0, 1), plans=PLANS, held=st.sampled_from(("tools", "model")), turns=st.integers(0, 60))
    def interrupt_in_the_middle(self, which: int, plans: list[str], held: str, turns: int) -> None:
        self.prompt(which, "steer", True, plans, held, turns)
        self.interrupt(which)

    @rule(which=st.integers(0, 1))
    def interrupt(self, which: int) -> None:
        session_id = self._session(which)
        self.owed[session_id].clear()
        self.do(self.runtime.sessions.interrupt(session_id))
        reading = self._reading(session_id)
        if session_id not in self.orphans:
            assert not reading.open_calls
            assert not reading.open_steps

    @rule(which=st.integers(0, 1), agent=st.sampled_from(("build", "quick")), model=st.sampled_from((LAB, OTHER)))
    def switch(self, which: int, agent: str, model: ModelRef) -> None:
        self.do(self.runtime.sessions.switch_agent(self._session(which), agent))
        self.do(self.runtime.sessions.switch_model(self._session(which), model))

    @rule(which=st.integers(0, 1), below=st.booleans())
    def move(self, which: int, below: bool) -> None:
        session_id = self._session(which)
        self.owed[session_id].clear()
        root = self.runtime.directory
        directory = str(root / "sub" if below else root)
        self.do(self.runtime.sessions.move(session_id, directory))
        assert self.do(self.runtime.sessions.get(session_id)).location.directory == directory

    @rule(which=st.integers(0, 1), where=st.integers(0, 99))
    def stage_revert(self, which: int, where: int) -> None:
        session_id = self._session(which)
        rows = self.do(self.runtime.sessions.messages(session_id, order="asc", limit=200))
        if rows:
            self.owed[session_id].clear()
            self.do(self.runtime.sessions.stage_revert(session_id, rows[where % len(rows)].id))

    @rule(which=st.integers(0, 1), commit=st.booleans())
    def end_revert(self, which: int, commit: bool) -> None:
        sessions = self.runtime.sessions
        session_id = self._session(which)
        self.owed[session_id].clear()
        self.do(sessions.commit_revert(session_id) if commit else sessions.clear_revert(session_id))
        assert self.do(sessions.get(session_id)).revert is None

    def hold(self, held: str) -> None:
        (self.oracle.open.clear if held == "model" else self.oracle.open.set)()
        (self.release.clear if held == "tools" else self.release.set)()

    @rule(turns=st.integers(1, 60))
    def breathe(self, turns: int) -> None:
        async def turn() -> None:
            for number in range(turns):
                await asyncio.sleep(0 if number % 4 else 0.0005)

        self.do(turn())

    @rule(serve=st.booleans(), plans=PLANS, turns=st.sampled_from((60, 30, 10, 0)))
    def crash(self, serve: bool, plans: list[str], turns: int) -> None:
        """Often in the middle of something."""
        self.prompt(0, "steer", True, plans, "tools", turns)
        self._die()
        self.orphans = set(self.sessions)
        for owed in self.owed.values():
            owed.clear()
        self._live()
        if serve:
            self.do(self.runtime.recovery.start())

    @rule()
    def settle(self) -> None:
        """Nothing is held, nothing fails any more: everything that was asked for gets done, and is recorded."""
        self.hold("nothing")
        self.do(self._idle())
        if self.oracle.failures == self.failures:
            for session_id, owed in self.owed.items():
                assert not owed & set(self._reading(session_id).pending), "a wake was lost"
        for owed in self.owed.values():
            owed.clear()
        self.failures = self.oracle.failures
        self.oracle.plans.clear()
        for session_id in self.sessions:
            if self.do(self.runtime.sessions.get(session_id)).revert is None:
                self.do(self.runtime.sessions.run(session_id))
                self._check_closed(session_id)
                self.orphans.discard(session_id)
        assert self.do(self.runtime.sessions.interrupted()) == [] or self._staged()
        assert self.do(self.runtime.verify()) == []

    async def _idle(self) -> None:
        for session_id in self.sessions:
            await self.runtime.sessions.wait(session_id)
        outcomes = await asyncio.gather(*self.background, return_exceptions=True)
        self.background.clear()
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, HoldfastError), repr(outcome)
            assert not isinstance(outcome, StorageError), repr(outcome)

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def the_log_is_whole_and_everyone_agrees_with_it(self) -> None:
        assert not self.oracle.faults, self.oracle.faults[0]
        for session_id in self.sessions:
            reading = self._reading(session_id)
            stored = [event for event in reading.events if event[1] == "session.next.prompt.admitted"]
            admitted = {data["messageID"]: seq for seq, _, data in stored}
            for receipt in self.receipts.values():
                if receipt.session_id == session_id:
                    assert admitted[receipt.id] == receipt.admitted_seq, "a receipt was lost"
            self.do(self._check_views(session_id))

    async def _check_views(self, session_id: str) -> None:
        # Both are read before the loop turns again, so nothing can be committed in between that we would not see.
        head = -1
        while head != (head := await self.runtime.log.latest(session_id)):
            pending = [item.id for item in await self.runtime.sessions.pending(session_id)]
            rows = await self.runtime.sessions.messages(session_id, order="asc", limit=1000)
            reading = Reading(await self.runtime.log.serialized(session_id, limit=10_000))
        assert pending == reading.pending
        shown = [row.id for row in rows if isinstance(row.decode(), UserMessage)]
        assert shown == sorted(reading.users, key=lambda id: reading.users[id])

    def _check_closed(self, session_id: str) -> None:
        reading = self._reading(session_id)
        assert not reading.open_calls
        assert not reading.open_steps
        assert not reading.open_compactions
        assert not reading.dispatched
        assert not reading.pending
        self.do(self._check_protocols(session_id))

    async def _check_protocols(self, session_id: str) -> None:
        history = [row.decode() for row in await self.runtime.store.active_history(session_id)]
        messages = lower(history, LAB) or (user("nothing yet"),)
        for model in PROTOCOLS:
            assert prepare(model, make_request(messages=messages)).body

    # -- details -----------------------------------------------------------------------------------------------------

    def _staged(self) -> bool:
        return any(self.do(self.runtime.sessions.get(id)).revert is not None for id in self.sessions)

    def _session(self, which: int) -> str:
        return self.sessions[which % len(self.sessions)]

    def _receipt(self, which: int) -> Admission:
        return list(self.receipts.values())[which % len(self.receipts)]

    def _reading(self, session_id: str) -> Reading:
        return Reading(self.do(self.runtime.log.serialized(session_id, limit=10_000)))

    def _die(self) -> None:
        die(self.loop, self.runtime)

    def teardown(self) -> None:
        try:
            self.hold("nothing")
            self.oracle.plans.clear()
            self.do(self._idle())
            self.do(self.runtime.__aexit__(None, None, None))
        except (StorageError, TimeoutError):
            self._die()
            raise
        finally:
            Sending.send = self._patched  # type: ignore[method-assign]
            if not self.loop.is_closed():
                self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def _noting(send: Any) -> Any:
    """Remember with what frame a request was made, so that it can be made again from nothing."""

    async def noting(sending: Sending, ready: ReadyTurn) -> Any:
        transport: object = sending._models.transport
        assert isinstance(transport, Oracle)
        transport.frames[sending._scope.session_id] = ready.frame
        return await send(sending, ready)

    return noting
