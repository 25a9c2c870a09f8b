"""What a user adds in Python and in Markdown: plugins and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine, Ran
from tests.outside.scripted_provider import PATIENCE
from tests.outside.world import World, ask

from holdfast import Holdfast, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.live_event import PluginAdded
from holdfast.schema.session_message import UserMessage

ECHO = ("run", "--model", "demo/echo")

PLUGIN = """
from holdfast import JsonCodec, Source


class Acme:
    id = "Acme"

    async def setup(self, host):
        name = host.options.get("name", "acme")
        host.agent.transform(lambda draft: draft.update(name, lambda agent: agent))
        host.context.register(
            Source(
                key=host.context.namespace + "fact",
                codec=JsonCodec(str),
                load=weather,
                baseline=lambda value: f"The weather is {value}.",
                update=lambda _, value: f"The weather is now {value}.",
                removed=lambda _: "The weather is no longer known.",
            )
        )
        host.request.transform(hook)


async def weather():
    return "sunny"


def hook(request):
    request.headers["x-acme"] = request.agent
    request.system.append("Said by Acme.")


plugin = Acme()
"""
BROKEN_HOOK = """
class Bad:
    id = "bad"

    def setup(self, host):
        host.request.transform(fail)
        host.agent.transform(fail)


def fail(given):
    raise RuntimeError("of the plugin")


plugin = Bad()
"""


def plugin(world: World, name: str, text: str, folder: Path | None = None) -> Path:
    path = (folder or world.user_folder / "plugin") / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@asynccontextmanager
async def opened(world: World, *ids: str, **options: Any) -> AsyncIterator[Holdfast]:
    """A host whose plugins are active."""
    async with (
        world.host(**options) as hf,
        aclosing(aiter(hf.events.subscribe())) as live,
    ):
        await anext(live)
        await hf.agents.list()
        waited = set(ids)
        async with asyncio.timeout(PATIENCE):
            while waited:
                event = await anext(live)
                if isinstance(event.data, PluginAdded):
                    waited.discard(event.data.id)
        yield hf


async def agents(hf: Holdfast) -> set[str]:
    return {agent.id for agent in (await hf.agents.list()).data}


@pytest.mark.anyio
async def test_a_plugin_adds_agents_facts_and_words_and_is_gone_when_it_is_gone(world: World) -> None:
    """CAT-146, CAT-147, CAT-148, CAT-150, CTX-160, CTX-162, CTX-164: named by a document with options, or lying in the
    folder; what it says follows the baseline and cannot change it; without the plugin the model hears that its facts
    are gone, and nothing else is left."""
    path = plugin(world, "named", PLUGIN, world.user_folder)
    world.configure(plugins=[{"package": "./named.py", "options": {"name": "chosen"}}, "./absent.py"])
    async with opened(world, "Acme") as hf:
        assert "chosen" in await agents(hf)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
    first = world.model.last
    assert first.headers["x-acme"] == "build"
    assert first.system.index("Today's date") < first.system.index("The weather is sunny.")
    assert first.system.index("The weather is sunny.") < first.system.index("Said by Acme.")
    path.unlink()
    world.configure()
    async with world.host() as hf:
        assert "chosen" not in await agents(hf)
        await ask(hf, session, "two")
    second = world.model.last
    assert "x-acme" not in second.headers
    assert "Said by Acme." not in second.system
    assert "The weather is sunny." in second.system
    assert "The weather is no longer known." in str(second.said[-1])


REDACTING = """
from msgspec.structs import replace


class Redacting:
    id = "redacting"

    def setup(self, host):
        host.request.transform(redact)


def redact(request):
    request.messages = [
        replace(message, content=tuple(without_secret(part) for part in message.content))
        for message in request.messages
    ]
    request.headers["x-purpose"] = request.purpose


def without_secret(part):
    return replace(part, text=part.text.replace("secret-7", "[removed]")) if hasattr(part, "text") else part


plugin = Redacting()
"""
REMINDING = """
from holdfast.llm.request import user


class Reminding:
    id = "reminding"

    def setup(self, host):
        host.request.transform(remind)


def remind(request):
    if request.purpose == "turn":
        request.messages = [*request.messages, user("Be brief.")]


plugin = Reminding()
"""


async def breaks(hf: Holdfast, session: Session) -> list[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Oldest first."""
    context = await hf.sessions.request_context(session.id)
    assert isinstance(context, RequestContextInfo)
    return [(found.causes, found.plugins) for found in reversed(context.prefix_breaks)]


