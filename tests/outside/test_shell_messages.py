"""Commands that a person runs in a Session: when they run, who is asked, what is kept, and how they end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_servers.support import until_gone
from tests.outside.scripted_provider import PATIENCE, Turn
from tests.outside.world import World, ask, events, of_type, types, until

from holdfast import ApiError, ForkThrough, Holdfast, Options, PromptInput, Session
from holdfast.schema.live_event import PermissionAskedLive, ShellDelta
from holdfast.schema.session_event import ShellEnded, ShellStarted
from holdfast.schema.session_message import ShellMessage

pytestmark = pytest.mark.anyio


async def shell(hf: Holdfast, session: Session, command: str, **options: Any) -> ShellMessage:
    """Run it, and the message it became."""
    async with asyncio.timeout(PATIENCE):
        await hf.sessions.shell(session.id, command=command, **options)
    return (await shells(hf, session))[-1]


async def shells(hf: Holdfast, session: Session) -> list[ShellMessage]:
    return [item for item in await hf.sessions.context(session.id) if isinstance(item, ShellMessage)]


async def refused(hf: Holdfast, session: Session, command: str, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await hf.sessions.shell(session.id, command=command, **options)
    return caught.value


def signal_of(world: World) -> Callable[[], Awaitable[str]]:
    """What a command writes to `begun`, once it does."""
    pipe = world.project / "begun"
    os.mkfifo(pipe)
    return lambda: asyncio.to_thread(pipe.read_text)


async def asked(live: Any) -> PermissionAskedLive:
    """The next permission request."""
    async with asyncio.timeout(PATIENCE):
        while not isinstance(request := (await anext(live)).data, PermissionAskedLive):
            pass
    return request


async def test_a_command_becomes_a_message_that_the_model_reads_in_its_place(world: World) -> None:
    """SES-284, SES-194, SES-153, API-477: started, ended and its status; no turn is taken, and the next request has it
    between the prompts."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        message = await shell(hf, session, "pwd; echo out; echo err >&2", id="msg_shell")
        assert len(world.model.requests) == 1
        recorded = [event.data for event in await events(hf, session)][-2:]
        assert await hf.sessions.active() == {}
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        await ask(hf, session, "two")
        assert await hf.verify() == []

    assert (message.id, message.exit) == ("msg_shell", 0)
    assert message.output == f"{world.project}\nout\nerr\n"
    assert message.time.completed is not None
    started, ended = recorded
    assert isinstance(started, ShellStarted)
    assert isinstance(ended, ShellEnded)
    assert (ended.call_id, ended.exit) == (started.call_id, 0) == (message.call_id, 0)
    said = [text for role, text in world.model.last.said if role == "user"]
    assert said == ["one", f"Shell command: {message.command}\n\n{message.output}", "two"]


