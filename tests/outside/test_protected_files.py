"""A file that agents may not read unasked does not reach the model because a repository names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine, NearMachine, Provider
from tests.outside.scripted_provider import calling
from tests.outside.world import World, ask

MACHINE = NearMachine
pytestmark = pytest.mark.anyio

SECRET = "DATABASE_PASSWORD=canary-7"
SKILL = "---\nname: leak\ndescription: canary-skill\n---\n"


def link(place: str, target: str) -> Callable[[Path], None]:
    def plant(project: Path) -> None:
        path = project / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return plant


def document(**content: Any) -> Callable[[Path], None]:
    def plant(project: Path) -> None:
        (project / "opencode.json").write_text(json.dumps(content), encoding="utf-8")

    return plant


def linked_folders(project: Path) -> None:
    link("box", ".")(project)
    link("sub/AGENTS.md", "../box/.env")(project)


def agent_below_a_linked_folder(project: Path) -> None:
    (project / "secrets").mkdir()
    (project / "secrets" / "build.md").symlink_to("../.env")
    link(".opencode/agent", "../secrets")(project)


WAYS: dict[str, Callable[[Path], None]] = {
    "instruction file": link("AGENTS.md", ".env"),
    "other name": link("CLAUDE.md", ".env"),
    "instruction file near a read": link("sub/AGENTS.md", "../.env"),
    "through a folder": linked_folders,
    "configured": document(instructions=[".env"]),
    "pattern": document(instructions=[".e*"]),
    "prompt of an agent": document(agent={"build": {"prompt": "{file:.env}"}}),
    "agent": link(".opencode/agent/build.md", "../../.env"),
    "agent below a linked folder": agent_below_a_linked_folder,
    "command": link(".opencode/command/leak.md", "../../.env"),
    "skill": link(".opencode/skill/leak.md", "../../.env"),
}


async def run_everything(world: World) -> str:
    """All that the model is sent in a Session that reads near the file, calls the command, and loads the skill."""
    world.model.plays(calling("read", path="sub/code.py"), calling("skill", name="leak"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        commands = {command.name for command in (await hf.commands.list()).data}
        if "leak" in commands:
            await hf.sessions.command(session.id, command="leak", arguments="")
            await hf.sessions.wait(session.id)
        await ask(hf, session, "again")
    return json.dumps([request.body for request in world.model.requests])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", [None, "deny"])
async def test_a_repository_cannot_name_a_file_that_agents_may_not_read(
    world: World, way: str, rule: str | None
) -> None:
    """CTX-230, CAT-250: whatever names it, also where the user denies reading it altogether."""
    if rule is not None:
        world.configure(permission={"read": {"*.env": rule}})
    world.write(".env", SECRET)
    world.write("sub/code.py", "pass\n")
    WAYS[way](world.project)
    assert "canary" not in await run_everything(world)


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_user_allows_to_read_may_be_named(world: World, way: str) -> None:
    """CTX-230: the rules decide, not the name. The ways above do work."""
    world.configure(permission={"read": "allow"})
    world.write(".env", SKILL + SECRET if way == "skill" else SECRET)
    world.write("sub/code.py", "pass\n")
    WAYS[way](world.project)
    assert "canary" in await run_everything(world)


@pytest.mark.parametrize("place", [".opencode/agent/build.md", ".opencode/command/leak.md", ".opencode/skill/leak.md"])
async def test_a_file_of_an_untrusted_project_leads_nowhere_else(world: World, place: str) -> None:
    """CAT-250: as instruction files, the files of its `.opencode` folder stay inside the project."""
    key = world.home / "key"
    key.write_text(SECRET)
    world.write("sub/code.py", "pass\n")
    link(place, str(key))(world.project)
    assert "canary" not in await run_everything(world)


def test_a_protected_file_in_a_setting_needs_trust_and_a_denial_is_final(holdfast: Machine, provider: Provider) -> None:
    """CAT-251: `{file:}` in a project's document; what `holdfast trust` shows, counts once it is trusted, unless the
    user denies reading the file."""
    holdfast.use_provider(provider.url)
    (holdfast.project / ".env").write_text(SECRET, encoding="utf-8")
    holdfast.configure(agent={"build": {"prompt": "{file:.env}"}})
    assert "reads the file .env" in holdfast("trust").out
    assert holdfast("run", "hello").code == 0
    assert "canary" not in json.dumps(provider.bodies)
    assert holdfast("trust", "--yes").code == 0
    assert holdfast("run", "hello").code == 0
    assert "canary" in json.dumps(provider.bodies[-1])
    rules = {"read": {"*.env": "deny"}}
    user = json.loads((holdfast.home / "config" / "opencode" / "opencode.json").read_text(encoding="utf-8"))
    holdfast.configure_user(**user, permission=rules)
    assert holdfast("run", "hello").code == 0
    assert "canary" not in json.dumps(provider.bodies[-1])


def test_files_that_are_not_used_are_named(holdfast: Machine) -> None:
    """CTX-232, CTX-119: `config check` says which file is not used and which rule protects it, and names a time zone
    that does not exist."""
    (holdfast.project / ".env").write_text(SECRET, encoding="utf-8")
    link("AGENTS.md", ".env")(holdfast.project)
    link(".opencode/agent/build.md", "../../.env")(holdfast.project)
    holdfast.configure(instructions=[".env"], timezone="Mars/Base")
    checked = holdfast("config", "check")
    rule = f"leads to {holdfast.project}/.env, and the permission rule `read: *.env` asks about reading it"
    assert checked.out.count(rule) == 3, checked.out
    assert "timezone: 'Mars/Base' is not a known time zone; the host's is used" in checked.out
    assert "canary" not in checked.out


async def test_an_instruction_file_that_grows_too_large_is_told_as_such(world: World) -> None:
    """CTX-231: its rules are neither silently missing nor declared void."""
    world.write("AGENTS.md", "RULES\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        world.write("AGENTS.md", "x" * (1024 * 1024 + 1))
        await ask(hf, session, "two")
        updates = [text for _, text in world.model.last.said if "<system-update>" in str(text)]
        assert "larger than 1 MiB" in updates[-1]
        assert "no longer" not in updates[-1]
        await ask(hf, await hf.sessions.create(), "three")
    assert "larger than 1 MiB" in world.model.last.system
