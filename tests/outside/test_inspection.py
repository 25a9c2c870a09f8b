"""Looking at a Session: what it asked models and what that cost, where its time went, its log, its past, its files."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.scripted_provider import PATIENCE, Call, Request, Turn, calling
from tests.outside.test_left_behind import client_of, end, in_turn, new_session, until_answered
from tests.outside.world import World, answers, ask, events, tools_of

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.ledger import LedgerEntry
from holdfast.schema.location import Location
from holdfast.schema.past import LogEntry, PastSession
from holdfast.schema.session import ForkThrough
from holdfast.schema.session_message import SessionMessage
from holdfast.schema.timeline import Timeline

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
ASK = [{"action": "edit", "resource": "*", "effect": "ask"}]
COST = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
LIMIT = {"context": 100_000, "output": 4_000}


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def summing_up(request: Request) -> Turn:
    is_summary = "<conversation>" in str(request.messages[0]["content"]) and "tools" not in request.body
    return Turn(text="THE SUMMARY" if is_summary else "done", usage=usage(900, 9))


def configured(world: World, **more: Any) -> None:
    provider = {"mock": world.provider(cost=COST, limit=LIMIT)}
    world.configure(**{"provider": provider, "compaction": {"keep": {"tokens": 20}}, **more})
    world.model.always = summing_up


async def log_of(hf: Holdfast, session: Session, **query: Any) -> list[LogEntry]:
    """The whole log, page by page."""
    found: list[LogEntry] = []
    more = True
    while more:
        after = found[-1].seq if found else 0
        page = await hf.sessions.log(session.id, after=after, limit=7, **query)
        found += page.items
        more = page.has_more
    first = await hf.sessions.log(session.id, before=1, **query)
    return [*first.items, *found]


def data_of(entry: LogEntry) -> bytes:
    assert isinstance(entry.data, msgspec.Raw)
    return bytes(entry.data)


async def head(hf: Holdfast, session: Session) -> int:
    return (await hf.sessions.log(session.id, limit=1)).items[0].seq


async def shown(hf: Holdfast, session: Session) -> list[SessionMessage]:
    return (await hf.sessions.messages(session.id, limit=200, order="asc")).items


async def asked(hf: Holdfast, session: Session) -> str:
    """The request that waits for a person, once there is one."""
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        while not (found := await hf.permissions.list(session.id)):
            await anext(live)
    return found[0].id


class Story:
    """A Session with tools, a permission, queued input, a compaction and a revert; and what clients saw meanwhile."""

    def __init__(self, world: World, hf: Holdfast, session: Session) -> None:
        self.world = world
        self.hf = hf
        self.session = session
        self.seen: dict[int, tuple[Any, ...]] = {}

    async def look(self) -> None:
        """What clients see now, by the sequence that it reaches. Nothing runs meanwhile."""
        hf, id = self.hf, self.session.id
        self.seen[await head(hf, self.session)] = (
            await hf.sessions.get(id),
            tuple(await shown(hf, self.session)),
            tuple(item.id for item in await hf.sessions.inbox(id)),
            tuple(await hf.sessions.todos(id)),
            tuple(request.id for request in await hf.permissions.list(id)),
        )

    async def told(self) -> Session:
        world, hf, id = self.world, self.hf, self.session.id
        await self.look()
        todos = [{"content": "look", "status": "pending", "priority": "high"}]
        world.model.plays(Turn(text="first", usage=usage(1_000, 10)))
        await ask(hf, id, "hello")
        await self.look()
        world.model.plays(
            Turn(calls=(Call("todowrite", {"todos": todos}),), usage=usage(1_200, 10, 900)),
            Turn(calls=(Call("read", {"path": "hello.txt"}),), usage=usage(1_300, 10, 1_200)),
            Turn(text="looked", usage=usage(1_400, 10, 1_300)),
        )
        await ask(hf, id, "look")
        await self.look()
        world.model.plays(
            Turn(calls=(Call("write", {"path": "new.txt", "content": "x\n"}),), usage=usage(1_500, 10, 1_400)),
            Turn(text="written", usage=usage(1_600, 10, 1_500)),
        )
        await hf.sessions.prompt(id, prompt=PromptInput(text="write"), id="msg_write")
        request = await asked(hf, self.session)
        await hf.sessions.prompt(id, prompt=PromptInput(text="later"), delivery="queue")
        await self.look()
        await asyncio.sleep(0.3)
        await hf.permissions.reply(id, request_id=request, reply="once")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(id)
        await self.look()
        await hf.sessions.compact(id)
        await self.look()
        await ask(hf, id, "after")
        await self.look()
        await hf.sessions.stage_revert(id, message_id="msg_write")
        await self.look()
        await hf.sessions.commit_revert(id)
        await self.look()
        await ask(hf, id, "again")
        await self.look()
        return self.session


async def story(world: World, hf: Holdfast) -> Story:
    made = Story(world, hf, await hf.sessions.create())
    await made.told()
    return made


async def test_the_ledger_says_what_each_request_was_and_cost(world: World) -> None:
    """WEB-200, WEB-201, WEB-202, WEB-203: tokens and cost are those of the answers, the causes are those that the
    context tells, and each request has the size that the provider received."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        session = (await story(world, hf)).session
        page = await hf.sessions.ledger(session.id)
        entries = page.items
        assert not page.has_more
        turns = [entry for entry in entries if entry.purpose == "turn"]
        assert [entry.turn for entry in turns] == list(range(1, len(turns) + 1))
        assert len(entries) == len(world.model.requests)
        assert [entry.purpose for entry in entries if entry.purpose != "turn"] == ["compaction"]
        said = {message.id: message for message in answers(await shown(hf, session))}
        known = [entry for entry in turns if entry.message_id in said]
        assert len(known) == len(said) > 3
        for entry in known:
            message = said[str(entry.message_id)]
            assert (entry.tokens, entry.cost, entry.finish) == (message.tokens, message.cost, message.finish)
            assert entry.status == "ended"
            assert entry.first is not None
            assert entry.ended is not None
            assert entry.time <= entry.first <= entry.ended
        assert sum(entry.cost or 0 for entry in entries) == pytest.approx((await hf.sessions.get(session.id)).cost)
        view = await hf.sessions.request_context(session.id)
        assert isinstance(view, RequestContextInfo)
        assert {item.seq: item.causes for item in view.prefix_breaks} == {
            entry.seq: entry.causes for entry in turns if entry.causes
        }
        assert {cause for entry in turns for cause in entry.causes} >= {"compaction", "revert"}
        sent = [request for request in world.model.requests if "tools" in request.body]
        for entry, request, before in zip(turns, sent, [None, *sent], strict=False):
            assert entry.bytes is not None
            assert entry.bytes.total == len(request.raw)
            assert 0 < entry.bytes.baseline <= entry.bytes.system
            assert entry.bytes.system + entry.bytes.tools < entry.bytes.total
            start = entry.bytes.same
            assert (start == 0) == (before is None)
            if before is not None:
                assert request.raw[:start] == before.raw[:start]
            if before is not None and not entry.causes:
                assert start > len(before.raw) - 10
        older = await hf.sessions.ledger(session.id, limit=2, before=turns[4].seq)
        assert older.has_more
        assert older.items == turns[2:4]


