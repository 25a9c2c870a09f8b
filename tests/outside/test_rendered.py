"""A conversation as a page shows it, through the API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask
from tests.server.render.allowed import check

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    Entry,
    MarkEntry,
    RenderedCall,
    RenderedReasoning,
    RenderedText,
    ShellEntry,
    UserEntry,
)

pytestmark = pytest.mark.anyio

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> <svg onload=alert(1)>\n\n"
    "[a](javascript:alert(1)) ![b](data:image/svg+xml;base64,PHN2Zz4=) [c](https://x.example 'onclick=1')\n\n"
    "\u202edetrever\u2069 \x1b[31mred\x1b[0m \x00 \u200b\n\n"
    "```html\n</code></pre><script>x</script>\n```\n" + ">" * 10_000 + "\n\n" + "[" * 10_000
)


async def shown(hf: Holdfast, session: Session, **query: Any) -> list[Entry]:
    return (await hf.sessions.rendered(session.id, order="asc", **query)).items


def calls(entries: list[Entry]) -> list[RenderedCall]:
    return [
        part
        for entry in entries
        if isinstance(entry, AssistantEntry)
        for part in entry.parts
        if isinstance(part, RenderedCall)
    ]


async def body(hf: Holdfast, session: Session, index: int = -1) -> tuple[RenderedCall, str]:
    """A call and the text and HTML of its body."""
    entries = [entry for entry in await shown(hf, session) if isinstance(entry, AssistantEntry)]
    pairs = [(entry.id, part) for entry in entries for part in entry.parts if isinstance(part, RenderedCall)]
    message_id, call = pairs[index]
    found = await hf.sessions.rendered_call(session.id, message_id=message_id, call_id=call.id)
    check(found.html)
    return call, found.html


async def test_hostile_text_is_shown_and_does_nothing(world: World) -> None:
    """WEB-100, WEB-101, WEB-103, WEB-104: of the model and of the person."""
    world.model.plays(Turn(text=HOSTILE, reasoning=HOSTILE))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, HOSTILE.replace("\x00", ""))
        user, answer = await shown(hf, session)
        assert isinstance(user, UserEntry)
        assert isinstance(answer, AssistantEntry)
        texts = [part for part in answer.parts if isinstance(part, RenderedText | RenderedReasoning)]
        assert len(texts) == 2
        for html in (user.html, *(part.html for part in texts)):
            text = check(html)
            assert "<script>alert(1)</script>" in text
            assert "U+202E" in text
            assert "javascript:alert(1)" in text


async def test_entries_have_turns_deliveries_and_costs(world: World) -> None:
    """WEB-110: turns are counted from one, over all pages."""
    world.model.plays(calling("read", path="hello.txt"), Turn(text="one"), Turn(text="two"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "first")
        await ask(hf, session, "second", delivery="queue")
        entries = await shown(hf, session)
        answers = [entry for entry in entries if isinstance(entry, AssistantEntry)]
        assert [answer.turn for answer in answers] == [1, 2, 3]
        assert not any(answer.open for answer in answers)
        users = [entry for entry in entries if isinstance(entry, UserEntry)]
        assert [user.delivery for user in users] == ["steer", "queue"]
        assert all(user.admitted is not None and user.admitted <= user.time.created for user in users)
        assert [entry.seq for entry in entries] == sorted(entry.seq for entry in entries)
        newest = (await hf.sessions.rendered(session.id, limit=1)).items[0]
        assert isinstance(newest, AssistantEntry)
        assert newest.turn == 3


async def test_pages_join_without_gap_or_repetition(world: World) -> None:
    """WEB-111: in both directions and both orders, with marks between messages."""
    world.model.always = lambda request: Turn(text="ok")
    async with world.host() as hf:
        session = await hf.sessions.create()
        for number in range(5):
            await ask(hf, session, f"prompt {number}")
        whole = [entry.id for entry in await shown(hf, session)]
        orders: list[tuple[Literal["asc", "desc"], list[str]]] = [("asc", whole), ("desc", whole[::-1])]
        for order, expected in orders:
            seen: list[str] = []
            page = await hf.sessions.rendered(session.id, order=order, limit=3)
            while page.items:
                seen += [entry.id for entry in page.items]
                page = await hf.sessions.rendered(session.id, cursor=page.next)
            assert seen == expected
        first = await hf.sessions.rendered(session.id, limit=3)
        second = await hf.sessions.rendered(session.id, cursor=first.next)
        back = await hf.sessions.rendered(session.id, cursor=second.previous)
        assert [entry.id for entry in back.items] == [entry.id for entry in first.items]
        with pytest.raises(ApiError) as refused:
            await hf.sessions.rendered(session.id, cursor="nonsense")
        assert refused.value.status == 400


async def test_calls_in_one_line(world: World) -> None:
    """WEB-112: what each was called with and how it ended."""
    world.model.plays(
        Turn(
            calls=(
                Call("read", {"path": str(world.project / "hello.txt")}),
                Call("glob", {"pattern": "*.txt"}),
                Call("grep", {"pattern": "hello"}),
                Call("bash", {"command": "printf 'a\\nb\\n'; exit 3"}),
            )
        ),
        Turn(  # calls of one turn run at the same time
            calls=(
                Call("write", {"path": "new.txt", "content": "1\n2\n"}),
                Call("edit", {"path": "hello.txt", "oldString": "hello", "newString": "bye"}),
                Call("edit", {"path": "nothing.txt", "oldString": "a", "newString": "b"}),
                Call("nonsense", {"some": "thing"}),
            )
        ),
        Turn(text="done"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        found = calls(await shown(hf, session))
        lines = [(call.name, call.status, call.title, call.outcome, call.additions, call.deletions) for call in found]
        assert lines == [
            ("read", "completed", "hello.txt", "1 line", None, None),
            ("glob", "completed", "*.txt", "1 file", None, None),
            ("grep", "completed", "hello", "1 match", None, None),
            ("bash", "completed", "printf 'a\\nb\\n'; exit 3", "exit 3", None, None),
            ("write", "completed", "new.txt", "created", 2, 0),
            ("edit", "completed", "hello.txt", None, 1, 1),
            ("edit", "error", "nothing.txt", "failed", None, None),
            ("nonsense", "error", "thing", "failed", None, None),
        ]
        peeks = [call.peek for call in found]
        assert peeks[3] == "a\nb"
        assert "nothing.txt" in (peeks[6] or "")
        assert peeks[0] is None


async def test_bodies_of_calls(world: World) -> None:
    """WEB-102, WEB-105, WEB-113: diffs, terminal output, highlighted code, or JSON and text."""
    world.write("code.py", "def f():\n    return '<b>'\n")
    world.model.plays(
        Turn(
            calls=(
                Call("bash", {"command": "printf '\\033[31mred\\033[0m <i>'"}),
                Call("edit", {"path": "hello.txt", "oldString": "hello", "newString": "<script>"}),
                Call("read", {"path": "code.py"}),
                Call("grep", {"pattern": "world"}),
            )
        ),
        Turn(text="done"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        assert '<pre class="term">red &lt;i&gt;</pre>' in (await body(hf, session, 0))[1]
        diff = (await body(hf, session, 1))[1]
        assert '<tr class="rem"><td class="ln">1</td><td class="ln"></td><td class="cd">hello world</td></tr>' in diff
        assert "&lt;script&gt; world" in diff
        code = (await body(hf, session, 2))[1]
        assert '<span class="hl-k">def</span>' in code
        assert "1: " not in check(code)
        assert "world" in check((await body(hf, session, 3))[1])
        answer = next(entry for entry in await shown(hf, session) if isinstance(entry, AssistantEntry))
        for message_id, call_id in ((answer.id, "call_unknown"), ("msg_unknown", "x")):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.rendered_call(session.id, message_id=message_id, call_id=call_id)
            assert refused.value.status == 404


async def test_a_large_output_is_cut_and_its_file_named(world: World) -> None:
    """WEB-114: the body is bounded, whatever the tool wrote."""
    world.model.plays(
        Turn(calls=(Call("bash", {"command": "head -c 3000000 /dev/zero | tr '\\0' '<'; echo; seq 100000"}),)),
        Turn(calls=(Call("write", {"path": "big.txt", "content": "<line>\n" * 100_000}),)),
        Turn(text="done"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        entries = [entry for entry in await shown(hf, session) if isinstance(entry, AssistantEntry)][:2]
        for entry in entries:
            call = calls([entry])[0]
            found = await hf.sessions.rendered_call(session.id, message_id=entry.id, call_id=call.id)
            check(found.html)
            assert len(found.html.encode()) <= 200_000
            if call.name == "bash":
                assert [Path(path).is_file() for path in found.paths] == [True]


async def test_a_call_that_waits_shows_what_it_would_change(world: World) -> None:
    """WEB-115: without writing it; and why that is not known, if so."""
    world.configure(permission={"edit": "ask"})
    patch = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-hello world\n+bye world\n*** End Patch\n"
    inputs: list[tuple[str, dict[str, Any], str]] = [
        ("write", {"path": "hello.txt", "content": "other\n"}, '<td class="cd">other</td>'),
        ("write", {"path": "fresh.txt", "content": "new\n"}, '<td class="cd">new</td>'),
        ("edit", {"path": "hello.txt", "oldString": "hello", "newString": "bye"}, '<td class="cd">bye world</td>'),
        ("apply_patch", {"patchText": patch}, '<td class="cd">bye world</td>'),
        ("edit", {"path": "hello.txt", "oldString": "absent", "newString": "x"}, "cannot be shown"),
    ]
    async with world.host() as hf:
        for name, given, expected in inputs:
            world.model.plays(calling(name, **given), Turn(text="done"))
            session = await hf.sessions.create()
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            async with asyncio.timeout(PATIENCE):
                while not (requests := await hf.permissions.list(session.id)):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            call, html = await body(hf, session)
            assert (call.status, call.request_id) == ("waiting", requests[0].id)
            assert expected in html
            assert (world.project / "hello.txt").read_text() == "hello world\n"
            await hf.sessions.interrupt(session.id)


async def test_marks_between_messages(world: World) -> None:
    """WEB-116: retries, interruptions, switches, synthetic messages, compactions and commands of a person."""
    world.model.plays(Turn(status=503), Turn(text="after a retry"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "first")
        await hf.sessions.shell(session.id, command="echo '<hi>'")
        await hf.sessions.switch_agent(session.id, agent="plan")
        world.model.plays(Turn(begin=asyncio.Event()))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="second"))
        async with asyncio.timeout(PATIENCE):
            while len(world.model.requests) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await hf.sessions.interrupt(session.id)
        entries = await shown(hf, session)
        marks = [entry.kind for entry in entries if isinstance(entry, MarkEntry)]
        assert "retry" in marks
        assert "agent" in marks
        assert [entry.error for entry in entries if isinstance(entry, AssistantEntry)][
            -1
        ] == "Provider turn interrupted"
        (shell,) = [entry for entry in entries if isinstance(entry, ShellEntry)]
        assert (shell.command, shell.html.strip(), shell.exit) == ("echo '<hi>'", "&lt;hi&gt;", 0)


async def test_a_compaction_is_an_entry(world: World) -> None:
    """WEB-116."""
    world.model.always = lambda request: Turn(text="**many** words " * 500)
    async with world.host() as hf:
        session = await hf.sessions.create()
        for _ in range(12):
            await ask(hf, session, "more words " * 500)
        await hf.sessions.compact(session.id)
        (compaction,) = [entry for entry in await shown(hf, session) if isinstance(entry, CompactionEntry)]
        assert (compaction.reason, compaction.open, compaction.error) == ("manual", False, None)
        assert "many" in check(compaction.html)


async def test_a_conversation_as_it_was(world: World) -> None:
    """WEB-117: the newest entries at a sequence."""
    world.model.plays(Turn(text="one"), Turn(text="two"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "first")
        before = await shown(hf, session)
        seq = (await hf.sessions.log(session.id, limit=1)).items[-1].seq
        await ask(hf, session, "second")
        past = await shown(hf, session, at=seq)
        assert [(entry.id, entry.seq) for entry in past] == [(entry.id, entry.seq) for entry in before]
        assert [entry.html for entry in past if isinstance(entry, UserEntry)] == ["<p>first</p>\n"]


async def test_a_call_names_the_child_that_it_gave_work_to(world: World) -> None:
    """WEB-112."""
    world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (call,) = calls(await shown(hf, session))
        (child,) = (await hf.sessions.list(parent_id=session.id)).items
        assert (call.child_id, call.outcome) == (child.id, "completed")