async def test_how_a_command_failed_is_part_of_its_output(world: World) -> None:
    """SES-286: its status, a signal, a missing program; nothing written is told."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        failed = await shell(hf, session, "echo half; exit 7")
        killed = await shell(hf, session, "kill -9 $$")
        missing = await shell(hf, session, "surely-no-such-program")
        silent = await shell(hf, session, "true")

    assert (failed.exit, failed.output) == (7, "half\n\n\nCommand exited with code 7.")
    assert killed.exit == 137
    assert "SIGKILL" in killed.output
    assert missing.exit == 127
    assert "surely-no-such-program" in missing.output
    assert (silent.exit, silent.output) == (0, "(no output)")


async def test_output_is_live_and_what_is_kept_is_bounded(world: World) -> None:
    """SES-286: deltas between start and end; a flood is cut in both, and a file has the whole."""
    command = "echo first; read line < go; yes 0123456789 | head -c 3000000"
    os.mkfifo(world.project / "go")
    async with world.host() as hf:
        session = await hf.sessions.create()
        subscribed = asyncio.Event()
        stream = hf.sessions.events(session.id, live=True, replay=False, options=Options(on_heartbeat=subscribed.set))
        seen: list[str] = []

        async def watch() -> None:
            async with aclosing(aiter(stream)) as live:
                async for event in live:
                    if isinstance(event.data, ShellDelta):
                        seen.append(event.data.delta)
                        if seen == ["first\n"]:
                            await asyncio.to_thread((world.project / "go").write_text, "\n")
                    if isinstance(event.data, ShellEnded):
                        return

        async with asyncio.timeout(PATIENCE):
            watching = asyncio.create_task(watch())
            await subscribed.wait()
            message = await shell(hf, session, command)
            await watching

    assert seen[0] == "first\n"
    assert len("".join(seen)) < 300_000
    assert "not shown while the command runs" in seen[-1]
    assert message.exit == 0
    assert len(message.output) <= 52_000
    path = next(word for word in message.output.split() if "tool-output" in word).rstrip(".")
    assert Path(path).stat().st_size > 2_900_000


async def test_binary_and_endless_output_ends_with_an_interruption(world: World) -> None:
    """SES-286, SES-288: what a command without an end wrote is bounded, and all its processes are gone."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        pid = signal_of(world)
        running = asyncio.create_task(hf.sessions.shell(session.id, command="echo $$ > begun; yes | tr y '\\000'"))
        number = int(await pid())
        await hf.sessions.interrupt(session.id)
        async with asyncio.timeout(PATIENCE):
            await running
        (message,) = await shells(hf, session)
        assert await hf.sessions.active() == {}
        assert (await types(hf, session))[-1] == "shell.ended"
        assert (await shell(hf, session, "echo next")).output == "next\n"

    assert message.exit is None
    assert "interrupted" in message.output
    assert len(message.output) < 1000
    await until_gone(number)


async def test_processes_left_in_the_background_end_with_the_command(world: World) -> None:
    """SES-288: the operation does not wait for them."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await shell(hf, session, "(sleep 600 & echo $! > pid); echo done")

    assert message.output == "done\n"
    await until_gone(int((world.project / "pid").read_text()))


async def test_a_command_waits_until_the_session_is_idle(world: World) -> None:
    """SES-284: behind the turn that runs, and before the prompt that comes during it; one at a time."""
    turn, go = asyncio.Event(), world.project / "go"
    os.mkfifo(go)
    world.model.plays(Turn(text="slow", end=turn))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await world.model.asked(1)
        first = asyncio.create_task(hf.sessions.shell(session.id, command="read x < go; echo a >> order; echo A"))
        second = asyncio.create_task(hf.sessions.shell(session.id, command="echo b >> order; echo B"))
        assert "shell.started" not in await types(hf, session)
        turn.set()
        await until(hf, session, of_type("shell.started"))
        (wait,) = await hf.sessions.waits(session.id)
        receipt = await hf.sessions.prompt(session.id, prompt=PromptInput(text="two"))
        assert [item.id for item in await hf.sessions.pending(session.id)] == [receipt.id]
        await asyncio.to_thread(go.write_text, "\n")
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(first, second)
            await hf.sessions.wait(session.id)

    assert "read x" in wait.what
    assert (world.project / "order").read_text() == "a\nb\n"
    kinds = [text.split("\n")[-2] if text.startswith("Shell") else text for _, text in world.model.last.said]
    assert kinds == ["one", "slow", "A", "B", "two"]


async def test_a_command_needs_the_permission_of_a_bash_call(world: World) -> None:
    """SES-285, TOL-412: asked, allowed, denied by a person and by a rule; a denied one leaves nothing behind."""
    rules = [
        {"action": "bash", "resource": "*", "effect": "ask"},
        {"action": "bash", "resource": "rm *", "effect": "deny"},
    ]
    world.configure(permissions=rules)
    async with world.host() as hf, aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        session = await hf.sessions.create()
        rule = await refused(hf, session, "rm hello.txt")
        for reply in ("reject", "once"):
            running = asyncio.create_task(hf.sessions.shell(session.id, command="touch made.txt"))
            request = await asked(live)
            assert not (world.project / "made.txt").exists()
            await hf.permissions.reply(session.id, request_id=request.id, reply=reply)
            if reply == "reject":
                with pytest.raises(ApiError) as denied:
                    await running
        await running
        kinds = await types(hf, session)

    assert (rule.status, rule.code) == (403, "ForbiddenError")
    assert denied.value.status == 403
    assert request.action == "bash"
    assert (world.project / "hello.txt").exists()
    assert (world.project / "made.txt").exists()
    assert kinds == ["shell.started", "shell.ended"]


async def test_an_interruption_withdraws_the_request_of_a_command(world: World) -> None:
    """SES-285, SES-288: nothing was started, so nothing is recorded, and nobody is asked any more."""
    world.configure(permissions=[{"action": "bash", "resource": "*", "effect": "ask"}])
    async with world.host() as hf, aclosing(aiter(hf.events.subscribe())) as live:
        await anext(live)
        session = await hf.sessions.create()
        running = asyncio.create_task(hf.sessions.shell(session.id, command="touch made.txt"))
        await asked(live)
        await hf.sessions.interrupt(session.id)
        with pytest.raises(ApiError) as stopped:
            await running
        assert await hf.permissions.list(session.id) == []
        assert await types(hf, session) == []

    assert stopped.value.status == 409


async def test_one_id_runs_once(world: World) -> None:
    """SES-287: repeated, at once and later; another command or another message with the id is a conflict."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await asyncio.gather(*(hf.sessions.shell(session.id, command="echo x >> ran", id="evt_mine") for _ in "123"))
        await hf.sessions.shell(session.id, command="echo x >> ran", id="msg_mine")
        other = await refused(hf, session, "echo y >> ran", id="msg_mine")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"), id="msg_prompt", resume=False)
        taken = await refused(hf, session, "echo z >> ran", id="msg_prompt")
        with pytest.raises(ApiError) as prompt:
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"), id="msg_mine", resume=False)
        (message,) = await shells(hf, session)

    assert [other.status, taken.status, prompt.value.status] == [409] * 3
    assert message.id == "msg_mine"
    assert (world.project / "ran").read_text() == "x\n"