@pytest.mark.parametrize("npm", ["@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/google"])
async def test_the_size_is_known_in_every_dialect(world: World, npm: str) -> None:
    """WEB-200, WEB-201: only markers for the cache that move with the conversation are not counted."""
    world.configure(provider={"mock": world.provider(npm, cost=COST, limit=LIMIT)})
    async with world.host() as hf:
        session = await hf.sessions.create()
        for text in ("one", "two"):
            await ask(hf, session, text)
        entries = (await hf.sessions.ledger(session.id)).items
    assert len(entries) == len(world.model.requests) == 2
    for entry, request in zip(entries, world.model.requests, strict=True):
        assert entry.bytes is not None
        plain = request.raw.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        assert len(plain) <= entry.bytes.total <= len(request.raw)
        assert 0 < entry.bytes.baseline < entry.bytes.system
        assert 0 < entry.bytes.total - entry.bytes.system - entry.bytes.tools < 200
    assert entries[1].bytes is not None
    assert entries[1].bytes.same > len(world.model.requests[0].raw) - 300


async def test_a_break_of_the_prefix_has_its_price(world: World) -> None:
    """WEB-204: what was sent again and not read from the cache, at the difference of the prices; nothing where the
    prefix held, and where no price is known."""
    configured(world, agents={"other": {"system": "Be another one."}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(Turn(text="one", usage=usage(10_000, 10)), Turn(text="two", usage=usage(11_000, 10, 10_000)))
        await ask(hf, session, "one")
        await ask(hf, session, "two")
        await hf.sessions.switch_agent(session.id, agent="other")
        world.model.plays(Turn(text="three", usage=usage(12_000, 10, 1_000)))
        await ask(hf, session, "three")
        entries = (await hf.sessions.ledger(session.id)).items
        assert [entry.extra is None for entry in entries] == [True, True, False]
        assert "agent switch" in entries[-1].causes
        assert entries[-1].extra == pytest.approx((11_000 - 1_000) * (3.0 - 0.3) / 1_000_000)
        world.configure(agents={"other": {"system": "Be another one."}})
        await hf.reload()
        assert (await hf.sessions.ledger(session.id)).items[-1].extra is None


async def test_refused_and_failed_requests_are_in_the_ledger(world: World) -> None:
    """WEB-202: each attempt is counted, and a request that led to no answer says why."""
    configured(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(Turn(status=503, headers={"retry-after-ms": "1"}), Turn(text="at last", usage=usage(10, 1)))
        await ask(hf, session, "go")
        world.model.plays(Turn(status=400, error="no"))
        await ask(hf, session, "fail")
        first, second = (await hf.sessions.ledger(session.id)).items
        assert (first.status, first.attempts, first.error) == ("ended", 2, None)
        assert (second.status, second.tokens, second.turn) == ("failed", None, 2)
        assert "no" in str(second.error)
        spans = (await hf.sessions.timeline(session.id)).spans
        assert [span.lane for span in spans] == ["provider", "retry", "provider"]
        assert [span.failed for span in spans] == [False, True, True]


async def test_the_window_adds_up(world: World) -> None:
    """WEB-205: parts add up to what the provider counted; a model that is gone has no limit."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        empty = await hf.sessions.create()
        assert await hf.sessions.window(empty.id) is None
        told = await story(world, hf)
        session, entries = told.session, (await hf.sessions.ledger(told.session.id)).items
        window = await hf.sessions.window(session.id)
        assert window is not None
        assert (window.seq, window.turn, window.estimated) == (entries[-1].seq, entries[-1].turn, False)
        assert window.used == sum(part.tokens for part in window.parts) == 900
        assert sum(part.bytes or 0 for part in window.parts) == len(world.model.last.raw)
        assert (window.limit, window.reserve) == (100_000, 20_000)
        compacted = next(entry for entry in entries if "compaction" in entry.causes)
        then = await hf.sessions.window(session.id, seq=compacted.seq)
        assert then is not None
        assert (then.seq, [part.name for part in then.parts]) == (
            compacted.seq,
            ["agent", "tools", "baseline", "checkpoint", "messages"],
        )
        world.configure(provider={}, model="mock/gone")
        await hf.reload()
        gone = await hf.sessions.window(session.id)
        assert gone is not None
        assert (gone.limit, gone.reserve, gone.used) == (None, None, 900)


async def test_a_request_that_is_under_way_is_estimated(world: World) -> None:
    """WEB-202, WEB-205, WEB-206."""
    configured(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        begin = asyncio.Event()
        world.model.plays(Turn(text="slow", begin=begin))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
        window = await hf.sessions.window(session.id)
        (entry,) = (await hf.sessions.ledger(session.id)).items
        spans = (await hf.sessions.timeline(session.id)).spans
        begin.set()
        await hf.sessions.wait(session.id)
    assert entry.status == "open"
    assert window is not None
    assert window.estimated
    assert window.used == (len(world.model.last.raw) + 2) // 4 == sum(part.tokens for part in window.parts)
    assert [(span.lane, span.end) for span in spans] == [("provider", None)]


def check_time(timeline: Timeline, session: Session) -> None:
    for span in timeline.spans:
        assert span.start >= session.time.created
        assert span.end is None or span.start <= span.end <= timeline.end
        assert span.first is None or span.start <= span.first
        assert span.why.endswith(".")
    assert [span.start for span in timeline.spans] == sorted(span.start for span in timeline.spans)
    assert all(timeline.start <= moment.time <= timeline.end for moment in timeline.moments)


async def test_the_timeline_says_where_the_time_went(world: World) -> None:
    """WEB-206, WEB-207, WEB-209: each request and call once, the wait for a person apart from the call, input that
    waited, and moments; pages cover all of it."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        session = (await story(world, hf)).session
        timeline = await hf.sessions.timeline(session.id)
        check_time(timeline, session)
        entries = [entry for entry in (await hf.sessions.ledger(session.id)).items if entry.purpose == "turn"]
        lanes = {
            lane: [span for span in timeline.spans if span.lane == lane] for lane in ("provider", "tool", "person")
        }
        assert [(span.seq, span.start, span.first, span.turn) for span in lanes["provider"]] == [
            (entry.seq, entry.time, entry.first, entry.turn) for entry in entries
        ]
        assert [span.name for span in lanes["tool"]] == ["todowrite", "read hello.txt", "write new.txt"]
        (person,) = lanes["person"]
        assert person.name == "edit new.txt"
        assert person.end is not None
        assert person.end - person.start >= 300
        assert lanes["tool"][-1].start >= person.end
        assert lanes["tool"][-1].call_id == person.call_id
        (inbox,) = [span for span in timeline.spans if span.lane == "inbox"]
        assert inbox.name == "queue"
        assert [span.lane for span in timeline.spans].count("compaction") == 1
        kinds = [moment.kind for moment in timeline.moments]
        assert kinds.count("prompt") == 6
        assert kinds.count("revert") == 1
        assert kinds.count("prefix") == sum(bool(entry.causes) for entry in entries)
        for limit in (1, 4):
            page = await hf.sessions.timeline(session.id, limit=limit)
            pages, moments = [*page.spans], [*page.moments]
            while page.more:
                before = min(span.seq for span in page.spans)
                page = await hf.sessions.timeline(session.id, limit=limit, before=before)
                check_time(page, session)
                pages += page.spans
                moments += page.moments
            assert sorted((span.seq, span.lane, span.start, span.end) for span in pages) == sorted(
                (span.seq, span.lane, span.start, span.end) for span in timeline.spans
            )
            assert sorted(moment.seq for moment in moments) == [moment.seq for moment in timeline.moments]
        assert not timeline.more


async def test_a_wait_that_lasts_has_no_end(world: World) -> None:
    """WEB-207: while a person is asked, the call is not at work."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(calling("write", path="new.txt", content="x\n"))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        request = await asked(hf, session)
        spans = (await hf.sessions.timeline(session.id)).spans
        assert [(span.lane, span.end is None) for span in spans if span.lane != "provider"] == [("person", True)]
        await hf.permissions.reply(session.id, request_id=request, reply="reject")
        await hf.sessions.wait(session.id)
        after = await hf.sessions.timeline(session.id)
    (person,) = [span for span in after.spans if span.lane == "person"]
    assert person.end is not None
    assert "reject" in person.why


async def test_a_shutdown_and_the_process_after_it_are_told_apart(world: World) -> None:
    """WEB-208: no process worked on it in between."""
    configured(world)
    begin = asyncio.Event()
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(Turn(text="never", begin=begin))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
    await asyncio.sleep(0.05)
    begin.set()
    async with world.host() as hf:
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        timeline = await hf.sessions.timeline(session.id)
        check_time(timeline, session)
    (owner,) = [span for span in timeline.spans if span.lane == "owner"]
    assert owner.end is not None
    assert owner.end - owner.start >= 50
    assert {moment.kind for moment in timeline.moments} >= {"suspended", "recovered"}


async def test_the_end_of_a_process_is_a_gap(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """WEB-203, WEB-208: after `kill -9` the request led to no answer, and nobody worked until the next process asked
    again."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "retry": {"total_seconds": 0}})
    in_turn(provider, provider.hang)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        assert await asyncio.to_thread(provider.asked.acquire, timeout=PATIENCE)
    end(server, signal.SIGKILL)
    in_turn(provider, Provider.answer)
    async with client_of(serve(), holdfast) as client:
        await until_answered(client, session_id)
        timeline = await client.sessions.timeline(session_id)
        entries = (await client.sessions.ledger(session_id)).items
        first, second = (entry for entry in entries if entry.purpose == "turn")
        check_time(timeline, await client.sessions.get(session_id))
    assert [(entry.turn, entry.status) for entry in (first, second)] == [(1, "abandoned"), (1, "ended")]
    (gap,) = [span for span in timeline.spans if span.lane == "owner"]
    assert gap.end is not None
    assert first.time <= gap.start < gap.end <= second.time
    assert next(span.end for span in timeline.spans if span.lane == "provider") == gap.start
    assert [moment.kind for moment in timeline.moments][:3] == ["prompt", "crash", "recovered"]


async def test_the_log_has_every_event_once(world: World) -> None:
    """WEB-210: private ones too; pages are filtered by type and by text."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        session = (await story(world, hf)).session
        entries = await log_of(hf, session)
        assert [entry.seq for entry in entries] == list(range(len(entries)))
        public = [entry for entry in entries if entry.public]
        assert [entry.id for entry in public] == [event.id for event in await events(hf, session)]
        assert all(entry.size == len(data_of(entry)) for entry in entries)
        times = [entry.time for entry in entries]
        assert min(times) >= session.time.created
        newest = await hf.sessions.log(session.id, limit=3)
        assert (newest.items, newest.has_more) == (entries[-3:], True)
        between = await hf.sessions.log(session.id, after=2, before=6)
        assert (between.items, between.has_more) == (entries[3:6], False)
        tools = await log_of(hf, session, types="session.next.tool.called, session.next.turn")
        assert {entry.type.split(".")[2] for entry in tools} == {"tool", "turn"}
        assert tools == [entry for entry in entries if entry in tools]
        found = await log_of(hf, session, search="HELLO.txt")
        assert found
        assert all(b"hello.txt" in data_of(entry).lower() for entry in found)
        one = await hf.sessions.log_entry(session.id, seq=entries[5].seq)
        assert one == entries[5]


async def test_a_large_event_comes_whole_when_it_is_asked_for(world: World) -> None:
    """WEB-211."""
    configured(world)
    long = "long " * 20_000
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, long)
        entries = await log_of(hf, session, types="session.next.prompted")
        (entry,) = entries
        assert entry.data is msgspec.UNSET
        assert entry.size > len(long)
        assert entry.time > 0
        whole = await hf.sessions.log_entry(session.id, seq=entry.seq)
        data = data_of(whole)
        assert len(data) == entry.size
        assert json.loads(data)["prompt"]["text"] == long


async def test_what_is_searched_for_is_text_and_nothing_else(world: World) -> None:
    """WEB-212: wildcards, quotes and letters of any case mean themselves; too much is refused."""
    configured(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, 'He said "100% of a_b" \\ in ÄÖ\n')

        async def count(text: str) -> int:
            return len(await log_of(hf, session, search=text, types="session.next.prompted"))

        for text in ('"100% OF a_b"', "äö", "ÄÖ", "a_B", "100%", "\\ in", "ö\n", "PROMPTED"):
            assert await count(text) == 1, text
        for text in ("100_", "a%b", "%", "__", "\x00", "' or 1=1 --", "' OR ''='"):
            expected = 1 if text == "%" else 0
            assert await count(text) == expected, text
        for query in (
            {"limit": 0},
            {"limit": -1},
            {"limit": 501},
            {"limit": 2**70},
            {"after": -1},
            {"before": -1},
            {"search": "x" * 1_001},
            {"types": "a," * 101},
        ):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.log(session.id, **query)
            assert refused.value.status == 400, query
        for call in (hf.sessions.past, hf.sessions.log_entry):
            for seq in (10**6, 2**53 - 1):
                with pytest.raises(ApiError) as missing:
                    await call(session.id, seq=seq)
                assert missing.value.code == "NotFoundError"
            with pytest.raises(ApiError) as negative:
                await call(session.id, seq=-1)
            assert negative.value.status == 400
        with pytest.raises(ApiError) as unknown:
            await hf.sessions.ledger("ses_unknown")
        assert unknown.value.code == "SessionNotFoundError"


async def test_the_past_is_what_clients_saw_then(world: World) -> None:
    """WEB-215: the Session, its messages, what waited, the todos and the open requests, at every moment that was
    looked at; also of messages that left the conversation since."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        told = await story(world, hf)
        assert len(told.seen) >= 8
        for seq, seen in told.seen.items():
            past = await hf.sessions.past(told.session.id, seq=seq, limit=1_000)
            pending = tuple(item.id for item in past.pending)
            assert (past.session, past.messages, pending, past.todos, past.requests) == seen, seq
            assert (past.seq, past.more) == (seq, False)
        times = [(await hf.sessions.past(told.session.id, seq=seq)).time for seq in sorted(told.seen)]
        assert times == sorted(times)
        last = max(told.seen)
        newest = await hf.sessions.past(told.session.id, seq=last, limit=2)
        assert (newest.messages, newest.more) == (tuple(told.seen[last][1][-2:]), True)


async def test_the_past_of_a_fork_has_what_it_shares(world: World) -> None:
    """WEB-216: also when the source gave these messages up, and before the fork went back into them itself."""
    configured(world)
    async with world.host() as hf:
        source = await hf.sessions.create()
        for text in ("one", "two", "three"):
            await ask(hf, source, text, id=f"msg_{text}")
        fork = await hf.sessions.fork(source.id, boundary=ForkThrough())
        await ask(hf, fork, "four")
        then, before = await head(hf, fork), await shown(hf, fork)
        await hf.sessions.stage_revert(fork.id, message_id="msg_two")
        await hf.sessions.commit_revert(fork.id)
        await hf.sessions.stage_revert(source.id, message_id="msg_one")
        await hf.sessions.commit_revert(source.id)
        assert len(await shown(hf, fork)) < len(before)
        past = await hf.sessions.past(fork.id, seq=then)
        assert list(past.messages) == before
        again = await hf.sessions.fork(fork.id, boundary=ForkThrough())
        assert list((await hf.sessions.past(again.id, seq=await head(hf, again))).messages) == await shown(hf, again)
        with pytest.raises(ApiError):
            await hf.sessions.past(fork.id, seq=0)


def counts(changes: Any) -> list[tuple[str, str, int, int]]:
    return [(file.path, file.status, file.additions, file.deletions) for file in changes.files]


async def test_the_changed_files_are_compared_with_the_beginning(world: World) -> None:
    """WEB-220: what all steps did together; files that only a person changed are not among them."""
    world.repository()
    configured(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert await hf.sessions.changes(session.id) == (await hf.sessions.changes(session.id))
        assert (await hf.sessions.changes(session.id)).complete
        world.model.plays(calling("write", path="one.txt", content="1\n"))
        await ask(hf, session, "write")
        world.write("mine.txt", "mine\n")
        world.model.plays(calling("bash", command="echo 2 >> one.txt; rm hello.txt"), calling("read", path="one.txt"))
        await ask(hf, session, "go on")
        changes = await hf.sessions.changes(session.id)
        assert counts(changes) == [("hello.txt", "deleted", 0, 1), ("one.txt", "added", 2, 0)]
        assert (changes.complete, changes.note) == (True, None)
        assert "+2" in changes.files[1].patch


async def test_without_stored_trees_the_calls_say_what_they_changed(world: World) -> None:
    """WEB-221: and that something may be missing."""
    configured(world)
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(
            calling("write", path="one.txt", content="1\n"),
            calling("edit", path="one.txt", oldString="1", newString="2"),
            calling("edit", path="hello.txt", oldString="hello", newString="bye"),
        )
        await ask(hf, session, "write")
        used = [part.name for message in answers(await shown(hf, session)) for part in tools_of(message)]
        assert used == ["write", "edit", "edit"]
        changes = await hf.sessions.changes(session.id)
    assert counts(changes) == [("one.txt", "added", 2, 1), ("hello.txt", "modified", 1, 1)]
    assert not changes.complete
    assert "commands" in str(changes.note)


async def test_a_session_whose_directory_is_gone_can_still_be_looked_at(world: World) -> None:
    """WEB-205, WEB-221: what its files or its configuration would say is missing, and nothing fails."""
    configured(world)
    place = world.home / "elsewhere"
    place.mkdir()
    world.git("init", "-q", cwd=place)
    async with world.host() as hf:
        session = await hf.sessions.create(location=Location(directory=str(place)))
        world.model.plays(Turn(calls=(Call("write", {"path": "one.txt", "content": "1\n"}),), usage=usage(10, 1)))
        await ask(hf, session, "write")
        ledger = (await hf.sessions.ledger(session.id)).items
    shutil.rmtree(place)
    shutil.rmtree(world.data / "snapshots", ignore_errors=True)
    async with world.host() as hf:
        changes = await hf.sessions.changes(session.id)
        assert counts(changes) == [("one.txt", "added", 1, 0)]
        assert not changes.complete
        assert (await hf.sessions.ledger(session.id)).items == ledger
        assert await hf.sessions.window(session.id) is not None
        assert (await hf.sessions.timeline(session.id)).spans
        assert (await hf.sessions.past(session.id, seq=await head(hf, session))).messages


async def test_nothing_of_it_changes_the_session(world: World) -> None:
    """WEB-223."""
    configured(world, permissions=ASK)
    async with world.host() as hf:
        session = (await story(world, hf)).session
        before = await head(hf, session)
        entries: list[LedgerEntry] = (await hf.sessions.ledger(session.id)).items
        past: PastSession = await hf.sessions.past(session.id, seq=entries[0].seq)
        await asyncio.gather(
            hf.sessions.window(session.id), hf.sessions.timeline(session.id), hf.sessions.changes(session.id)
        )
        assert past.seq == entries[0].seq
        assert await head(hf, session) == before
        assert await hf.verify() == []
