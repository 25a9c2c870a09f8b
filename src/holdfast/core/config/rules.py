"""Permission rules as configuration and the environment write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.environment import home_directory
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.migrate import migrate_permissions
from holdfast.core.config.validate import validate_rules
from holdfast.core.permission.project_reads import ProjectReads
from holdfast.core.permission.protected import READ_RULES
from holdfast.core.permission.rules import expand_home
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.config.document import Document
    from holdfast.core.config.reading import ConfigLocation
    from holdfast.core.config.validate import Problem
    from holdfast.core.filesystem.own_folders import OwnFolders

ENVIRONMENT_RULES = "OPENCODE_PERMISSION"
OTHER_ACTIONS = {"task": "subagent"}
"""What OpenCode calls an action in other generations. A rule about it counts for both."""


class InvalidEnvironmentRules(HoldfastError):
    """OPENCODE_PERMISSION says something that cannot be read; starting without it would be unsafe."""


def global_rules(documents: Iterable[Document], home: str) -> tuple[Rule, ...]:
    """The rules of these documents that apply to every agent, in their order."""
    return tuple(rule for document in documents for rule in written_rules(document.data.get("permissions", ()), home))


def environment_rules(environment: Mapping[str, str], home: str) -> tuple[Rule, ...]:
    """The rules of OPENCODE_PERMISSION. Raises InvalidEnvironmentRules."""
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
    return tuple(written_rules(rules, home))


def written_rules(rules: Iterable[Any], home: str) -> Iterator[Rule]:
    """Valid rules of a document as records, with `~` spelled out and former names of actions added."""
    for written in rules:
        rule = expand_home(msgspec.convert(written, Rule), home)
        yield rule
        if (other := OTHER_ACTIONS.get(rule.action)) is not None:
            yield msgspec.structs.replace(rule, action=other)


def project_reads(documents: Iterable[Document], location: ConfigLocation, own: OwnFolders) -> ProjectReads:
    """What the project may make Holdfast read; `documents` are those of the user."""
    documents, home = list(documents), str(home_directory(location.environment))
    try:
        last = environment_rules(location.environment, home)
    except InvalidEnvironmentRules:  # opening the Location fails; until then nothing is read
        last = (Rule(action="*", resource="*", effect="deny"),)
    agents = (agent for document in documents for agent in document.data.get("agents", {}).values())
    of_agents = (rule for agent in agents for rule in written_rules(agent.get("permissions", ()), home))
    strict = [rule for rule in of_agents if rule.effect != "allow" and rule.resource != "*"]
    rules = (*READ_RULES, *global_rules(documents, home), *last)
    return ProjectReads(rules, strict, str(location.directory), str(location.root), own)
