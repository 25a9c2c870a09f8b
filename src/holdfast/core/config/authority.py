"""Which settings of a project need its user's trust: the one place that decides it.

Invariants
- What is left of a document can only narrow what the user allowed: it names no address, no program and no file outside
  the project, reads no variable and changes nothing of the runtime.
- Everything that was taken away is told as a Grant, with its value as the file has it: a changed value is another one.
- Permission rules, policies and shell commands in templates stay in the document. Rules of an untrusted document count
  as a fence (`core/permission/rules.py`), a policy speaks only where the user's own says nothing, and templates are
  expanded without their commands."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from holdfast.core.permission.wildcard import matches
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.config.validate import Trail

    Outside = Callable[[str], bool]

SHELL_INSERT = "!`"
SHELL_COMMAND = pattern(r"!`([^`\n]+)`")
NOT_TRUSTED = "ignored, because this project is not trusted"
SHOWN_CHARACTERS = 200

_WHOLE = {
    "shell": "chooses the program that runs commands",
    "holdfast": "changes how this runtime works",
    "formatter": "names programs that format files",
    "lsp": "names language servers",
    "enterprise": "names a server of an organisation",
}
CONTROLS = frozenset(
    """temperature top_p topP top_k topK seed max_tokens maxTokens max_output_tokens maxOutputTokens reasoningEffort
    reasoning_effort reasoningSummary textVerbosity verbosity thinking""".split()  # noqa: SIM905
)
"""Body fields that say how a model answers and nothing else."""
ASKED_BY_DEFAULT = (
    ("external_directory", "*"),
    ("question", "*"),
    ("sandbox_escape", "*"),
    ("read", "*.env"),
    ("read", "*.env.*"),
    ("edit", ".git/*"),
    ("edit", "opencode.json"),
    ("edit", ".opencode/*"),
)
"""What the built-in agents do not simply allow, by action and resource."""
OWN_ACTIONS = frozenset(
    """read edit write patch bash glob grep list skill todowrite todoread webfetch websearch codesearch task lsp
    doom_loop""".split()  # noqa: SIM905
)
"""What tools that come along ask for. Any other action may be a plugin's tool, which is asked for by default."""


class Grant(Frozen):
    """A setting that has no effect without trust."""

    trail: Trail
    wants: str
    """What it would do, for people."""
    value: Any
    """As it is written."""


class Narrowed(NamedTuple):
    data: dict[str, Any]
    grants: tuple[Grant, ...]


def narrowed(data: Mapping[str, Any], outside: Outside, strict: Sequence[Mapping[str, str]] = ()) -> Narrowed:
    """`data` is a valid document in today's shape. `outside` tells whether a path of it leads out of the project.
    `strict` are rules of the user that ask or deny: allowing what they are about is reported as a grant."""
    grants: list[Grant] = []
    kept: dict[str, Any] = {}
    for key, value in data.items():
        if key in _WHOLE:
            grants.append(Grant((key,), _WHOLE[key], value))
        elif (take := _TAKERS.get(key)) is not None:
            if rest := take(value, grants, outside):
                kept[key] = rest
        else:
            kept[key] = value
    grants += _widening(data, strict)
    grants += _inserting(data.get("commands", {}))
    return Narrowed(kept, tuple(grants))


def digest(grants: Iterable[Grant]) -> str:
    """The same for the same grants in any order."""
    encoded = sorted(msgspec.json.encode((grant.trail, grant.value), order="sorted") for grant in grants)
    return hashlib.sha256(b"\n".join(encoded)).hexdigest()


def inserts(template: str) -> list[str]:
    """The shell commands that a template would run."""
    return SHELL_COMMAND.findall(template)


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
    """Switching a server off narrows; everything else starts or reaches something."""
    kept: dict[str, Any] = {}
    for name, server in value.get("servers", {}).items():
        if server == {"disabled": True}:
            kept[name] = server
            continue
        what = " ".join(server["command"]) if "command" in server else server.get("url", "a server of another file")
        grants.append(Grant(("mcp", "servers", name), f"uses the MCP server {name}: {what}"[:SHOWN_CHARACTERS], server))
    rest = {key: item for key, item in value.items() if key != "servers"}
    return {**rest, "servers": kept} if kept else rest


