"""The commands of a Location."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.config.conftest import Place

from holdfast.core.command.builtin import builtin_commands
from holdfast.core.command.command import Command, CommandDraft
from holdfast.core.command.commands import Commands
from holdfast.core.config.reload import LiveConfig
from holdfast.core.prompt.filled_template import FilledTemplate
from holdfast.core.scope import Scope
from holdfast.core.skill.skill import Skill
from holdfast.core.state import Batches, Phase
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import CommandNotFound
from holdfast.schema.model import ModelRef


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def commands(place: Place) -> Commands:
    batches, scope = Batches(), Scope()
    found = Commands(batches)
    with batches.batch():
        found.state.transform(builtin_commands(place.root), scope, phase=Phase.BUILTIN)
        found.follow(LiveConfig(place.load, batches), scope)
    return found


async def no_shell(command: str) -> str:
    raise AssertionError(command)


def test_built_in_commands_mention_the_project_and_take_arguments(place: Place) -> None:
    """CAT-076, CAT-077: both mention the project and take arguments."""
    init, review = commands(place).list()
    assert (init.name, init.description, init.subtask) == ("init", "guided AGENTS.md setup", None)
    assert (review.name, review.subtask) == ("review", True)
    assert review.description == "review changes [commit|branch|pr], defaults to uncommitted"
    for command in (init, review):
        assert str(place.root) in command.template
        assert "$ARGUMENTS" in command.template
    assert "improve it in place" in init.template


def test_documents_and_files_patch_in_order(place: Place) -> None:
    """CAT-075: the template is always replaced, other fields only when said; a variant needs a model."""
    place.user_config(
        {
            "command": {
                "test": {"template": "one", "description": "d", "agent": "plan", "model": "p/a/b", "variant": "high"},
                "lone": {"template": "t", "variant": "v"},
                "none": {"description": "no template"},
            }
        }
    )
    place.write("opencode.json", {"commands": {"test": {"template": "two", "subtask": True, "model": "q/m"}}})
    place.write(".opencode/command/test.md", "---\ndescription: from: file\n---\n\nthree\n")
    place.write(".opencode/commands/git/push.md", "push")
    place.write(".opencode/commands/empty.md", "---\nagent: build\n---\n")
    found = {command.name: command for command in commands(place).list()}
    assert found["test"] == Command(
        name="test",
        template="three",
        description="from: file",
        agent="plan",
        model=ModelRef(id="m", provider_id="q", variant="high"),
        subtask=True,
    )
    assert (found["lone"].model, found["git/push"].template, found["empty"].template) == (None, "push", "")
    assert "none" not in found


def test_built_in_ones_can_be_overridden(place: Place) -> None:
    """CAT-077."""
    place.write("opencode.json", {"commands": {"init": {"template": "mine"}}})
    init = commands(place).get("init")
    assert init == Command(name="init", template="mine", description="guided AGENTS.md setup")


def test_a_bad_file_is_skipped_and_reported(place: Place) -> None:
    """CAT-065, CAT-075."""
    place.write(".opencode/command/bad.md", "---\n- x\n---\nt")
    place.write(".opencode/command/wrong.md", "---\nagent: [x]\n---\nt")
    found = commands(place)
    assert [command.name for command in found.list()] == ["init", "review"]
    assert len(found.diagnostics()) == 2


@pytest.mark.anyio
async def test_a_call_is_expanded_once(place: Place) -> None:
    """CAT-078, CAT-081: what will be admitted, with the command and its arguments; an unknown one is a typed error."""
    place.write("opencode.json", {"commands": {"fix": {"template": "Fix $1, see @a.py", "agent": "plan"}}})
    found = commands(place)
    invocation = await found.invoke("fix", "the bug", no_shell)
    assert (invocation.text, invocation.arguments, invocation.template) == (
        "Fix the bug, see @a.py",
        "the bug",
        FilledTemplate(arguments=((4, 11),)),
    )
    assert (invocation.command.name, invocation.command.agent) == ("fix", "plan")
    assert str(place.root) in (await found.invoke("init", "", no_shell)).text
    with pytest.raises(CommandNotFound) as caught:
        await found.invoke("nope", "", no_shell)
    assert caught.value.command == "nope"


@pytest.mark.anyio
async def test_a_skill_may_be_called_like_a_command(tmp_path: Path) -> None:
    """CAT-082: if it says so, and no command has its name; the arguments are the text, and nothing in it runs or is
    replaced."""
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "script.sh").touch()
    content = "Run !`rm x` with $1 and @file.\n"
    skills = [
        Skill(name="deploy", description="d", slash=True, location=str(folder / "SKILL.md"), content=content),
        Skill(name="quiet", location="/s/quiet.md", content="q"),
        Skill(name="init", slash=True, location="/s/init.md", content="not this one"),
    ]

    async def known() -> list[Skill]:
        return skills

    found = Commands(Batches(), skills=known)
    found.state.transform(builtin_commands(tmp_path), Scope(), phase=Phase.BUILTIN)
    assert [command.name for command in await found.callable()] == ["init", "review", "deploy"]
    called = await found.invoke("deploy", "to prod", no_shell)
    assert called.command == Command(name="deploy", template=content, description="d")
    assert called.template == FilledTemplate(arguments=((0, 7),))
    assert (called.skill, called.text) == ("deploy", "to prod")
    assert (await found.invoke("deploy", " ", no_shell)).text == ""
    assert "not this one" not in (await found.invoke("init", "", no_shell)).text
    for name in ("quiet", "gone"):
        with pytest.raises(CommandNotFound):
            await found.invoke(name, "", no_shell)


def test_a_command_on_the_wire() -> None:
    """CAT-075: what was not said is left out."""
    assert encode(Command(name="a", template="t")) == b'{"name":"a","template":"t"}'
    full = Command(name="a", template="t", model=ModelRef(id="m", provider_id="p"), subtask=True)
    assert encode(full) == b'{"name":"a","template":"t","model":{"id":"m","providerID":"p"},"subtask":true}'


def test_an_update_cannot_change_the_name_of_a_command() -> None:
    """CAT-140."""
    draft = CommandDraft()
    draft.update("a", lambda _: Command(name="b", template="t"))
    assert draft.list() == (Command(name="a", template="t"),)
