"""Configured agents, from documents and Markdown files, in the priority order of their document or folder.

Invariants
- The global rules of all documents come first, for existing and new agents; an agent's own rules follow.
- Denials that make up a built-in agent are repeated after the global rules: only rules for that agent lift them.
- An agent that was disabled and is defined again later starts empty.
- What the user's rules ask or deny stays asked or denied: they are also a fence. Rules of a preset are nothing else.
- Rules of an untrusted project are only a fence. An agent that it defines has the permissions of `build`, restricted by
  its own rules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config import schema
from holdfast.core.config.authority import NOT_TRUSTED, restrict_agent
from holdfast.core.config.document import Document
from holdfast.core.config.environment import home_directory
from holdfast.core.config.markdown import read_markdown
from holdfast.core.config.migrate import migrate_agent
from holdfast.core.config.model import patched_model
from holdfast.core.config.rules import environment_rules, global_rules, written_rules
from holdfast.core.config.unsupported import misspelled, sent_to_the_model
from holdfast.core.config.validate import validate_agent
from holdfast.core.diagnostic import Diagnostic
from holdfast.schema.agent import Agent, ProviderRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.config.authority import Grant
    from holdfast.core.config.config import Config
    from holdfast.core.config.document import Directory, Origin

BASE = "build"
"""Agents of untrusted projects have at most the permissions of this agent."""
BUILT_IN = frozenset(("build", "plan", "general", "explore", "compaction", "title", "summary"))
KEPT = {
    "plan": frozenset(("edit", "sandbox_escape")),
    "general": frozenset(("subagent",)),
    "explore": frozenset(("subagent",)),
}
"""Actions of built-in agents that global rules do not change. Stricter user rules still count as a fence."""
ASK = Rule(action="*", resource="*", effect="ask")

_KEYS = frozenset(schema.Agent.__struct_encode_fields__)


class AgentPatch(Frozen):
    id: str
    data: dict[str, Any]
    """Valid data, as under `agents` in a document."""
    origin: Origin = "user"


class ConfiguredAgents(Frozen):
    default: str | None = None
    rules: tuple[Rule, ...] = ()
    """Global rules of the user and of trusted projects, without those of presets."""
    user_rules: tuple[Rule, ...] = ()
    """Global rules of the user."""
    narrowing: tuple[Rule, ...] = ()
    """Global rules of untrusted projects."""
    patches: tuple[AgentPatch, ...] = ()
    last_rules: tuple[Rule, ...] = ()
    """From the environment; they come last."""
    home: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()

    def transform(self, draft: AgentDraft) -> None:
        if self.default is not None:
            draft.default = self.default
        for agent in draft.list():
            draft.update(agent.id, lambda agent: _with_rules(agent, (*self.rules, *self._kept(agent))))
        for patch in self.patches:
            if patch.data.get("disabled"):
                draft.remove(patch.id)
                continue
            start = () if draft.get(patch.id) is not None else self._first_rules(draft, patch)
            draft.update(patch.id, partial(self._patched, start, patch))

    def transform_last(self, draft: AgentDraft) -> None:
        for agent in draft.list():
            draft.update(agent.id, lambda agent: _with_rules(agent, self.last_rules))
            draft.update(agent.id, lambda agent: msgspec.structs.replace(agent, fences=self._fences(agent.id)))

    def _kept(self, agent: Agent) -> tuple[Rule, ...]:
        """Rules of a built-in agent that are repeated after the global ones."""
        kept = KEPT.get(agent.id, ()) if self.rules else ()
        return tuple(rule for rule in agent.permissions if rule.action in kept)

    def _first_rules(self, draft: AgentDraft, patch: AgentPatch) -> tuple[Rule, ...]:
        """The first rules of an agent that this patch creates."""
        base = draft.get(BASE) if patch.origin == "untrusted" else None
        return base.permissions if base is not None else self.rules

    def _fences(self, id: str) -> tuple[tuple[Rule, ...], ...]:
        user = (*self.user_rules, *self._own_rules(id, "user"), *self.last_rules)
        fences = [user] if any(rule.effect != "allow" for rule in user) else []
        untrusted = (*self.narrowing, *self._own_rules(id, "untrusted"))
        if id not in BUILT_IN and self._made_by(id) == "untrusted":
            untrusted = (ASK, *untrusted)
        return tuple((*fences, untrusted) if untrusted else fences)

    def _made_by(self, id: str) -> Origin:
        made = (patch.origin for patch in self.patches if patch.id == id and not patch.data.get("disabled"))
        return next(made, "user")

    def _own_rules(self, id: str, origin: Origin) -> tuple[Rule, ...]:
        mine = (patch for patch in self.patches if patch.id == id and patch.origin == origin)
        return tuple(rule for patch in mine for rule in written_rules(patch.data.get("permissions", ()), self.home))

    def _patched(self, start: tuple[Rule, ...], patch: AgentPatch, agent: Agent) -> Agent:
        data = patch.data
        own = () if patch.origin == "untrusted" else written_rules(data.get("permissions", ()), self.home)
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
            permissions=(*agent.permissions, *start, *own),
        )


def configured_agents(config: Config, environment: Mapping[str, str]) -> ConfiguredAgents:
    """Read the agents of all documents and configuration folders. Raises InvalidEnvironmentRules."""
    home = str(home_directory(environment))
    patches: list[AgentPatch] = []
    problems: list[Diagnostic] = []
    for entry in config.entries():
        if isinstance(entry, Document):
            patches += (AgentPatch(id, data, entry.origin) for id, data in entry.data.get("agents", {}).items())
        else:
            patches += _files(entry, config, problems)
    default = config.latest("default_agent")
    return ConfiguredAgents(
        default=default if isinstance(default, str) else None,
        rules=global_rules(_documents(config, "user", "project"), home),
        user_rules=global_rules(_documents(config, "user", presets=True), home),
        narrowing=global_rules(_documents(config, "untrusted"), home),
        patches=tuple(patches),
        last_rules=environment_rules(environment, home),
        home=home,
        diagnostics=tuple(problems),
    )


def _documents(config: Config, *origins: Origin, presets: bool = False) -> list[Document]:
    return [one for one in config.documents() if one.origin in origins and (presets or not one.preset)]


def _files(folder: Directory, config: Config, problems: list[Diagnostic]) -> Iterator[AgentPatch]:
    resolve = config.resolver(folder)
    for names, recursive, forced in ((("agent", "agents"), True, {}), (("mode", "modes"), False, {"mode": "primary"})):
        for file in read_markdown(folder.path, names, problems, recursive=recursive, resolve=resolve):
            data = {key: value for key, value in file.content.data.items() if value is not None}
            if data.keys() - _KEYS:
                near = misspelled(data)
                problems += (Diagnostic(file.path, f"{name}: {sent_to_the_model(known)}") for name, known in near)
                data = migrate_agent(data)
            # A file without a body changes an agent but keeps its system text.
            if body := file.content.body.strip():
                data = {**data, "system": body}
            if (valid := validate_agent({**data, **forced}, file.reporter(problems))) is not None:
                if not folder.trusted:
                    grants: list[Grant] = []
                    valid = restrict_agent(file.name, valid, grants)
                    problems += (Diagnostic(file.path, f"{grant.wants}; {NOT_TRUSTED}") for grant in grants)
                yield AgentPatch(file.name, valid, folder.origin)


def _with_rules(agent: Agent, rules: tuple[Rule, ...]) -> Agent:
    return msgspec.structs.replace(agent, permissions=(*agent.permissions, *rules))
