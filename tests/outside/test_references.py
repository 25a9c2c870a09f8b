"""References as the model meets them: what it is told, and that the paths it is shown can be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider
from tests.outside.hostile import honest
from tests.outside.world import World, hands

from holdfast import Holdfast
from holdfast.schema.prompt import Prompt, PromptInput
from holdfast.schema.session_message import AssistantMessage, TextContent, ToolCompleted, ToolPart
from holdfast.schema.typed_event import Event

pytestmark = pytest.mark.anyio
UNUSABLE = "These references are configured and cannot be used at present:"


@asynccontextmanager
async def opened(machine: Machine) -> AsyncIterator[Holdfast]:
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as hf:
        yield hf


async def say(hf: Holdfast, session: str, text: str) -> None:
    await hf.sessions.prompt(session, prompt=PromptInput(text=text))
    await hf.sessions.wait(session)


@asynccontextmanager
async def listening(hf: Holdfast) -> AsyncIterator[AsyncIterator[Event]]:
    async with aclosing(aiter(hf.events.subscribe())) as live:
        assert (await anext(live)).type == "server.connected"
        yield live


async def fetched(live: AsyncIterator[Event]) -> None:
    """Until a checkout has appeared, or is known to be impossible."""
    async for event in live:
        if event.type == "reference.updated":
            return


def configure(machine: Machine, provider: Provider, **references: Any) -> None:
    served = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": provider.url}, "models": {"m": {}}}
    machine.configure_user(model="mock/m", provider={"mock": served}, holdfast={"titles": False}, references=references)


def system(provider: Provider) -> str:
    return str(provider.bodies[-1]["messages"][0]["content"])


def last_input(provider: Provider) -> str:
    return str(provider.bodies[-1]["messages"][-1]["content"])


async def test_a_missing_directory_is_told_as_missing_until_it_is_there(holdfast: Machine, provider: Provider) -> None:
    """CTX-213, CTX-214: listed when it can be used, with one line about why while it cannot."""
    docs = holdfast.home / "docs"
    configure(holdfast, provider, docs={"path": str(docs), "description": "The manual"})
    async with opened(holdfast) as hf:
        session = (await hf.sessions.create()).id
        await say(hf, session, "one")
        assert f"{UNUSABLE}\n- docs: {docs} does not exist" in system(provider)
        assert "<available_references>" not in system(provider)
        await say(hf, session, "two")
        assert last_input(provider) == "two"
        docs.mkdir()
        await say(hf, session, "three")
        assert "&lt;path&gt;@docs&lt;/path&gt;" in last_input(provider)
        assert UNUSABLE not in last_input(provider)


async def test_a_repository_that_cannot_be_fetched_is_told_with_the_reason(
    holdfast: Machine, provider: Provider
) -> None:
    """CTX-214: at the next boundary, once, and by the next process from the start; the end of it is told too."""
    hub = holdfast.home / "hub"
    holdfast.environment["OPENCODE_REPO_CLONE_GITHUB_BASE_URL"] = f"file://{hub}"
    configure(holdfast, provider, lib={"repository": "owner/lib", "description": "The library"})
    reason = f"{UNUSABLE}\n- lib: owner/lib is not available: there is no such repository, or no access"
    async with opened(holdfast) as hf, listening(hf) as live:
        session = (await hf.sessions.create()).id
        await say(hf, session, "one")
        await fetched(live)
        assert "owner/lib" not in system(provider)
        await say(hf, session, "two")
        assert reason in last_input(provider)
        await say(hf, session, "three")
        assert last_input(provider) == "three"
    honest(hub / "owner" / "lib.git")
    async with opened(holdfast) as hf, listening(hf) as live:
        await say(hf, session, "four")
        assert last_input(provider) == "four"
        await fetched(live)
        await say(hf, session, "five")
        assert "&lt;path&gt;@lib&lt;/path&gt;" in last_input(provider)
        assert UNUSABLE not in last_input(provider)


def test_every_path_that_is_shown_of_a_reference_can_be_read(holdfast: Machine) -> None:
    """CTX-213: by its name, and as searches and listings show it; nothing is asked for, or it would be refused."""
    file = holdfast.home / "docs" / "sub" / "a.md"
    file.parent.mkdir(parents=True)
    file.write_text("needle\n", encoding="utf-8")
    holdfast.configure_user(references={"docs": {"path": str(file.parents[1]), "description": "The manual"}})
    shown = [
        ("glob", {"pattern": "**/*.md", "path": "@docs"}),
        ("grep", {"pattern": "needle", "path": "@docs"}),
        ("read", {"path": "@docs/sub"}),
    ]
    read = [("read", {"path": "@docs/sub/a.md"}), ("read", {"path": str(file)})]
    calls = [*shown, *read]
    holdfast.script(*({"calls": [{"tool": tool, "input": given}]} for tool, given in calls), {"text": "done"})
    ran = holdfast("run", "--model", "demo/scripted", "go")
    assert ran.code == 0, ran.err
    results = texts(holdfast.look(ran.session)[1])
    assert all(str(file) in text for text in results[:3]), results
    assert all("1: needle" in text for text in results[3:]), results


async def mention(hf: Holdfast, session: str, text: str) -> Prompt:
    receipt = await hf.sessions.prompt(session, prompt=PromptInput(text=text), resolve=True)
    await hf.sessions.wait(session)
    return receipt.prompt


async def test_references_can_be_mentioned(holdfast: Machine, provider: Provider) -> None:
    """CAT-223: also without a description; nothing is asked for. What leads out of one is not attached."""
    docs = holdfast.home / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "sub" / "a.md").write_text("needle\nsecond\n", encoding="utf-8")
    (docs / "out.md").symlink_to(holdfast.project / "hello.txt")
    (holdfast.project / "docs").mkdir()
    configure(holdfast, provider, docs=str(docs))
    async with opened(holdfast) as hf:
        session = (await hf.sessions.create()).id
        prompt = await mention(hf, session, "@docs, @docs/sub/a.md#L1, @docs/none, @docs/out.md and @docs/../x")
    assert [(file.name, file.uri) for file in prompt.files or ()] == [
        ("@docs", f"{docs.as_uri()}/"),
        ("@docs/sub/a.md#L1", f"{(docs / 'sub' / 'a.md').as_uri()}?start=1&end=1"),
    ]
    assert prompt.notes == (
        "`@docs/none` could not be attached: it does not exist",
        "`@docs/out.md` could not be attached: the path leads outside the working directory through a link",
        "`@docs/../x` could not be attached: the path leads outside the working directory",
    )
    said = str(provider.bodies[-1]["messages"])
    assert "sub/" in said
    assert "needle" in said
    assert "second" not in said
    assert "hello world" not in said


async def test_a_mention_of_a_reference_that_cannot_be_used_says_why(holdfast: Machine, provider: Provider) -> None:
    """CAT-224, CAT-225: the list has the same reason, and the fetch begins with the mention."""
    docs, hub = holdfast.home / "docs", holdfast.home / "hub"
    holdfast.environment["OPENCODE_REPO_CLONE_GITHUB_BASE_URL"] = f"file://{hub}"
    configure(holdfast, provider, docs=str(docs), lib="owner/lib")

    async def problems(hf: Holdfast) -> dict[str, str | None]:
        return {reference.name: reference.problem for reference in (await hf.references.list()).data}

    missing = f"{docs} does not exist"
    async with opened(holdfast) as hf, listening(hf) as live:
        session = (await hf.sessions.create()).id
        assert await problems(hf) == {"docs": missing, "lib": "owner/lib has not been fetched yet"}
        receipt = await hf.sessions.prompt(session, prompt=PromptInput(text="@docs @lib/x"), resolve=True, resume=False)
        assert receipt.prompt.notes == (
            f"`@docs` could not be attached: {missing}",
            "`@lib/x` could not be attached: owner/lib has not been fetched yet",
        )
        await fetched(live)
        reason = "owner/lib is not available: there is no such repository, or no access"
        assert await problems(hf) == {"docs": missing, "lib": reason}
        prompt = await mention(hf, session, "@lib/x")
        assert prompt.notes == (f"`@lib/x` could not be attached: {reason}",)
    honest(hub / "owner" / "lib.git")
    docs.mkdir()
    async with opened(holdfast) as hf, listening(hf) as live:
        await mention(hf, session, "@lib")
        await fetched(live)
        prompt = await mention(hf, session, "@lib @docs")
        assert [file.name for file in prompt.files or ()] == ["@lib", "@docs"]
        assert await problems(hf) == {"docs": None, "lib": None}


def texts(messages: list[Any]) -> list[str]:
    """What the model read of its calls, all of which succeeded."""
    parts = [part for message in messages if isinstance(message, AssistantMessage) for part in message.content]
    states = [part.state for part in parts if isinstance(part, ToolPart)]
    assert [state for state in states if not isinstance(state, ToolCompleted)] == []
    return [
        "\n".join(item.text for item in state.content if isinstance(item, TextContent))
        for state in states
        if isinstance(state, ToolCompleted)
    ]


async def test_a_reference_of_an_untrusted_project_stays_in_it(world: World) -> None:
    """TOL-421: its directory becomes a link out of the project while the project is open."""
    secret = world.home / "private" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("the secret", encoding="utf-8")
    world.write("docs/guide.txt", "the guide")
    world.write("opencode.json", json.dumps({"references": {"docs": "./docs"}}))
    world.configure(permission={"external_directory": "deny"})
    async with world.host() as hf:
        hands_on = await hands(world, hf)
        assert "the guide" in str(await hands_on("read", path="@docs/guide.txt"))
        (world.project / "docs").rename(world.project / "old")
        (world.project / "docs").symlink_to(secret.parent)
        for path in ("@docs/secret.txt", str(secret), "docs/secret.txt"):
            assert "the secret" not in await hands_on.fails("read", path=path)
        mention = PromptInput(text="@docs/secret.txt")
        prompt = (await hf.sessions.prompt(hands_on.session.id, prompt=mention, resolve=True, resume=False)).prompt
        assert prompt.files is None
        assert "leads out of the project" in (prompt.notes or ("",))[0]
        (listed,) = [item for item in (await hf.references.list()).data if item.name == "docs"]
        assert "leads out of the project" in (listed.problem or "")
        (world.project / "docs").unlink()
        (world.project / "old").rename(world.project / "docs")
        assert "the guide" in str(await hands_on("read", path="@docs/guide.txt"))
