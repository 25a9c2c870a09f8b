"""What a drain starts from is one read. Whatever happens between that read and its first commit is noticed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Pair, event_types, messages, new_session, user_texts
from tests.core.session.support_lab import LAB, OTHER, Lab, Provider, contents, roles

from holdfast.core.context.epoch import Epoch, Epochs, FirstEpoch
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.stored_start import DrainStart
from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio

Act = Callable[[], Awaitable[Any]]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for commits of other processes: a drain would read once more, whenever that is due."""
    monkeypatch.setattr("holdfast.core.event.signal.POLL_SECONDS", 1000.0)


def after_reading(runtime: Runtime, session_id: str, act: Act) -> list[DrainStart]:
    """Do this once, right after a drain of the Session has read what it starts from. Everything that was read."""
    read = runtime.store.drain_start
    found: list[DrainStart] = []

    async def reading(id: str, *more: Any, **options: Any) -> DrainStart:
        start = await read(id, *more, **options)
        if id == session_id:
            found.append(start)
            if len(found) == 1:
                await act()
        return start

    vars(runtime.store)["drain_start"] = reading
    return found


async def test_a_drain_that_another_process_overtakes_starts_anew(pair: Pair) -> None:
    """STO-082: its first commit takes the lease as it was read, which is refused; nothing is answered twice."""
    a, b, id = pair.a, pair.b, pair.session.id

    async def overtake() -> None:
        await b.sessions.run(id)

    read = after_reading(a, id, overtake)
    await a.sessions.prompt(id, Prompt(text="once"))
    await a.sessions.wait(id)
    assert [len(pair.model_a.requests), len(pair.model_b.requests)] == [0, 1]
    assert (await event_types(a, id)).count("prompted") == 1
    assert read[0].lease is None
    assert read[0].seen.steer


async def test_an_overtaken_drain_sees_what_the_other_process_has_done(pair: Pair) -> None:
    """STO-082: with a prompt that came after the other one had ended, it goes on from there."""
    a, b, id = pair.a, pair.b, pair.session.id

    async def overtake() -> None:
        await b.sessions.run(id)
        await a.sessions.prompt(id, Prompt(text="two"), resume=False)

    read = after_reading(a, id, overtake)
    await a.sessions.prompt(id, Prompt(text="one"))
    await a.sessions.wait(id)
    assert [user_texts(request) for request in pair.model_b.requests] == [["one"]]
    assert [user_texts(request) for request in pair.model_a.requests] == [["one", "two"]]
    tokens = [start.lease.token if start.lease is not None else None for start in read]
    assert list(dict.fromkeys(tokens)) == [None, 1], "a commit that is noticed late makes it read once more"
    assert [message.type for message in await messages(a, id)] == ["user", "assistant", "user", "assistant"]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("known", [False, True])
async def test_a_change_after_the_read_counts(tmp_path: Path, known: bool) -> None:
    """STO-083: the drain reads again if somebody has committed to the Session before it begins."""
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        if known:
            await runtime.sessions.prompt(session.id, Prompt(text="before"))
            await runtime.sessions.wait(session.id)

        async def change() -> None:
            await runtime.sessions.switch_model(session.id, OTHER)
            await runtime.sessions.withdraw(session.id, "msg_1")
            await runtime.sessions.prompt(session.id, Prompt(text="three"), resume=False)

        for number, text in enumerate(("one", "two"), 1):
            await runtime.sessions.prompt(session.id, Prompt(text=text), id=f"msg_{number}", resume=False)
        read = after_reading(runtime, session.id, change)
        await runtime.sessions.wake(session.id)
        await runtime.sessions.wait(session.id)
        assert len(read) == 2
        assert provider.requests[-1]["model"] == "other"
        assert [text.partition("\n")[0] for text in contents(provider.requests[-1])[-2:]] == ["two", "three"]


@pytest.mark.usefixtures("alone")
async def test_a_drain_that_finds_nothing_changed_reads_once(tmp_path: Path) -> None:
    """STO-083"""
    async with Lab(tmp_path, Provider()) as runtime:
        session = await new_session(runtime, model=LAB)

        async def nothing() -> None: ...

        read = after_reading(runtime, session.id, nothing)
        for text in ("one", "two"):
            await runtime.sessions.prompt(session.id, Prompt(text=text))
            await runtime.sessions.wait(session.id)
        assert len(read) == 2


@pytest.mark.parametrize("obstacle", ["epoch", "withdrawn", "both"])
async def test_the_first_epoch_and_the_promotion_are_one_commit_unless_somebody_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    """STO-084, CTX-093, SES-303: the epoch that is there is used, and of the inputs what is left."""
    original, begun = Epochs.first, list[str]()

    async def interfering(self: Epochs, session_id: str, *context: Any, **options: Any) -> FirstEpoch:
        first = await original(self, session_id, *context, **options)
        if not begun and obstacle in ("epoch", "both"):
            begun.append(first.epoch.baseline)
            other = await original(self, session_id, *context, **options)
            await runtime.log.write(session_id, (), other.statements)
        if obstacle in ("withdrawn", "both"):
            await runtime.sessions.withdraw(session_id, "msg_1")
        return first

    monkeypatch.setattr(Epochs, "first", interfering)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        for number, text in enumerate(("one", "two"), 1):
            await runtime.sessions.prompt(session.id, Prompt(text=text), id=f"msg_{number}", resume=False)
        await runtime.sessions.wake(session.id)
        await runtime.sessions.wait(session.id)
        assert contents(provider.requests[0]) == (["one", "two"] if obstacle == "epoch" else ["two"])
        epoch = await runtime.epochs.load(session.id)
        assert epoch is not None
        await runtime.sessions.prompt(session.id, Prompt(text="three"))
        await runtime.sessions.wait(session.id)
        assert provider.requests[1]["messages"][0] == provider.requests[0]["messages"][0]


async def test_the_epoch_in_memory_is_the_stored_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-084, CTX-082, CTX-084: its baseline ends before the promoted input, and the next drain has nothing to
    tell."""
    original, begun = Epochs.begun, list[Epoch]()

    def noted(self: Epochs, first: FirstEpoch, baseline_seq: int) -> Epoch:
        begun.append(original(self, first, baseline_seq))
        return begun[-1]

    monkeypatch.setattr(Epochs, "begun", noted)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        for text in ("one", "two"):
            await runtime.sessions.prompt(session.id, Prompt(text=text))
            await runtime.sessions.wait(session.id)
        (epoch,), stored = begun, await runtime.epochs.load(session.id)
        assert stored is not None
        assert stored.snapshot.encode() == epoch.snapshot.encode()
        assert stored == epoch.replace(snapshot=stored.snapshot)
        assert epoch.baseline_seq == (await event_types(runtime, session.id)).index("prompted") - 1
        assert roles(provider.requests[1])[-3:] == ["user", "assistant", "user"]


@pytest.mark.usefixtures("alone")
async def test_a_late_notice_of_what_was_read_changes_nothing(tmp_path: Path) -> None:
    """STO-083: that there was a commit may be told after it was read."""
    async with Lab(tmp_path, Provider()) as runtime:
        session = await new_session(runtime, model=LAB)

        async def tell() -> None:
            runtime.log.signals.committed(session.id, await runtime.log.latest(session.id))

        read = after_reading(runtime, session.id, tell)
        await runtime.sessions.prompt(session.id, Prompt(text="one"))
        await runtime.sessions.wait(session.id)
        assert len(read) == 1
