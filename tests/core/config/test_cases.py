"""Configurations as people have them, of both generations, and what each resolves to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.agent.configured import configured_agents
from holdfast.core.agent.draft import AgentDraft
from holdfast.core.command.command import CommandDraft
from holdfast.core.command.configured import configured_commands
from holdfast.core.config.config import load_config
from holdfast.core.config.trust import TRUST_EVERYTHING, TRUST_NOTHING
from holdfast.core.plugin.external import external_plugins
from holdfast.core.policy.policy import Policy
from holdfast.schema.codec import encode

CASES = Path(__file__).parent / "cases"
PROVIDERS = ("anthropic", "evil", "ollama", "openai")
VARIABLES = {"CORP_KEY": "corp-secret-key", "C7": "c7-secret-key"}


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_configuration_case_gives_its_expected_result_and_problems(case: str, tmp_path: Path) -> None:
    """CAT-021, CAT-027, CAT-031, CAT-033, CAT-037, CAT-038, CAT-039, CAT-040, CAT-046, CAT-062, CAT-064, CAT-075,
    CAT-147: the whole of it, problems included."""
    assert resolved(CASES / case, tmp_path) == json.loads((CASES / case / "expected.json").read_text())


def resolved(case: Path, tmp_path: Path) -> dict[str, Any]:
    shutil.copytree(case, tmp_path, dirs_exist_ok=True)
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    environment = {"HOME": str(tmp_path), "OPENCODE_CONFIG_DIR": str(home), **VARIABLES}
    trust = TRUST_NOTHING if case.name.startswith("hostile") else TRUST_EVERYTHING
    config = load_config(project, project, environment, trust=trust)
    agents = configured_agents(config, environment)
    commands = configured_commands(config)
    plugins = external_plugins(config, environment)
    agent_draft, command_draft = AgentDraft(), CommandDraft()
    agents.transform(agent_draft)
    commands.transform(command_draft)
    policy = Policy(config.documents())
    problems = (*config.diagnostics(), *agents.diagnostics, *commands.diagnostics, *plugins.diagnostics)
    found = {
        "config": config.effective(),
        "default_agent": agent_draft.default,
        "agents": [json.loads(encode(agent)) for agent in agent_draft.list()],
        "commands": [json.loads(encode(command)) for command in command_draft.list()],
        "plugins": [plugin.name for plugin in plugins.plugins],
        "allowed": [id for id in PROVIDERS if policy.allows_provider(id)],
        "problems": [
            f"{problem.severity} {problem.path}:{problem.line or 0} {problem.message}"
            + (f" -> {problem.suggestion}" if problem.suggestion else "")
            for problem in problems
        ],
    }
    text = json.dumps({key: value for key, value in found.items() if value})
    assert not any(secret in text for secret in VARIABLES.values())
    return json.loads(text.replace(str(tmp_path), "/place"))  # type: ignore[no-any-return]
