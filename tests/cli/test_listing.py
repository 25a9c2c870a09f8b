"""What a directory has: models, agents, commands, skills, configuration, keys."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Ran, rows

Invoke = Callable[..., Ran]
SECRET = "sk-very-secret-value"


def test_models_of_connected_providers(holdfast: Machine, here: Invoke, provider_config: None) -> None:
    """With their limits, prices and variants, and a star at the one that is used."""
    ran = here("models")

    assert rows(ran) == [["*", "local/small", "Small", "32,000", "4,000", "0.5", "2"]]
    assert [model["id"] for model in json.loads(here("models", "--json").out)] == ["small"]
    assert rows(here("models", "local")) == rows(ran)


@pytest.fixture
def provider_config(holdfast: Machine, here: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    holdfast.configure_user(
        model="local/small",
        provider={
            "local": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "{env:LOCAL_KEY}"},
                "models": {
                    "small": {
                        "name": "Small",
                        "limit": {"context": 32000, "output": 4000},
                        "cost": {"input": 0.5, "output": 2},
                    }
                },
            }
        },
    )


def test_models_can_be_fetched_anew(here: Invoke, provider_config: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-097: where fetching is off, that is said and what was there is shown."""
    monkeypatch.setenv("OPENCODE_DISABLE_MODELS_FETCH", "1")
    ran = here("models", "--refresh")

    assert "no newer list" in ran.err
    assert rows(ran) == rows(here("models"))


def test_a_provider_without_models_is_said(here: Invoke, provider_config: None) -> None:
    """Together with those that have some."""
    ran = here("models", "nobody")

    assert (ran.code, ran.out) == (1, "")
    assert "nobody" in ran.complaint
    assert "local" in ran.complaint


def test_without_a_provider_there_are_no_models(here: Invoke) -> None:
    """That is no failure, and it says what to do."""
    ran = here("models")

    assert (ran.code, ran.out) == (0, "")
    assert "auth login" in ran.err
    assert json.loads(here("models", "--json").out) == []


def test_agents_lists_built_in_and_configured_ones(holdfast: Machine, here: Invoke) -> None:
    """Built in and configured; hidden ones on request."""
    holdfast.configure(agent={"tester": {"mode": "primary", "description": "tests\nthings", "model": "demo/echo"}})
    listed = {row[0]: row for row in rows(here("agents"))}

    assert listed["tester"] == ["tester", "primary", "demo/echo", "tests things"]
    assert {"build", "plan"} <= set(listed)
    assert len(rows(here("agents", "--all"))) > len(listed)
    assert "tester" in {agent["id"] for agent in json.loads(here("agents", "--json").out)}


def test_commands_lists_built_in_and_configured_ones(holdfast: Machine, here: Invoke) -> None:
    """CAT-075, CAT-077: built in and configured."""
    holdfast.configure(command={"greet": {"template": "Hello $1", "agent": "plan"}})
    listed = {row[0]: row for row in rows(here("commands"))}

    assert listed["greet"] == ["greet", "plan", "Hello $1"]
    assert {"init", "review"} <= set(listed)
    assert {"greet", "init"} <= {command["name"] for command in json.loads(here("commands", "--json").out)}


def test_skills_lists_those_of_the_project(holdfast: Machine, here: Invoke) -> None:
    """Found below the project."""
    folder = holdfast.project / ".opencode" / "skill" / "baking"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: baking\ndescription: bread and more\n---\nKnead.\n", encoding="utf-8")
    listed = {row[0]: row for row in rows(here("skills"))}

    assert listed["baking"] == ["baking", str(folder / "SKILL.md"), "bread and more"]
    assert "baking" in {skill["name"] for skill in json.loads(here("skills", "--json").out)}


def test_nothing_listed_can_steer_the_terminal(holdfast: Machine, here: Invoke) -> None:
    """A project's file may say anything."""
    holdfast.configure(command={"evil": {"template": "x", "description": "\x1b]0;owned\x07[bold]\x9b2J"}})
    out = here("commands").out

    assert "[bold]" in out
    assert not {"\x1b", "\x07", "\x9b"} & set(out)


# -- configuration -----------------------------------------------------------------------------------------------


def test_a_valid_configuration_names_each_file_that_is_read(
    here: Invoke, holdfast: Machine, provider_config: None
) -> None:
    """Each file that is read is named."""
    ran = here("config", "check")

    assert (ran.code, ran.out.splitlines()) == (0, [str(holdfast.home / "config" / "opencode" / "opencode.json")])


