"""Decides which settings of a project need the user's trust, and removes them while it is missing.

Invariants
- What is left of an untrusted document only restricts what the user allowed: it names no address, no program and no
  file outside the project, reads no variable and does not change the runtime.
- Every removed setting is reported as a Grant, with its value as written in the file: a changed value is a new Grant.
- Permission rules, policies, shell commands in templates and agents of commands stay in the document. Rules of an
  untrusted document count as a fence (`core/permission/rules.py`), its policies yield to the user's own, its templates
  are expanded without their commands, and its commands are answered by the agent of the Session."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from holdfast.core.permission.wildcard import matches
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.config.validate import Trail

    Outside = Callable[[str], bool]

SHELL_INSERT = "!`"
SHELL_COMMAND = r"!`([^`\n]+)`"
NOT_TRUSTED = "ignored, because this project is not trusted"
SHOWN_CHARACTERS = 200

_TRUSTED_KEYS = {
    "shell": "chooses the program that runs commands",
    "formatter": "names programs that format files",
    "lsp": "names language servers",
    "enterprise": "names a server of an organisation",
}
NARROWED = frozenset(("budget", "subagents"))
"""Settings of `holdfast` that count without trust where they are stricter than the user's own."""
CONTROLS = frozenset(
    """temperature top_p topP top_k topK seed max_tokens maxTokens max_output_tokens maxOutputTokens reasoningEffort
    reasoning_effort reasoningSummary textVerbosity verbosity thinking""".split()  # noqa: SIM905
)
"""Body fields that only control how a model answers."""
ASKED_BY_DEFAULT = (
    ("external_directory", "*"),
    ("question", "*"),
    ("sandbox_escape", "*"),
    ("subagent", "*"),
    ("task", "*"),
    ("read", "*.env"),
    ("read", "*.env.*"),
    ("edit", ".git/*"),
    ("edit", "opencode.json"),
    ("edit", ".opencode/*"),
)
"""Actions and resources that the built-in agents do not allow without asking."""
BUILTIN_ACTIONS = frozenset(
    """read edit write patch bash glob grep list skill subagent todowrite todoread webfetch websearch codesearch task
    lsp doom_loop""".split()  # noqa: SIM905
)
"""Actions of the built-in tools. Any other action may belong to a plugin's tool, which asks by default."""


class Grant(Frozen):
    """A setting that has no effect without trust."""

    trail: Trail
    wants: str
    """What the setting does, in words for the user."""
    value: Any
    """As written in the file."""


def restrict_document(
    data: Mapping[str, Any], outside: Outside, strict: Sequence[Mapping[str, str]] = ()
) -> tuple[dict[str, Any], list[Grant]]:
    """The document without the settings that need trust, and those settings. `data` is valid and migrated. `outside`
    tells whether a path leads out of the project. `strict` are the user's rules that ask or deny; a rule that allows
    what they cover is reported as a grant."""
    grants: list[Grant] = []
    kept: dict[str, Any] = {}
    for key, value in data.items():
        if key in _TRUSTED_KEYS:
            grants.append(Grant((key,), _TRUSTED_KEYS[key], value))
        elif (restrict := _RESTRICTIONS.get(key)) is not None:
            if rest := restrict(value, grants, outside):
                kept[key] = rest
        else:
            kept[key] = value
    grants += rule_grants(("permissions",), "everything here", data.get("permissions", ()), strict)
    for id, agent in data.get("agents", {}).items():
        grants += rule_grants(("agents", id, "permissions"), f"the agent {id}", agent.get("permissions", ()), strict)
    for name, command in data.get("commands", {}).items():
        grants += command_grants(("commands", name), name, command)
    return kept, grants


def digest(grants: Iterable[Grant]) -> str:
    """A digest that does not depend on the order of the grants."""
    encoded = sorted(msgspec.json.encode((grant.trail, grant.value), order="sorted") for grant in grants)
    return hashlib.sha256(b"\n".join(encoded)).hexdigest()


def is_address(text: str) -> bool:
    return "://" in text or text.startswith(("git@", "github:", "gitlab:"))


def _providers(value: Mapping[str, Any], grants: list[Grant], outside: Outside) -> None:
    for id, provider in value.items():
        hosts = ", ".join(sorted(set(_hosts(provider))))
        wants = f"configures the provider {id} at {hosts}" if hosts else f"configures the provider {id}"
        grants.append(Grant(("providers", id), wants, provider))


def _hosts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _hosts(item)
    elif isinstance(value, str) and "://" in value:
        try:
            yield urlsplit(value).netloc.rpartition("@")[2] or value[:SHOWN_CHARACTERS]
        except ValueError:
            yield value[:SHOWN_CHARACTERS]


def _plugins(value: Sequence[Any], grants: list[Grant], outside: Outside) -> None:
    for index, plugin in enumerate(value):
        name = plugin if isinstance(plugin, str) else plugin["package"]
        grants.append(Grant(("plugins", index), f"runs the plugin {name}", plugin))


