"""Agents of configuration: documents and markdown files, each at the position of its document or folder.

Invariants
- Every document's global rules come first, for agents that exist and for those made here; an agent's own rules follow.
- An agent that was disabled and named again later starts from nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.document import Diagnostic, Document
from holdfast.core.config.environment import home_directory
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.migrate import migrate_agent, migrate_permissions
from holdfast.core.config.model import patched_model
from holdfast.core.config.schema import Agent as AgentSection
from holdfast.core.config.validate import Problem, validate_agent, validate_rules
from holdfast.core.permission.rules import expand_home
from holdfast.schema.agent import Agent, ProviderRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.config.config import Config

ENVIRONMENT_RULES = "OPENCODE_PERMISSION"

_KEYS = frozenset(AgentSection.__struct_encode_fields__)


class InvalidEnvironmentRules(Exception):
    """OPENCODE_PERMISSION says something that cannot be read; starting without it would be unsafe."""


class AgentPatch(Frozen):
    id: str
    data: dict[str, Any]
    """As under `agents` in a document, and as valid."""


class ConfiguredAgents(Frozen):
    default: str | None = None
    rules: tuple[Rule, ...] = ()
    """The global ones of all documents."""
    patches: tuple[AgentPatch, ...] = ()
    last_rules: tuple[Rule, ...] = ()
    """From the environment, after everything else."""
    home: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()

    def transform(self, draft: AgentDraft) -> None:
        if self.default is not None:
            draft.default = self.default
        for agent in draft.list():
            draft.update(agent.id, lambda agent: _with_rules(agent, self.rules))
        for patch in self.patches:
            if patch.data.get("disabled"):
                draft.remove(patch.id)
                continue
            start = () if draft.get(patch.id) is not None else self.rules
            draft.update(patch.id, partial(self._patched, start, patch.data))

    def transform_last(self, draft: AgentDraft) -> None:
        for agent in draft.list():
            draft.update(agent.id, lambda agent: _with_rules(agent, self.last_rules))

    def _patched(self, start: tuple[Rule, ...], data: dict[str, Any], agent: Agent) -> Agent:
        request = data.get("request", {})
        fields = {
            key: data[key] for key in ("system", "description", "mode", "hidden", "color", "steps") if key in data
        }
        return msgspec.structs.replace(
            agent,
            **fields,
            model=patched_model(agent.model, data.get("model"), data.get("variant")),
            request=ProviderRequest(
                headers={**agent.request.headers, **request.get("headers", {})},
                body={**agent.request.body, **request.get("body", {})},
            ),
            permissions=(*agent.permissions, *start, *_rules(data.get("permissions", ()), self.home)),
        )


def configured_agents(config: Config, environment: Mapping[str, str]) -> ConfiguredAgents:
    """Reads the agent files of every configuration folder; raises InvalidEnvironmentRules."""
    home = str(home_directory(environment))
    patches: list[AgentPatch] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            patches += (AgentPatch(id, data) for id, data in entry.data.get("agents", {}).items())
        else:
            patches += _files(entry.path, problems)
    default = config.latest("default_agent")
    return ConfiguredAgents(
        default=default if isinstance(default, str) else None,
        rules=tuple(
            rule for document in config.documents() for rule in _rules(document.data.get("permissions", ()), home)
        ),
        patches=tuple(patches),
        last_rules=_environment_rules(environment, home),
        home=home,
        diagnostics=tuple(problems),
    )


def _files(directory: Path, problems: list[Diagnostic]) -> Iterator[AgentPatch]:
    for names, recursive, forced in ((("agent", "agents"), True, {}), (("mode", "modes"), False, {"mode": "primary"})):
        for file in read_markdown(directory, names, problems, recursive=recursive):
            data = {key: value for key, value in file.content.data.items() if value is not None}
            if data.keys() - _KEYS:
                data = migrate_agent(data)
            # Without a body the file only adjusts an agent; it does not silence it.
            if body := file.content.body.strip():
                data = {**data, "system": body}
            if (valid := validate_agent({**data, **forced}, file.reporter(problems))) is not None:
                yield AgentPatch(file.name, valid)


def _environment_rules(environment: Mapping[str, str], home: str) -> tuple[Rule, ...]:
    text = environment.get(ENVIRONMENT_RULES, "").strip()
    if not text:
        return ()
    problems: list[Problem] = []
    try:
        value = decode(text).value
    except InvalidJson as error:
        raise InvalidEnvironmentRules(f"{ENVIRONMENT_RULES} {error}") from None
    rules = validate_rules(value if isinstance(value, list) else migrate_permissions(value), problems.append)
    if problems:
        raise InvalidEnvironmentRules(f"{ENVIRONMENT_RULES} has a rule that cannot be read: {problems[0].message}")
    return tuple(_rules(rules, home))


def _rules(rules: Any, home: str) -> Iterator[Rule]:
    return (expand_home(msgspec.convert(rule, Rule), home) for rule in rules)


def _with_rules(agent: Agent, rules: tuple[Rule, ...]) -> Agent:
    return msgspec.structs.replace(agent, permissions=(*agent.permissions, *rules))