@pytest.mark.parametrize(
    ("command", "reason"), [("", "empty"), (" \n", "empty"), ("echo \0", "NUL"), ("x" * 100_001, "100000 bytes")]
)
async def test_a_command_that_no_shell_can_run_is_refused(world: World, command: str, reason: str) -> None:
    """SES-289."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        error = await refused(hf, session, command)
        assert await types(hf, session) == []

    assert (error.status, error.body["field"]) == (400, "command")
    assert reason in str(error)


async def test_what_a_shutdown_cut_short_is_recorded(world: World) -> None:
    """SES-288: its end is recorded by the process that ran it, and nothing is run again."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        begun = signal_of(world)
        running = asyncio.create_task(hf.sessions.shell(session.id, command="echo x >> ran; echo > begun; sleep 600"))
        await begun()
    await asyncio.wait({running})
    async with world.host() as hf:
        (message,) = await shells(hf, session)
        await hf.sessions.wait(session.id)

    assert message.time.completed is not None
    assert "interrupted" in message.output
    assert (world.project / "ran").read_text() == "x\n"


async def test_a_running_command_is_not_part_of_a_fork(world: World) -> None:
    """SES-318, SES-284: and the end of the command changes the source alone."""
    begun = signal_of(world)
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        running = asyncio.create_task(shell(hf, session, "echo $$ > begun; sleep 60"))
        await begun()
        fork = await hf.sessions.fork(session.id, boundary=ForkThrough())
        assert await shells(hf, fork) == []
        await hf.sessions.interrupt(session.id)
        await asyncio.wait({running})
        (ended,) = await shells(hf, session)
        assert ended.time.completed is not None
        assert await shells(hf, fork) == []
        later = await hf.sessions.fork(session.id, boundary=ForkThrough())
        assert await shells(hf, later) == [ended]
        assert await hf.verify() == []


async def test_a_staged_revert_stays_staged(world: World) -> None:
    """SES-284: looking at the files is no decision."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        first = (await hf.sessions.context(session.id))[0]
        await hf.sessions.stage_revert(session.id, message_id=first.id)
        await shell(hf, session, "ls")
        assert (await hf.sessions.get(session.id)).revert is not None
        await hf.sessions.commit_revert(session.id)
        assert await shells(hf, session) == []
