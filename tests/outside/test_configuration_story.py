"""Configuration as its author meant it: which file wins, what becomes of agents, commands, models and providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import UNCHECKED, World, answer, ask, hands, text_of, types

from holdfast import Holdfast, Location, ModelRef

pytestmark = pytest.mark.anyio


def save(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")


async def agents(hf: Holdfast, directory: Path | None = None) -> dict[str, Any]:
    location = None if directory is None else Location(directory=str(directory))
    return {agent.id: agent for agent in (await hf.agents.list(location=location)).data}


def named(text: str) -> dict[str, Any]:
    return {"agents": {"who": {"system": text, "mode": "primary"}}}


async def test_a_nearer_configuration_file_wins(world: World) -> None:
    """CAT-020, CAT-021, CAT-026, CAT-030: the user's, the project's from its root down, then
    `.opencode` folders; .jsonc after .json, with comments; nothing from above the root; a broken file costs only
    itself."""
    world.repository()
    leaf = world.project / "a"
    leaf.mkdir()
    order = [
        (world.user_folder / "opencode.json", "global"),
        (world.project / "opencode.json", "root"),
        (leaf / "opencode.json", "leaf"),
        (world.project / ".opencode" / "opencode.json", "root folder"),
        (leaf / ".opencode" / "opencode.json", "leaf folder"),
        (leaf / ".opencode" / "opencode.jsonc", "leaf folder, c"),
    ]
    save(world.home / "opencode.json", named("above"))
    save(world.project / "config.json", named("never"))
    for path, text in order:
        document = json.dumps({**named(text), "holdfast": {"titles": False}} if path == order[0][0] else named(text))
        save(path, f"// a comment\n{document[:-1]},}}" if path.suffix == ".jsonc" else document)
        async with world.host(directory=leaf, trust=True) as hf:
            assert (await agents(hf, leaf))["who"].system == text
    save(leaf / ".opencode" / "opencode.jsonc", "{ broken")
    async with world.host(directory=leaf, trust=True) as hf:
        assert (await agents(hf, leaf))["who"].system == "leaf folder"
        report = await hf.config.report(location=Location(directory=str(leaf)))
        assert any(problem.path.endswith("opencode.jsonc") for problem in report.problems)
        assert [Path(file).name for file in report.files][:2] == ["opencode.json", "opencode.json"]


async def test_values_come_from_the_environment_and_from_files(world: World) -> None:
    """CAT-032, CAT-029: inside strings, as they are, however they look; a value that is not there is said; a
    further document comes from a variable."""
    (world.user_folder / "words.txt").write_text('  "quoted"\nlines  \n')
    world.environment["WHO"] = 'x", "system": "injected'
    save(
        world.user_folder / "opencode.json",
        {
            "agents": {
                "one": {"system": "I am {env:WHO}.", "mode": "primary"},
                "two": {"system": "{file:words.txt}", "mode": "primary"},
                "three": {"description": "{env:NOT_THERE}", "system": "{file:absent.txt}", "mode": "primary"},
            }
        },
    )
    world.environment["OPENCODE_CONFIG_CONTENT"] = json.dumps({"agents": {"one": {"description": "inline"}}})
    async with world.host() as hf:
        found = await agents(hf)
        problems = [problem.message for problem in (await hf.config.report()).problems]
    assert found["one"].system == 'I am x", "system": "injected.'
    assert found["one"].description == "inline"
    assert found["two"].system == '"quoted"\nlines'
    assert not found["three"].system
    assert any("NOT_THERE" in problem for problem in problems)
    assert any("absent.txt" in problem for problem in problems)


async def test_a_change_of_configuration_counts_at_the_next_turn(world: World) -> None:
    """CAT-025, CAT-027: or after a reload, which says what is wrong with it; the file itself is never written."""
    world.configure(**named("first"))
    before = (world.user_folder / "opencode.json").read_bytes()
    async with world.host() as hf:
        session = await hf.sessions.create(agent="who")
        await ask(hf, session, "one")
        assert world.model.last.system.startswith("first")
        assert (world.user_folder / "opencode.json").read_bytes() == before
        world.configure(**named("second"), surprise={"a": 1})
        await ask(hf, session, "two")
        assert world.model.last.system.startswith("second")
        world.configure(**named("third"), surprise={"a": 1})
        report = await hf.config.reload()
        assert any("surprise" in problem.message for problem in report.problems)
        await ask(hf, session, "three")
        assert world.model.last.system.startswith("third")


async def test_agents_are_made_of_documents_and_files(world: World) -> None:
    """CAT-055, CAT-056, CAT-062, CAT-063, CAT-064, CAT-065, CAT-058, SES-024, TOL-080: a file's body is the agent's
    text, its folder its name; fields are patched, a disabled agent is gone; who runs without a choice is the configured
    default."""
    folder = world.user_folder / "agent"
    save(folder / "team" / "helper.md", "---\ndescription: Helps: a lot\nmode: primary\n---\n\nHelp out.\n")
    save(folder / "broken.md", "---\n: [\n---\nNo.\n")
    world.configure(
        default_agent="team/helper",
        agents={
            "team/helper": {"color": "#ff0000", "description": "replaced by the file"},
            "general": {"disabled": True},
            "fresh": {"description": "New"},
        },
    )
    async with world.host() as hf:
        found = await agents(hf)
        helper = found["team/helper"]
        assert (helper.system, helper.description, helper.color) == ("Help out.", "Helps: a lot", "#ff0000")
        assert "general" not in found
        assert "broken" not in found
        assert (found["fresh"].mode, found["fresh"].hidden) == ("all", False)
        await ask(hf, await hf.sessions.create(), "go")
        assert world.model.last.system.startswith("Help out.")


async def test_configuration_of_the_older_form_is_understood(world: World) -> None:
    """CAT-036, CAT-037, CAT-038, CAT-039, CAT-040, CAT-045: singular names, permissions as a map in their order, tools
    as switches, modes; a provider that is disabled is gone with its models."""
    document = {
        "agent": {"old": {"prompt": "Old words.", "mode": "primary", "maxSteps": 3, "tools": {"write": False}}},
        "mode": {"quick": {"prompt": "Quick words."}},
        "command": {"hi": {"template": "Hi $1"}},
        "permission": {"bash": {"git *": "allow", "*": "deny"}, "webfetch": "deny"},
        "provider": {"mock": world.provider(), "other": world.provider()},
        "disabled_providers": ["other"],
        "model": "mock/m",
        "small_model": "mock/m",
    }
    save(world.user_folder / "opencode.json", document)
    async with world.host() as hf:
        found = await agents(hf)
        assert (found["old"].system, found["old"].steps) == ("Old words.", 3)
        assert (found["quick"].system, found["quick"].mode) == ("Quick words.", "primary")
        session = await hf.sessions.create()

        async def effect(action: str, resource: str, agent: str | None = None) -> str:
            given = await hf.permissions.create(session.id, action=action, resources=[resource], agent=agent)
            return given.effect

        assert [await effect("bash", "git status"), await effect("webfetch", "https://x.org")] == ["deny", "deny"]
        assert await effect("edit", "a.txt", "old") == "deny"
        assert {model.provider_id for model in (await hf.models.list()).data}.isdisjoint({"other"})
        assert "hi" in {command.name for command in (await hf.commands.list()).data}
        assert any("small_model" in problem.message for problem in (await hf.config.report()).problems)


async def test_the_user_decides_about_providers(world: World) -> None:
    """CAT-045, CAT-046, CAT-048, CAT-049: the last statement counts, the user's file last of all; what is denied is
    nowhere."""
    statements = [
        {"effect": "deny", "action": "provider.use", "resource": "*"},
        {"effect": "allow", "action": "provider.use", "resource": "mo?k"},
    ]
    two = {"mock": world.provider(), "other": world.provider()}
    world.configure(provider=two, experimental={"policies": statements})
    allowed = {"effect": "allow", "action": "provider.use", "resource": "*"}
    save(world.project / "opencode.json", {"experimental": {"policies": [allowed]}})
    async with world.host(trust=True) as hf:
        assert [provider.id for provider in (await hf.providers.list()).data] == ["mock"]
        session = await hf.sessions.create(model=ModelRef(id="m", provider_id="other"), options=UNCHECKED)
        await ask(hf, session, "go")
        assert await types(hf, session) == ["prompt.admitted"]
        assert text_of(await answer(hf, await hf.sessions.create())) == "done"


async def test_models_are_made_of_provider_and_model(world: World) -> None:
    """CAT-085, CAT-086, CAT-087, CAT-089, CAT-091, CAT-092, CAT-118, CAT-126, CAT-127, CAT-128: the model over the
    provider; a name with slashes; another id on the wire; what is switched off is not offered; the configured default
    is used."""
    provider = world.provider()
    provider["name"] = "The Mock"
    provider["models"] = {
        "org/model": {"id": "wire-id", "name": "Nice", "tool_call": True, "limit": {"context": 90_000, "output": 3}},
        "off": {"status": "deprecated"},
    }
    world.configure(model="mock/org/model", provider={"mock": provider})
    async with world.host() as hf:
        listed = {model.id: model for model in (await hf.models.list()).data if model.provider_id == "mock"}
        model = listed["org/model"]
        assert (model.name, model.limit.context, model.limit.output) == ("Nice", 90_000, 3)
        assert model.capabilities.tools
        assert "off" not in {id for id, one in listed.items() if one.enabled}
        assert (await hf.providers.get("mock")).data.name == "The Mock"
        default = await hf.default_model()
        assert default is not None
        assert (default.provider_id, default.id) == ("mock", "org/model")
        await ask(hf, await hf.sessions.create(), "go")
    assert world.model.last.body["model"] == "wire-id"
    assert world.model.last.headers["authorization"] == "Bearer sk-scripted"


async def test_a_local_endpoint_needs_no_key(world: World) -> None:
    """CAT-127, CAT-091, CAT-120: nothing is sent in place of one."""
    provider = world.provider()
    del provider["options"]["apiKey"]
    world.configure(provider={"mock": provider})
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
    assert "authorization" not in world.model.last.headers


async def test_a_stored_key_counts_before_a_configured_one_and_from_the_next_turn(world: World) -> None:
    """CAT-112, CAT-131, CAT-152: the credential is looked up when a turn begins; removed, the other is used again."""
    provider = {**world.provider(), "env": ["MOCK_KEY"]}
    world.configure(provider={"mock": provider})
    async with world.host() as hf:
        session = await hf.sessions.create()
        used = []
        for step in ("configured", "stored", "removed"):
            if step == "stored":
                await hf.integrations.connect_key("mock", key="sk-stored")
            if step == "removed":
                integration = (await hf.integrations.get("mock")).data
                assert integration is not None
                await hf.credentials.remove(str(getattr(integration.connections[0], "id", "")))
            await ask(hf, session, step)
            used.append(world.model.last.headers["authorization"])
    assert used == ["Bearer sk-scripted", "Bearer sk-stored", "Bearer sk-scripted"]


async def test_the_model_of_a_turn_is_the_sessions_then_the_agents_then_the_default(world: World) -> None:
    """CAT-071, SES-095: the nearest choice counts."""
    models = {name: {"tool_call": True} for name in ("m", "of-agent", "of-session")}
    world.configure(
        provider={"mock": {**world.provider(), "models": models}},
        agents={"chooser": {"mode": "primary", "model": "mock/of-agent"}},
    )
    async with world.host() as hf:
        plain = await hf.sessions.create()
        chosen = await hf.sessions.create(agent="chooser")
        both = await hf.sessions.create(agent="chooser", model=ModelRef(id="of-session", provider_id="mock"))
        for session in (plain, chosen, both):
            await ask(hf, session, "go")
    assert [request.body["model"] for request in world.model.requests] == ["m", "of-agent", "of-session"]


async def test_a_family_of_models_has_words_of_its_own_unless_the_agent_has(world: World) -> None:
    """CAT-072, SES-096: an agent without a text is not left without one."""
    world.configure(agents={"silent": {"mode": "primary"}, "loud": {"mode": "primary", "system": "LOUD"}})
    async with world.host() as hf:
        for agent in ("silent", "loud"):
            await ask(hf, await hf.sessions.create(agent=agent), "go")
    silent, loud = (request.system for request in world.model.requests)
    assert len(silent.split("<env>")[0]) > 100
    assert loud.startswith("LOUD\n")


async def test_one_host_serves_several_places_apart_from_each_other(world: World) -> None:
    """CAT-006, CAT-002, API-032: each with its own configuration and instructions; what is asked in
    one is not seen in the other."""
    other = world.home / "other"
    save(other / "AGENTS.md", "OTHER RULES")
    save(other / "opencode.json", {"agents": {"local": {"system": "Only here.", "mode": "primary"}}})
    world.configure(permissions=[{"action": "bash", "resource": "*", "effect": "ask"}])
    place = Location(directory=str(other))
    async with world.host(trust=True) as hf:
        assert "local" not in await agents(hf)
        assert "local" in await agents(hf, other)
        session = await hf.sessions.create(location=place)
        await ask(hf, session, "go")
        assert "OTHER RULES" in world.model.last.system
        await hf.permissions.create(session.id, action="bash", resources=["ls"])
        assert (await hf.permissions.list_requests()).data == []
        assert len((await hf.permissions.list_requests(location=place)).data) == 1
        located = await hf.location.get(location=place)
        assert (located.directory, located.project.id) == (str(other), "global")
        use = await hands(world, hf, location=place)
        world.model.plays(calling("read", path="AGENTS.md"), Turn(text="fine"))
        await ask(hf, use.session, "read")
        assert "OTHER RULES" in world.model.last.results[-1]
