"""Validates one document against the schema. An invalid entry is dropped alone; an invalid rule becomes a denial.

Invariants
- The result is valid, has no `null` and no unknown name, and is a new object.
- Everything that was dropped has been reported.
- An unreadable rule becomes `deny` for the action and resource it still names: losing a denial would be unsafe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec

from holdfast.core.config import holdfast_schema, schema
from holdfast.core.config.migrate import OLD_KEYS
from holdfast.core.config.section import Section
from holdfast.core.config.unsupported import OF_OPENCODE, OPENCODE_NAMES
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    import difflib
else:
    difflib = deferred("difflib")

Trail: TypeAlias = tuple[str | int, ...]
Object: TypeAlias = dict[str, Any]

LONGEST_NAME = 50
"""Longer names get no suggestion."""
MOST_SUGGESTIONS = 20
"""Per document: finding similar names is slow."""

_TYPES: dict[str, Any] = {field.encode_name: field.type for field in msgspec.structs.fields(schema.ConfigFile)}
_NAMED: dict[str, Any] = {
    "agents": schema.Agent,
    "commands": schema.Command,
    "references": str | schema.Reference,
    "providers": schema.Provider,
}
_RULES = frozenset(("permissions", "experimental"))
_DENY_ALL = {"action": "*", "resource": "*", "effect": "deny"}
_SUCCESSORS = {
    "prompt": "system",
    "disable": "disabled",
    "permission": "permissions",
    "tools": "permissions",
    "maxSteps": "steps",
    "npm": "api",
    "options": "request",
    "enabled": "disabled",
    "media": "attachments",
}
"""Current names of V1 keys, where the most similar name would be wrong."""


class Problem(Frozen):
    trail: Trail
    message: str
    fatal: bool = False
    suggestion: str | None = None


Report: TypeAlias = Callable[[Problem], None]


def validate(document: Object, report: Report) -> Object:
    if (valid := _if_valid(document)) is not None:
        return valid
    validation = _Validation(report)
    found = {key: validation.top(key, value) for key, value in document.items() if value is not None}
    valid = {key: value for key, value in found.items() if value is not None}
    if validation.closed:
        return {key: value for key, value in valid.items() if key in _RULES}
    return valid


def _if_valid(document: Object) -> Object | None:
    """The document if it is already valid, which is the usual case."""
    try:
        plain: Object = msgspec.to_builtins(msgspec.convert(document, schema.ConfigFile))
    except msgspec.ValidationError:
        return None
    return plain if plain == document else None


def validate_agent(agent: Object, report: Report) -> Object | None:
    """Validate an agent that has a file of its own."""
    found: Object | None = _Validation(report).agent(agent, ())
    return found


def validate_command(command: Object, report: Report) -> Object | None:
    found: Object | None = _Validation(report).entry(command, (), schema.Command)
    return found


def validate_rules(rules: Any, report: Report) -> list[Object]:
    return _Validation(report).rules(rules, (), schema.Rule, _DENY_ALL)


class _Validation:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._suggestions = MOST_SUGGESTIONS
        self.closed = False

    def top(self, key: str, value: Any) -> Any:
        if key not in _TYPES:
            self._unknown((key,), list(_TYPES), sorted(OLD_KEYS))
            return None
        match key:
            case "permissions":
                return self._closing(value, (key,), schema.Rule, _DENY_ALL)
            case "experimental":
                return self._experimental(value)
            case "mcp":
                return self._mcp(value)
            case "holdfast":
                return self._holdfast(value)
            case "plugins":
                return self._items(value, (key,), str | schema.Plugin)
            case _ if key in _NAMED:
                return self._entries(value, (key,), _NAMED[key])
            case _:
                return self._convert(value, (key,), _TYPES[key])

    def agent(self, agent: Object, trail: Trail) -> Any:
        rules = agent.get("permissions")
        found = self._convert(_without(agent, "permissions"), trail, schema.Agent)
        if rules is not None:
            # Keep the rules of an invalid agent: they may restrict a built-in one.
            rules = self.rules(rules, (*trail, "permissions"), schema.Rule, _DENY_ALL)
            found = {**(found or {}), "permissions": rules}
        return found

    def rules(self, rules: Any, trail: Trail, kind: type[Any], closed: Object) -> list[Object]:
        if not isinstance(rules, list):
            self._report(Problem(trail, "is not a list of rules; everything is denied", fatal=True))
            return [closed]
        return [self._rule(rule, (*trail, index), kind, closed) for index, rule in enumerate(rules)]

    def _rule(self, rule: Any, trail: Trail, kind: type[Any], closed: Object) -> Object:
        self._report_unknown(rule, trail, kind)
        try:
            return msgspec.to_builtins(msgspec.convert(rule, kind))  # type: ignore[no-any-return]
        except msgspec.ValidationError as error:
            given = rule if isinstance(rule, dict) else {}
            known = {key: given[key] for key in ("action", "resource") if isinstance(given.get(key), str)}
            self._report(Problem(trail, f"{_reason(error)}; read as deny", fatal=True))
            return {**closed, **known}

    def _closing(self, rules: Any, trail: Trail, kind: type[Any], closed: Object) -> list[Object]:
        problems: list[Problem] = []
        found = _Validation(problems.append).rules(rules, trail, kind, closed)
        for problem in problems:
            if problem.fatal:
                self.closed = True
                problem = problem.replace(message=f"{problem.message}, and the rest of this file is ignored")
            self._report(problem)
        return found

    def _experimental(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._convert(value, ("experimental",), schema.Experimental)
        found = self._convert(_without(value, "policies"), ("experimental",), schema.Experimental) or {}
        if (policies := value.get("policies")) is not None:
            closed = {"effect": "deny", "action": "provider.use", "resource": "*"}
            trail = ("experimental", "policies")
            statements = self._closing(policies, trail, schema.Statement, closed)
            found = {**found, "policies": [{**item, "action": "provider.use"} for item in statements]}
        return found or None

    def _mcp(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._convert(value, ("mcp",), schema.Mcp)
        found = self._convert(_without(value, "servers"), ("mcp",), schema.Mcp)
        servers = self._entries(value.get("servers") or {}, ("mcp", "servers"), None)
        return {**(found or {}), **({"servers": servers} if servers else {})} or None

    def _holdfast(self, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("sandbox") is None:
            return self._convert(value, ("holdfast",), holdfast_schema.Holdfast)
        found = self._convert(_without(value, "sandbox"), ("holdfast",), holdfast_schema.Holdfast) or {}
        return {**found, "sandbox": self._sandbox(value["sandbox"], ("holdfast", "sandbox"))}

    def _sandbox(self, value: Any, trail: Trail) -> Any:
        """An invalid value gives the strictest sandbox: a misspelled mode must not disable it."""
        self._report_unknown(value, trail, holdfast_schema.Sandbox)
        try:
            return msgspec.to_builtins(msgspec.convert({"sandbox": value}, holdfast_schema.Holdfast))["sandbox"]
        except msgspec.ValidationError as error:
            self._report(Problem(trail, f"{_reason(error)}; commands run read-only and without network", fatal=True))
            return {"mode": "read-only", "network": "off", "required": True}

    def _entries(self, entries: Any, trail: Trail, kind: Any) -> Any:
        if not isinstance(entries, dict):
            self._report(Problem(trail, "is not an object; ignored"))
            return None
        found = {name: self.entry(item, (*trail, name), kind) for name, item in entries.items() if item is not None}
        return {name: item for name, item in found.items() if item is not None}

    def entry(self, entry: Any, trail: Trail, kind: Any) -> Any:
        if not isinstance(entry, dict):
            return self._convert(entry, trail, kind or schema.ServerSwitch)
        if kind is schema.Agent:
            return self.agent(entry, trail)
        if kind is schema.Provider and entry.get("models") is not None:
            rest = self._convert(_without(entry, "models"), trail, kind)
            models = self._entries(entry["models"], (*trail, "models"), schema.Model)
            return None if rest is None else {**rest, **({} if models is None else {"models": models})}
        if kind is None:
            server = {"local": schema.LocalServer, "remote": schema.RemoteServer}.get(str(entry.get("type")))
            kind = server or (schema.LocalServer | schema.RemoteServer if "type" in entry else schema.ServerSwitch)
        return self._convert(entry, trail, kind)

    def _items(self, items: Any, trail: Trail, kind: Any) -> Any:
        if not isinstance(items, list):
            self._report(Problem(trail, "is not a list; ignored"))
            return None
        found = [self._convert(item, (*trail, index), kind) for index, item in enumerate(items)]
        return [item for item in found if item is not None]

    def _convert(self, value: Any, trail: Trail, kind: Any) -> Any:
        self._report_unknown(value, trail, kind)
        try:
            return msgspec.to_builtins(msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            try:
                loose = msgspec.to_builtins(msgspec.convert(value, kind, strict=False))
            except msgspec.ValidationError:
                self._report(Problem(trail, f"{_reason(error)}; ignored"))
                return None
            self._report(Problem(trail, f"{_reason(error)}; converted"))
            return loose

    def _report_unknown(self, value: Any, trail: Trail, kind: Any) -> None:
        shape = _shape(kind)
        if isinstance(value, dict) and shape.fields:
            for name in sorted(map(str, value.keys() - shape.fields.keys())):
                self._unknown((*trail, name), sorted(shape.fields))
            for name in value.keys() & shape.fields.keys():
                self._report_unknown(value[name], (*trail, name), shape.fields[name])
        elif isinstance(value, dict) and shape.values is not None:
            for name, item in value.items():
                self._report_unknown(item, (*trail, name), shape.values)
        elif isinstance(value, list) and shape.items is not None:
            for index, item in enumerate(value):
                self._report_unknown(item, (*trail, index), shape.items)

    def _unknown(self, trail: Trail, *known: list[str]) -> None:
        name = str(trail[-1])
        suggestion = _SUCCESSORS.get(name)
        self._suggestions -= 1
        if suggestion not in known[0] and self._suggestions >= 0 and len(name) < LONGEST_NAME:
            nearest = [near for names in known for near in difflib.get_close_matches(name, names, n=1)]
            suggestion = nearest[0] if nearest else None
        message = OF_OPENCODE if name in OPENCODE_NAMES else "is not a known name; ignored"
        self._report(Problem(trail, message, suggestion=suggestion))


def _without(value: Object, key: str) -> Object:
    return {name: item for name, item in value.items() if name != key}


class _TypeShape(Frozen):
    """What a value of a type may contain. Empty if it may contain anything."""

    fields: dict[str, Any]
    values: Any
    items: Any


@cache
def _shape(kind: Any) -> _TypeShape:
    fields: dict[str, Any] = {}
    values = items = None
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, Section):
            fields |= {field.encode_name: field.type for field in msgspec.structs.fields(part)}
            if part.__struct_config__.tag is not None:
                fields["type"] = str
        elif get_origin(part) is dict:
            values = get_args(part)[1]
        elif get_origin(part) is list:
            items = get_args(part)[0]
    return _TypeShape(fields, values, items)


def _parts(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    elif get_origin(kind) is Annotated:
        yield from _parts(get_args(kind)[0])
    else:
        yield kind


def _reason(error: msgspec.ValidationError) -> str:
    """The reason without the value, which may be a secret."""
    text, _, place = str(error).partition(" - at `$")
    if text.startswith("Invalid "):
        text = "is not one of the allowed words"
    place = place.rstrip("`").lstrip(".")
    return f"{place}: {text}" if place else text
