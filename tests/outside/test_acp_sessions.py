"""Sessions in an editor: the official client of the Agent Client Protocol over every method of `holdfast acp`."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from tests.cli.conftest import HOLDFAST
from tests.outside.acp_editor import Editor, acp_environment, editor
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.world import World

from acp import embedded_text_resource, image_block, resource_link_block, text_block

pytestmark = pytest.mark.anyio

IMAGE = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()


async def test_a_prompt_is_answered_with_its_text_calls_and_usage(world: World) -> None:
    """ACP-001, ACP-010, ACP-020, ACP-021, ACP-030: initialize, new session, prompt, stop reason, usage."""
    world.configure(provider={"mock": world.provider(limit={"context": 100_000, "output": 1000})})
    usage = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}
    world.model.plays(
        Turn(text="Let me look.", reasoning="A file.", calls=(Call("read", {"path": "hello.txt"}),)),
        Turn(text="It says hello.", usage=usage),
    )
    async with editor(world) as ed:
        session = await ed.open(world)
        answer = await ed.connection.prompt(session_id=session, prompt=[text_block("What does it say?")])
        assert answer.stop_reason == "end_turn"
        assert answer.usage is not None
        assert answer.usage.output_tokens >= 7
        assert ed.text() == "Let me look.It says hello."
        assert ed.text("agent_thought_chunk") == "A file."
        [call] = ed.calls().values()
        assert (call["kind"], call["status"], call["title"]) == ("read", "completed", "read hello.txt")
        assert call["locations"] == [{"path": str(world.project.resolve() / "hello.txt")}]
        assert "hello world" in call["content"][0]["content"]["text"]
        assert call["rawInput"] == {"path": "hello.txt"}
        used = ed.of("usage_update")[-1]
        assert used["size"] == 100_000
        assert 0 < used["used"] < 100_000
        assert ed.of("user_message_chunk") == []  # the editor shows its own prompts


async def test_sessions_are_listed_and_loaded_whole_after_the_editor_restarts(world: World) -> None:
    """ACP-011, ACP-012, ACP-040: load sends prompts, answers, reasoning and calls before it answers."""
    world.model.plays(
        Turn(text="One.", reasoning="Hm.", calls=(Call("read", {"path": "hello.txt"}),)), Turn(text="Two.")
    )
    async with editor(world) as ed:
        session = await ed.open(world)
        await ed.prompt(session, "First question")
    async with editor(world) as ed:
        listed = await ed.connection.list_sessions(cwd=str(world.project))
        [found] = listed.sessions
        assert (found.session_id, found.cwd) == (session, str(world.project.resolve()))
        assert found.updated_at is not None
        assert (await ed.connection.list_sessions(cwd=str(world.home))).sessions == []
        loaded = await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert loaded is not None
        assert loaded.modes is not None
        assert ed.text("user_message_chunk") == "First question"
        assert ed.text("agent_thought_chunk") == "Hm."
        assert ed.text() == "One.Two."
        [call] = ed.calls().values()
        assert (call["status"], call["kind"]) == ("completed", "read")
        kinds = [update["sessionUpdate"] for _, update in ed.updates]
        assert kinds[:4] == ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call"]

        world.model.plays(Turn(text="Three."))
        ed.forget()
        assert await ed.prompt(session, "And then?") == "end_turn"
        assert ed.text() == "Three."


async def test_after_kill_9_in_the_middle_of_a_turn_the_conversation_is_loaded_and_goes_on(world: World) -> None:
    """ACP-040, ACP-041"""
    held = asyncio.Event()
    world.model.plays(
        Turn(text="Before.", calls=(Call("read", {"path": "hello.txt"}),)), Turn(text="Never.", begin=held)
    )
    async with editor(world) as ed:
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Work"))
        await world.model.asked(2)
        ed.process.kill()
        with pytest.raises(ConnectionError):
            await running
    held.set()
    world.model.plays(Turn(text="After."))
    async with editor(world) as ed:
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert ed.text("user_message_chunk") == "Work"
        assert "Before." in ed.text()
        [call] = ed.calls().values()
        assert call["status"] == "completed"
        assert await ed.prompt(session, "Go on") == "end_turn"
        assert "After." in ed.text()


async def test_two_editors_on_one_session_both_see_everything(world: World) -> None:
    """ACP-042, ACP-043: prompts are shown to the other; a request is asked in both, and the first answer counts."""
    world.configure(permission={"edit": "ask"})
    world.model.plays(calling("write", path="new.txt", content="x\n"), Turn(text="Written."))
    async with editor(world) as first, editor(world) as second:
        session = await first.open(world)
        await second.connection.resume_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        first.answering.clear()
        second.answering.clear()
        writing = asyncio.create_task(first.prompt(session, "Write it"))
        await first.until(lambda: first.asked)
        await second.until(lambda: second.asked)
        first.answering.set()
        assert await writing == "end_turn"
        await second.until(lambda: "Written." in second.text())
        assert second.text("user_message_chunk") == "Write it"
        assert [one["toolCall"]["toolCallId"] for one in second.asked] == [
            one["toolCall"]["toolCallId"] for one in first.asked
        ]
        second.answering.set()  # too late, and harmless
        world.model.plays(Turn(text="Mine."))
        assert await second.prompt(session, "And me?") == "end_turn"
        await first.until(lambda: "Mine." in first.text())
        assert first.text("user_message_chunk") == "And me?"


async def test_a_session_is_forked_closed_and_deleted(world: World) -> None:
    """ACP-013, ACP-014, ACP-015"""
    world.model.plays(Turn(text="One."), Turn(text="Two."))
    async with editor(world) as ed:
        session = await ed.open(world)
        await ed.prompt(session, "First")
        fork = await ed.connection.fork_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert fork.session_id != session
        assert await ed.prompt(fork.session_id, "Second") == "end_turn"
        assert [role for role, _ in world.model.last.said] == ["user", "assistant", "user"]
        await ed.connection.close_session(session_id=session)
        with pytest.raises(RequestError, match="not open"):
            await ed.prompt(session, "Closed")
        await _call(ed, "session/delete", sessionId=fork.session_id)
        listed = await ed.connection.list_sessions(cwd=str(world.project))
        assert [one.session_id for one in listed.sessions] == [session]


async def test_agent_model_and_variant_are_chosen_in_the_editor_and_told_to_the_other_one(world: World) -> None:
    """ACP-050, ACP-051: modes, options, set_mode, set_config_option, set_model; another editor is told."""
    world.configure(
        provider={
            "mock": {
                **world.provider(),
                "models": {
                    "m": {"tool_call": True},
                    "n": {"tool_call": True, "variants": {"high": {"effort": "high"}}},
                },
            }
        }
    )
    async with editor(world) as ed, editor(world) as other:
        made = await ed.connection.new_session(cwd=str(world.project), mcp_servers=[])
        session = made.session_id
        await other.connection.resume_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert made.modes is not None
        assert made.modes.current_mode_id == "build"
        assert {"build", "plan"} <= {mode.id for mode in made.modes.available_modes}
        await ed.connection.set_session_mode(session_id=session, mode_id="plan")
        await other.until(lambda: other.of("current_mode_update"))
        assert other.of("current_mode_update")[-1]["currentModeId"] == "plan"

        changed = await ed.connection.set_config_option(config_id="model", session_id=session, value="mock/n")
        assert changed is not None
        options = {option.id: option for option in changed.config_options}
        assert options["model"].current_value == "mock/n"
        assert options["model"].category == "model"
        assert options["mode"].current_value == "plan"
        changed = await ed.connection.set_config_option(config_id="variant", session_id=session, value="high")
        assert changed is not None
        assert {option.id: option.current_value for option in changed.config_options}["variant"] == "high"
        await other.until(lambda: any("high" in json.dumps(one) for one in other.of("config_option_update")))
        await _call(ed, "session/set_model", sessionId=session, modelId="mock/m")
        for config, value in (("model", "mock/none"), ("mode", "none"), ("colour", "red"), ("variant", "low")):
            with pytest.raises(RequestError, match=r"no |none"):
                await ed.connection.set_config_option(config_id=config, session_id=session, value=value)


async def test_images_files_and_resources_reach_the_model(world: World) -> None:
    """ACP-022"""
    world.configure(provider={"mock": world.provider(modalities={"input": ["text", "image"], "output": ["text"]})})
    linked = world.write("linked.txt", "linked content\n")
    async with editor(world) as ed:
        session = await ed.open(world)
        blocks = [
            text_block("Look at"),
            image_block(IMAGE, "image/png"),
            resource_link_block("linked.txt", linked.as_uri()),
            embedded_text_resource_block("file:///elsewhere/buffer.py", "unsaved = True"),
            resource_link_block("Manual", "https://example.org/manual"),
        ]
        answer = await ed.connection.prompt(session_id=session, prompt=blocks)
        assert answer.stop_reason == "end_turn"
        sent = json.dumps(world.model.last.body)
        assert "linked content" in sent
        assert "unsaved = True" in sent
        assert "https://example.org/manual" in sent
        assert "data:image/png;base64," in sent
        with pytest.raises(RequestError, match="audio"):
            await _call(
                ed,
                "session/prompt",
                sessionId=session,
                prompt=[{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}],
            )


def embedded_text_resource_block(uri: str, text: str) -> Any:
    from acp import resource_block

    return resource_block(embedded_text_resource(uri, text))


async def test_commands_and_skills_are_offered_and_called_with_a_slash(world: World) -> None:
    """ACP-052"""
    world.configure(command={"greet": {"template": "Say hello to $ARGUMENTS", "description": "Greets"}})
    skill = world.project / ".opencode" / "skills" / "knots" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: knots\ndescription: About knots\n---\nTie a bowline.\n", encoding="utf-8")
    async with editor(world) as ed:
        session = await ed.open(world)
        [offered] = await ed.until(lambda: ed.of("available_commands_update"))
        names = {one["name"]: one["description"] for one in offered["availableCommands"]}
        assert names["greet"] == "Greets"
        assert {"knots", "compact"} <= set(names)
        await ed.prompt(session, "/greet Ada")
        assert "Say hello to Ada" in json.dumps(world.model.last.said)
        await ed.prompt(session, "/knots which one?")
        assert "Tie a bowline." in json.dumps(world.model.last.said)
        await ed.prompt(session, "/etc/hosts is a file")
        assert "/etc/hosts is a file" in json.dumps(world.model.last.said)


async def test_a_session_belongs_to_its_directory_and_what_cannot_be_honoured_is_refused(world: World) -> None:
    """ACP-016, ACP-060"""
    async with editor(world) as ed:
        session = await ed.open(world)
        elsewhere = world.home / "elsewhere"
        elsewhere.mkdir()
        for cwd, complaint in (("relative", "absolute"), (str(world.home / "none"), "not a directory")):
            with pytest.raises(RequestError, match=complaint):
                await ed.connection.new_session(cwd=cwd, mcp_servers=[])
        with pytest.raises(RequestError, match="belongs to"):
            await ed.connection.load_session(cwd=str(elsewhere), session_id=session, mcp_servers=[])
        with pytest.raises(RequestError, match="There is no session"):
            await ed.connection.load_session(cwd=str(elsewhere), session_id="ses_none", mcp_servers=[])
        with pytest.raises(RequestError, match="additional directories"):
            await ed.connection.new_session(
                cwd=str(world.project), additional_directories=[str(elsewhere)], mcp_servers=[]
            )
        with pytest.raises(RequestError, match="not open"):
            await ed.prompt("ses_unknown", "x")


async def test_a_failing_provider_fails_the_prompt_with_its_reason(world: World) -> None:
    """ACP-024"""
    world.configure(holdfast={"titles": False, "retry": {"total_seconds": 0}})
    world.model.plays(Turn(status=400, error="the model is on strike"), Turn(text="Cut", finish="length"))
    async with editor(world) as ed:
        session = await ed.open(world)
        with pytest.raises(RequestError, match="on strike"):
            await ed.prompt(session, "x")
        assert await ed.prompt(session, "again") == "max_tokens"


async def test_a_session_of_an_editor_is_one_of_every_other_client(world: World) -> None:
    """ACP-017: no port is opened; the command line sees the Session, and the editor loads one of the command line."""
    world.model.plays(Turn(text="From the editor."), Turn(text="From a program."))
    async with editor(world) as ed:
        session = await ed.open(world)
        await ed.prompt(session, "one")
        process = await asyncio.create_subprocess_exec(
            HOLDFAST, "sessions", "--json", cwd=world.project, env=acp_environment(world), stdout=-1
        )
        out, _ = await process.communicate()
        assert session in out.decode()
        async with world.host(recover=False) as host:
            answer = await host.run("two")
        await ed.connection.load_session(cwd=str(world.project), session_id=answer.session.id, mcp_servers=[])
        assert ed.text(session_id=answer.session.id) == "From a program."
        sockets = Path(f"/proc/{ed.process.pid}/net/tcp")
        listening = {line.split()[9] for line in sockets.read_text().splitlines()[1:] if line.split()[3] == "0A"}
        own = {
            target.removeprefix("socket:[").removesuffix("]")
            for link in Path(f"/proc/{ed.process.pid}/fd").iterdir()
            if (target := str(link.readlink())).startswith("socket:")
        }
        assert not listening & own


async def _call(ed: Editor, method: str, **params: Any) -> Any:
    """A method that the official client has no function for."""
    async with asyncio.timeout(PATIENCE):
        return await ed.connection._conn.send_request(method, params)