def test_a_warning_is_no_failure(here: Invoke, holdfast: Machine) -> None:
    """CAT-027: it names file and line and what was probably meant."""
    path = holdfast.project / "opencode.json"
    path.write_text('{\n  "modle": "demo/echo"\n}', encoding="utf-8")
    ran, report = here("config", "check"), json.loads(here("config", "check", "--json").out)

    assert ran.code == 0
    assert f"warning: {path}:2: " in ran.out
    assert "did you mean model?" in ran.out
    assert report["files"] == [str(path)]
    assert [(problem["severity"], problem["line"]) for problem in report["problems"]] == [("warning", 2)]


def test_a_file_that_cannot_be_used_is_a_failure(here: Invoke, holdfast: Machine) -> None:
    """CAT-026: for `config check` and for `doctor`; the rest still works."""
    path = holdfast.project / "opencode.json"
    path.write_text('{"model": ', encoding="utf-8")
    checked, examined = here("config", "check"), here("doctor")

    assert (checked.code, examined.code) == (1, 1)
    assert f"error: {path}:1: " in checked.out
    assert str(path) in examined.err
    assert here("agents").code == 0


@pytest.mark.parametrize("command", [("config", "check"), ("doctor",)])
def test_a_reported_problem_is_not_logged_too(holdfast: Machine, command: tuple[str, ...]) -> None:
    """CAT-026: a command that reports it does not log it too."""
    path = holdfast.project / "opencode.json"
    path.write_text('{"model": ', encoding="utf-8")
    ran = holdfast(*command)

    assert (ran.code, (ran.out + ran.err).count(str(path))) == (1, 1)


def test_the_configuration_in_force_has_no_secrets(here: Invoke, holdfast: Machine, provider_config: None) -> None:
    """CAT-031, CAT-033: one merged document."""
    holdfast.configure(instructions=["mine.md"])
    ran = here("config", "show")
    shown = json.loads(ran.out)

    assert (shown["model"], shown["instructions"]) == ("local/small", ["mine.md"])
    assert SECRET not in ran.out + ran.err


def test_the_schema_knows_every_section(here: Invoke) -> None:
    """What an editor needs."""
    schema = json.loads(here("config", "schema").out)

    assert "json-schema.org" in schema["$schema"]
    assert "providers" in str(schema)


# -- keys --------------------------------------------------------------------------------------------------------


def test_a_key_is_stored_listed_and_forgotten(here: Invoke, holdfast: Machine) -> None:
    """CAT-132, CAT-135: in a file that only its owner reads; never shown, in no form."""
    stored = here("auth", "login", "anthropic", "--label", "work", given=f"{SECRET}\n")
    listed, as_json = here("auth", "list"), here("auth", "list", "--json")
    models = here("models", "anthropic")
    path = holdfast.data / "credentials.json"

    assert (stored.code, stored.out) == (0, "")
    assert SECRET in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert rows(listed) == [["anthropic", "Anthropic", "stored key (work)"]]
    assert [found["id"] for found in json.loads(as_json.out)] == ["anthropic"]
    assert models.code == 0
    forgotten = here("auth", "logout", "anthropic")
    assert forgotten.code == 0
    assert here("auth", "list").out == ""
    assert here("auth", "logout", "anthropic").code == 1
    assert not any(
        SECRET in text for ran in (stored, listed, as_json, models, forgotten) for text in (ran.out, ran.err)
    )


def test_a_key_is_asked_for_without_echo(holdfast: Machine) -> None:
    """CAT-135: what is typed is not shown."""
    person = holdfast.at_terminal("auth", "login", "openai")
    person.wait_for("Key of openai")
    person.type(f"{SECRET}\n")
    ran = person.leave()

    assert ran.code == 0
    assert SECRET not in ran.out + ran.err
    assert SECRET in (holdfast.data / "credentials.json").read_text(encoding="utf-8")


def test_a_key_of_the_environment_is_named_by_its_variable(here: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-131: it stays where it is, also after a logout."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    here("auth", "login", "openai", given="another\n")
    listed, gone = here("auth", "list"), here("auth", "logout", "openai")

    assert rows(listed) == [["openai", "OpenAI", "stored key (default), variable OPENAI_API_KEY"]]
    assert "OPENAI_API_KEY" in gone.err
    assert SECRET not in listed.out + gone.err


@pytest.mark.parametrize(("provider", "given"), [("nobody", SECRET), ("openai", ""), ("openai", "  \n")])
def test_a_login_that_cannot_be(here: Invoke, holdfast: Machine, provider: str, given: str) -> None:
    """One line, and nothing is stored."""
    ran = here("auth", "login", provider, given=given)

    assert (ran.code, ran.out) == (1, "")
    assert ran.complaint
    assert not (holdfast.data / "credentials.json").exists()
