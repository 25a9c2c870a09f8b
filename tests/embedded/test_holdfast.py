"""The embedded host as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast import Holdfast, PromptInput
from holdfast.client.errors import ApiError, ClientError
from holdfast.embedded.asgi_transport import GRACE_SECONDS
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.model import ModelRef
from holdfast.schema.session_event import SessionCreated
from holdfast.schema.session_message import AssistantMessage, TextPart
from holdfast.schema.typed_event import Event

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")
PATIENCE = 30.0
ENDED = "session.next.step.ended"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def host(project: Path, data: Path, model: ScriptedTransport | None = None, *, recover: bool = True) -> Holdfast:
    return Holdfast(project, data=data, environment={"HOME": str(data.parent)}, transport=model, recover=recover)


async def test_a_prompt_is_answered_from_a_file(project: Path, data: Path) -> None:
    """API-400, API-401: groups on one object, the offline model, no password and no port."""
    async with host(project, data) as hf:
        session = await hf.sessions.create(model=ECHO)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="What does hello.txt say?"))
        await hf.sessions.wait(session.id)
        (last,) = (await hf.sessions.messages(session.id, limit=1)).items

        assert session.location.directory == str(project)
        assert isinstance(last, AssistantMessage)
        (text,) = [part.text for part in last.content if isinstance(part, TextPart)]
        assert text.startswith("The file begins: ")
        with pytest.raises(ApiError) as unknown:
            await hf.sessions.get("ses_unknown")
        assert unknown.value.code == "SessionNotFoundError"


async def test_an_admission_survives_its_cancelled_caller(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-118, API-404: whenever the caller goes away, the prompt is admitted, once."""
    ids = [f"msg_{turns:02}" for turns in range(1, 40)]
    async with host(project, data, model) as hf:
        session = await hf.sessions.create(model=ECHO)
        for turns, id in enumerate(ids, start=1):
            prompting = asyncio.create_task(
                hf.sessions.prompt(session.id, id=id, prompt=PromptInput(text=id), resume=False)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            prompting.cancel()
            await asyncio.wait({prompting})
    async with host(project, data, model) as hf:
        history = await hf.sessions.history(session.id, limit=100)

        assert sorted(_message_id(event) for event in history.events) == ids
        assert await hf.verify() == []


async def test_closing_ends_every_stream(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-213, API-402, API-404: readers in other tasks see the end, not an error; the live one sees the farewell."""

    async def read(hf: Holdfast, session_id: str | None, opened: asyncio.Event) -> list[str]:
        stream = hf.events.subscribe() if session_id is None else hf.sessions.events(session_id)
        types = []
        async with aclosing(aiter(stream)) as events:
            async for event in events:
                types.append(event.type)
                opened.set()
        return types

    async with host(project, data, model) as hf:
        session = await hf.sessions.create(model=ECHO)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"), resume=False)
        gates = [asyncio.Event() for _ in range(4)]
        targets = [None, session.id, None, session.id]
        readers = [asyncio.create_task(read(hf, target, gate)) for target, gate in zip(targets, gates, strict=True)]
        for gate in gates:
            await gate.wait()
    live, durable, *_ = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)

    assert live == ["server.connected", "global.disposed"]
    assert durable == ["session.next.prompt.admitted"]


async def test_closing_is_quick_with_abandoned_streams(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-402: a stream that somebody opened and forgot holds nothing up."""
    async with host(project, data, model) as hf:
        session = await hf.sessions.create(model=ECHO)
        streams = [aiter(hf.events.subscribe()), aiter(hf.sessions.events(session.id))]
        assert (await anext(streams[0])).type == "server.connected"
        waiting = asyncio.create_task(_next(streams[1]))
        for _ in range(20):
            await asyncio.sleep(0)
        started = asyncio.get_running_loop().time()
    elapsed = asyncio.get_running_loop().time() - started
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, PATIENCE)

    assert elapsed < GRACE_SECONDS
    await streams[0].aclose()


async def test_closing_interrupts_what_runs_and_records_it(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-402: the next host finds an ended step, and can go on."""
    model.hold(0)
    async with host(project, data, model) as hf:
        session = await hf.sessions.create(model=ECHO)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="slow"))
        await model.seen(1)
    async with host(project, data, model) as hf:
        history = await hf.sessions.history(session.id)
        assert history.events[-1].type == "session.next.step.failed"
        assert await hf.verify() == []
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        await hf.sessions.wait(session.id)
        (last,) = (await hf.sessions.messages(session.id, limit=1)).items

    assert isinstance(last, AssistantMessage)
    assert last.finish == "stop"


async def test_one_host_after_the_other_on_one_directory(project: Path, data: Path) -> None:
    """API-402, API-405: everything is there again, and nothing of the first is left in the way."""
    ids = []
    for number in range(3):
        async with host(project, data) as hf:
            session = await hf.sessions.create(model=ECHO)
            ids.append(session.id)
            for id in ids:
                await hf.sessions.prompt(id, prompt=PromptInput(text=f"round {number}"))
                await hf.sessions.wait(id)
            assert [item.id for item in (await hf.sessions.list()).items] == ids[::-1]
            assert [len(await hf.sessions.context(id)) for id in ids] == [
                2 * (number - n + 1) for n in range(number + 1)
            ]
            assert await hf.verify() == []
    assert not list(data.glob("owners/*"))


async def test_two_hosts_at_once_hear_each_others_commits(project: Path, data: Path) -> None:
    """API-216, API-405, API-431: the durable events of both are heard by both; live events stay with the host."""
    async with host(project, data) as first, host(project, data, recover=False) as second:
        session = await first.sessions.create(model=ECHO)
        async with aclosing(aiter(second.events.subscribe())) as live:
            assert (await anext(live)).type == "server.connected"
            following = asyncio.create_task(_until_ended(second, session.id))
            await first.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
            durable = await asyncio.wait_for(following, PATIENCE)
            own = await second.sessions.create()
            await second.sessions.prompt(own.id, prompt=PromptInput(text="mine"), resume=False)
            heard: list[Event] = []
            # Events of one Session come in order; those of two Sessions need not.
            while not {(session.id, durable[-1]), (own.id, "session.created")} <= set(map(_origin, heard)):
                heard.append(await asyncio.wait_for(_next(live), PATIENCE))

    assert durable[0] == "session.next.prompt.admitted"
    others = [event for event in heard if _origin(event)[0] != own.id]
    assert [event.type for event in others if event.type.startswith("session.next.")] == durable
    assert next(type(event.data) for event in heard if _origin(event)[0] == own.id) is SessionCreated


def _origin(event: Event) -> tuple[str | None, str]:
    return (event.durable.aggregate_id if event.durable else None), event.type


async def test_an_error_in_the_block_still_closes_the_host(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-402: the error is the caller's, the resources are ours."""
    model.hold(0)

    async def work() -> None:
        async with host(project, data, model) as hf:
            session = await hf.sessions.create(model=ECHO)
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="slow"))
            await model.seen(1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await work()
    async with host(project, data, model) as hf:
        assert await hf.verify() == []
        assert await hf.sessions.active() == {}


async def test_a_closed_host_refuses_calls(project: Path, data: Path) -> None:
    """API-309, API-402: with an error that callers handle anyway, and at once."""
    async with host(project, data) as hf:
        session = await hf.sessions.create()
    for call in (hf.sessions.get(session.id), hf.sessions.create(), hf.sessions.wait(session.id)):
        with pytest.raises((ApiError, ClientError)):
            await asyncio.wait_for(call, PATIENCE)


async def test_a_host_that_is_not_open_says_so(project: Path, data: Path) -> None:
    """API-309, API-402: before and after its block, as a failure that callers handle anyway."""
    hf = host(project, data)
    for _ in range(2):
        with pytest.raises(ClientError, match="not open"):
            await hf.health.get()
        async with hf:
            assert (await hf.health.get()).healthy


async def test_a_host_is_not_opened_twice_at_once(project: Path, data: Path) -> None:
    """API-402: the second attempt is refused, and the first goes on."""
    async with host(project, data) as hf:
        with pytest.raises(RuntimeError, match="already open"):
            await hf.__aenter__()
        assert (await hf.health.get()).healthy


async def test_a_host_can_be_opened_again(project: Path, data: Path, model: ScriptedTransport) -> None:
    """API-402, API-403, API-404: as an application's tests do with its lifespan; streams and registrations work."""
    hf = host(project, data, model)

    def mine() -> str:
        """Mine."""
        return "mine"

    for _ in range(2):
        async with hf, asyncio.timeout(PATIENCE):
            hf.tool(mine)
            session = await hf.sessions.create(model=ECHO)
            async with aclosing(aiter(hf.sessions.events(session.id))) as events:
                await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
                while (await anext(events)).type != ENDED:
                    pass
            await hf.sessions.wait(session.id)

    offered = [{tool["function"]["name"] for tool in request["tools"]} for request in model.requests]
    assert ["mine" in names for names in offered] == [True, True]


def _message_id(event: Event) -> str:
    return str(getattr(event.data, "message_id"))  # noqa: B009


async def _next(stream: AsyncGenerator[Event, None]) -> Event:
    return await anext(stream)


async def _until_ended(hf: Holdfast, session_id: str) -> list[str]:
    types = []
    async with aclosing(aiter(hf.sessions.events(session_id))) as events:
        async for event in events:
            types.append(event.type)
            if event.type == ENDED:
                break
    return types