@pytest.mark.anyio
async def test_a_plugin_changes_what_the_model_reads_and_nothing_that_is_stored(world: World) -> None:
    """CAT-236: over several turns and a restart. The same result for the same messages leaves the prefix whole."""
    plugin(world, "redacting", REDACTING)
    async with opened(world, "redacting") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "the password is secret-7")
        await ask(hf, session, "what is it?")
    async with opened(world, "redacting") as hf:
        await ask(hf, session, "again?")
        assert await breaks(hf, session) == []
        first = (await hf.sessions.context(session.id))[0]
    assert "secret-7" not in str([request.body for request in world.model.requests])
    assert "the password is [removed]" in str(world.model.last.said[0])
    assert isinstance(first, UserMessage)
    assert first.text == "the password is secret-7"


@pytest.mark.anyio
async def test_a_plugin_that_breaks_the_prefix_is_named(world: World) -> None:
    """CAT-236, SES-213: a reminder at the end of each request, and its removal."""
    plugin(world, "reminding", REMINDING)
    async with opened(world, "reminding") as hf:
        session = await hf.sessions.create()
        for text in ("one", "two"):
            await ask(hf, session, text)
            assert "Be brief." in str(world.model.last.said[-1])
        assert await breaks(hf, session) == [(("hook",), ("reminding",))]
    world.environment["OPENCODE_PURE"] = "true"
    async with world.host() as hf:
        await ask(hf, session, "three")
        assert await breaks(hf, session) == 2 * [(("hook",), ("reminding",))]


@pytest.mark.anyio
async def test_the_runtime_s_own_requests_pass_the_hooks(world: World) -> None:
    """CAT-237: a summary, a title, and an answer outside the conversation."""
    plugin(world, "redacting", REDACTING)
    settings = {"holdfast": {"titles": True}, "compaction": {"keep": {"tokens": 0}}}
    world.configure(**settings, agent={"title": {"model": "mock/m"}})
    async with opened(world, "redacting") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "the password is secret-7 " + "and more " * 400)
        await hf.sessions.compact(session.id)
        await world.model.asked(3)
        await hf.sessions.generate(session.id, prompt="Is it still secret-7?")
    purposes = [request.headers["x-purpose"] for request in world.model.requests]
    assert sorted(purposes) == ["generate", "summary", "title", "turn"]
    assert "secret-7" not in str([request.body for request in world.model.requests])


@pytest.mark.anyio
async def test_a_plugin_that_fails_hurts_only_itself(world: World) -> None:
    """CAT-146, CAT-149, CAT-150, CTX-163: one that cannot be loaded, and one whose code raises later; the others work
    and turns go on."""
    plugin(world, "a_syntax", "def")
    plugin(world, "b_raises", BROKEN_HOOK)
    plugin(world, "c_fine", PLUGIN)
    async with opened(world, "bad", "Acme") as hf:
        assert {"acme", "build"} <= await agents(hf)
        session = await hf.sessions.create()
        await ask(hf, session, "one")
    assert world.model.last.headers["x-acme"] == "build"


@pytest.mark.anyio
async def test_plugins_can_be_left_out(world: World) -> None:
    """CAT-013, CAT-147: by a switch; and those of a project that nobody trusts are not run."""
    marker = world.home / "ran"
    code = f"open({str(marker)!r}, 'w').close()\n"
    plugin(world, "evil", code + PLUGIN, world.project / ".opencode" / "plugin")
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "one")
        assert any("evil" in problem.message for problem in (await hf.config.report()).problems)
    assert not marker.exists()
    plugin(world, "mine", code + PLUGIN)
    world.environment["OPENCODE_PURE"] = "true"
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "one")
    assert not marker.exists()


def test_a_command_file_is_named_by_its_path(here: Callable[..., Ran], holdfast: Machine) -> None:
    """CAT-075, CAT-080, CAT-082: named by their path; a shell command in the template is run and its output put
    in, one in the arguments is not; a skill may be called like a command."""
    folder = holdfast.home / "config" / "opencode"
    files = {
        "command/team/look.md": "---\ndescription: Looks\n---\nThere is: !`echo from the shell` $ARGUMENTS",
        "skill/bake/SKILL.md": "---\nname: bake\ndescription: How to bake\nslash: true\n---\nBake it.\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    ran = here(*ECHO, "--command", "team/look", "!`touch evil`")
    assert ran.out == "There is: from the shell !`touch evil`\n"
    assert not (holdfast.project / "evil").exists()
    assert "Bake it." in here(*ECHO, "--command", "bake").out