def _remote(name: str, wants: str) -> Callable[[Sequence[str], list[Grant], Outside], list[str]]:
    """For lists of paths and addresses: what lies in the project is kept."""

    def take(value: Sequence[str], grants: list[Grant], outside: Outside) -> list[str]:
        away = [is_address(text) or outside(text) for text in value]
        grants += (
            Grant((name, index), f"{wants} {text}"[:SHOWN_CHARACTERS], text)
            for index, text in enumerate(value)
            if away[index]
        )
        return [text for index, text in enumerate(value) if not away[index]]

    return take


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
    return {id: narrowed_agent(id, agent, grants) for id, agent in value.items()}


def narrowed_agent(id: str, agent: Mapping[str, Any], grants: list[Grant]) -> dict[str, Any]:
    """Without what it adds to its requests, but for controls of the model: a header or a body field can make a provider
    reach other services."""
    request = agent.get("request", {})
    body = request.get("body", {})
    extra = {name: item for name, item in body.items() if name not in CONTROLS}
    if not (extra or request.get("headers")):
        return dict(agent)
    grants.append(Grant(("agents", id, "request"), f"adds to every request of the agent {id}", request))
    kept = {name: item for name, item in body.items() if name in CONTROLS}
    rest = {key: item for key, item in agent.items() if key != "request"}
    return {**rest, "request": {"body": kept}} if kept else rest


_TAKERS: dict[str, Callable[[Any, list[Grant], Outside], Any]] = {
    "providers": _providers,
    "plugins": _plugins,
    "mcp": _mcp,
    "instructions": _remote("instructions", "loads instructions from"),
    "skills": _remote("skills", "loads skills from"),
    "references": _references,
    "agents": _agents,
}


def _widening(data: Mapping[str, Any], strict: Sequence[Mapping[str, str]]) -> Iterator[Grant]:
    yield from widening(("permissions",), "everything here", data.get("permissions", ()), strict)
    for id, agent in data.get("agents", {}).items():
        yield from widening(("agents", id, "permissions"), f"the agent {id}", agent.get("permissions", ()), strict)


def widening(
    trail: Trail, whom: str, rules: Sequence[Mapping[str, str]], strict: Sequence[Mapping[str, str]]
) -> Iterator[Grant]:
    """Rules that allow something which the user or the built-in agents ask about or deny. Other rules have the same
    effect with trust and without it."""
    known = [*ASKED_BY_DEFAULT, *((rule["action"], rule["resource"]) for rule in strict)]
    for index, rule in enumerate(rules):
        if rule["effect"] == "allow" and _is_asked_for(rule, known):
            wants = f"allows {rule['action']} on {rule['resource']} for {whom}"
            yield Grant((*trail, index), wants[:SHOWN_CHARACTERS], rule)


def _is_asked_for(rule: Mapping[str, str], known: Sequence[tuple[str, str]]) -> bool:
    return rule["action"] not in OWN_ACTIONS or any(_meets(rule, action, resource) for action, resource in known)


def _meets(rule: Mapping[str, str], action: str, resource: str) -> bool:
    return _overlap(rule["action"], action) and _overlap(rule["resource"], resource)


def _overlap(one: str, other: str) -> bool:
    """Whether something may match both patterns; two patterns that only meet in the middle are not seen."""
    return matches(one, other) or matches(other, one)


def _inserting(commands: Mapping[str, Any]) -> Iterator[Grant]:
    for name, command in commands.items():
        yield from inserting(("commands", name), name, command["template"])


def inserting(trail: Trail, name: str, template: str) -> Iterator[Grant]:
    if SHELL_INSERT in template and (found := inserts(template)):
        wants = f"runs when the command {name} is used: {'; '.join(found)}"
        yield Grant((*trail, "template"), wants[:SHOWN_CHARACTERS], template)
