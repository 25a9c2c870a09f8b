"""Harbor: the miniature task of `examples/harbor`, solved over ACP as Harbor's generic ACP agent drives it, without
containers; and the manifests in `deploy/acp`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.outside.acp_editor import editor
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World

from acp import text_block
from holdfast.schema.version import __version__

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
TASK = ROOT / "examples" / "harbor" / "greeting"
OFFERED = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def reward(world: World) -> str:
    """What the task's own verifier says."""
    file = world.home / "logs" / "reward.txt"
    environment = {"PATH": os.environ["PATH"], "REWARD_FILE": str(file)}
    script = str(TASK / "tests" / "test.sh")
    subprocess.run(["bash", script], cwd=world.project, env=environment, check=True, timeout=PATIENCE)
    return file.read_text().strip()


async def test_the_miniature_task_is_solved_over_acp(world: World) -> None:
    """ACP-091: the instruction is the prompt, the model is chosen as an option, the verifier gives the reward."""
    world.configure(model="demo/echo", permission={"edit": "ask", "bash": "ask"})
    shutil.copy(TASK / "environment" / "app" / "greet.py", world.project)
    assert reward(world) == "0"
    world.model.plays(
        calling("read", path="greet.py"),
        calling("edit", path="greet.py", oldString="argv[0]", newString="argv[1]"),
        calling("bash", command="python3 greet.py Ada"),
        Turn(text="It greets now."),
    )
    async with editor(world, OFFERED) as ed:
        path = str(world.project.resolve() / "greet.py")
        ed.files[path] = Path(path).read_text()
        ed.saves = True
        made = await ed.connection.new_session(cwd=str(world.project), mcp_servers=[])
        [option] = [one for one in made.config_options or [] if one.category == "model"]
        await ed.connection.set_config_option(config_id=option.id, session_id=made.session_id, value="mock/m")
        instruction = (TASK / "instruction.md").read_text()
        answer = await ed.connection.prompt(session_id=made.session_id, prompt=[text_block(instruction)])
        assert answer.stop_reason == "end_turn"
        assert len(ed.asked) == 2
        assert "Hello, Ada!" in world.model.last.results[-1]
    assert reward(world) == "1"


def test_the_manifests_have_the_form_of_the_registry() -> None:
    """ACP-090"""
    manifest = json.loads((ROOT / "deploy" / "acp" / "agent.json").read_text())
    assert {"id", "name", "version", "description", "distribution", "license_url"} <= manifest.keys()
    assert re.fullmatch(r"[a-z][a-z0-9-]*", manifest["id"])
    assert manifest["version"] == __version__
    started = manifest["distribution"]["uvx"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert started == {"package": f"{project['name']}=={__version__}", "args": ["acp"]}
    assert project["name"] in project["scripts"]  # `uvx` starts the command that is called as the package
    icon = (ROOT / "deploy" / "acp" / "icon.svg").read_text()
    assert 'width="16" height="16"' in icon
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', icon)) == {"none", "currentColor"}
    local = json.loads((ROOT / "deploy" / "acp" / "harbor-local.json").read_text())
    assert local["distribution"]["local"] == {"cmd": "holdfast", "args": ["acp"]}
    assert local["version"] == __version__