def _mcp(value: Mapping[str, Any], grants: list[Grant], outside: Outside) -> dict[str, Any]:
    """Keeps entries that only disable a server; all others start or contact something."""
    kept: dict[str, Any] = {}
    for name, server in value.get("servers", {}).items():
        if server == {"disabled": True}:
            kept[name] = server
            continue
        what = " ".join(server["command"]) if "command" in server else server.get("url", "a server of another file")
        grants.append(Grant(("mcp", "servers", name), f"uses the MCP server {name}: {what}"[:SHOWN_CHARACTERS], server))
    rest = {key: item for key, item in value.items() if key != "servers"}
    return {**rest, "servers": kept} if kept else rest


def _paths(name: str, wants: str) -> Callable[[Sequence[str], list[Grant], Outside], list[str]]:
    """For lists of paths and addresses: keeps the paths inside the project."""

    def restrict(value: Sequence[str], grants: list[Grant], outside: Outside) -> list[str]:
        kept: list[str] = []
        for index, text in enumerate(value):
            if is_address(text) or outside(text):
                grants.append(Grant((name, index), f"{wants} {text}"[:SHOWN_CHARACTERS], text))
            else:
                kept.append(text)
        return kept

    return restrict


def _references(value: Mapping[str, Any], grants: list[Grant], outside: Outside) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, reference in value.items():
        target = reference if isinstance(reference, str) else reference.get("path") or reference.get("repository", "")
        named = isinstance(reference, dict) and "repository" in reference
        if named or is_address(target) or outside(target):
            grants.append(Grant(("references", name), f"refers to {target}"[:SHOWN_CHARACTERS], reference))
        else:
            kept[name] = reference
    return kept


def _agents(value: Mapping[str, Any], grants: list[Grant], outside: Outside) -> dict[str, Any]:
    return {id: restrict_agent(id, agent, grants) for id, agent in value.items()}


def restrict_agent(id: str, agent: Mapping[str, Any], grants: list[Grant]) -> dict[str, Any]:
    """The agent without its request headers and body fields, except model controls: a header or a body field can make a
    provider contact other services."""
    request = agent.get("request", {})
    body = request.get("body", {})
    extra = {name: item for name, item in body.items() if name not in CONTROLS}
    if not (extra or request.get("headers")):
        return dict(agent)
    grants.append(Grant(("agents", id, "request"), f"adds to every request of the agent {id}", request))
    kept = {name: item for name, item in body.items() if name in CONTROLS}
    rest = {key: item for key, item in agent.items() if key != "request"}
    return {**rest, "request": {"body": kept}} if kept else rest


def _holdfast(value: Mapping[str, Any], grants: list[Grant], outside: Outside) -> dict[str, Any]:
    rest = {key: item for key, item in value.items() if key not in NARROWED}
    if rest:
        grants.append(Grant(("holdfast",), "changes how this runtime works", rest))
    return {key: item for key, item in value.items() if key in NARROWED}


_RESTRICTIONS: dict[str, Callable[[Any, list[Grant], Outside], Any]] = {
    "providers": _providers,
    "plugins": _plugins,
    "mcp": _mcp,
    "instructions": _paths("instructions", "loads instructions from"),
    "skills": _paths("skills", "loads skills from"),
    "references": _references,
    "agents": _agents,
    "holdfast": _holdfast,
}


def rule_grants(
    trail: Trail, whom: str, rules: Sequence[Mapping[str, str]], strict: Sequence[Mapping[str, str]]
) -> Iterator[Grant]:
    """Rules that allow what the user or the built-in agents ask about or deny. All other rules have the same effect
    with and without trust."""
    known = [*ASKED_BY_DEFAULT, *((rule["action"], rule["resource"]) for rule in strict)]
    for index, rule in enumerate(rules):
        if rule["effect"] == "allow" and _needs_trust(rule, known):
            wants = f"allows {rule['action']} on {rule['resource']} for {whom}"
            yield Grant((*trail, index), wants[:SHOWN_CHARACTERS], rule)


def _needs_trust(rule: Mapping[str, str], known: Sequence[tuple[str, str]]) -> bool:
    return rule["action"] not in BUILTIN_ACTIONS or any(
        _overlap(rule["action"], action) and _overlap(rule["resource"], resource) for action, resource in known
    )


def _overlap(one: str, other: str) -> bool:
    """Whether one pattern matches the other. Two patterns that overlap only partly are not detected."""
    return matches(one, other) or matches(other, one)


def command_grants(trail: Trail, name: str, command: Mapping[str, Any]) -> Iterator[Grant]:
    """The shell commands of a template, and the agent of a command: it decides what is allowed without asking."""
    template, agent = command["template"], command.get("agent")
    if agent is not None:
        wants = f"chooses the agent {agent} when the command {name} is used"
        yield Grant((*trail, "agent"), wants[:SHOWN_CHARACTERS], agent)
    if SHELL_INSERT in template and (found := re.findall(SHELL_COMMAND, template)):
        wants = f"runs when the command {name} is used: {'; '.join(found)}"
        yield Grant((*trail, "template"), wants[:SHOWN_CHARACTERS], template)
