"""Migrates documents from OpenCode's V1 format to the current one.

Only V1 keys are changed. A mixed file keeps its newer keys, which win. Values of a wrong type are passed on unchanged:
validation runs afterwards and reports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast.core.config.unsupported import AGENT_NAMES, report_unread

Object: TypeAlias = dict[str, Any]
Report: TypeAlias = Callable[[tuple[str | int, ...], str], None]

OLD_KEYS = frozenset(
    """logLevel server command reference snapshot plugin autoshare disabled_providers enabled_providers small_model
    mode agent provider permission tools attachment layout""".split()  # noqa: SIM905
)
WITHOUT_MEANING = ("logLevel", "server", "layout", "small_model")
"""Recognised keys without effect; they are reported."""

_RENAMED = {"snapshot": "snapshots", "attachment": "attachments", "command": "commands", "reference": "references"}
_OAUTH = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "callbackPort": "callback_port",
    "redirectUri": "redirect_uri",
}


def migrate(document: Object, report: Report) -> Object:
    report_unread(document, report)
    for key in WITHOUT_MEANING:
        if document.get(key) is not None:
            report((key,), "has no meaning here; ignored")
    for id, provider in _object(document.get("provider")).items():
        if _object(provider).get("whitelist") is not None:
            report(("provider", id, "whitelist"), "has no meaning here; name the models to leave out instead")
    for key in ("agent", "mode", "provider"):
        if document.get(key) is not None and not isinstance(document[key], dict):
            report((key,), "is not an object; ignored")
    new = {key: value for key, value in document.items() if key not in OLD_KEYS and value is not None}
    for old, renamed in _RENAMED.items():
        if old in document:
            new.setdefault(renamed, document[old])
    if document.get("autoshare") is True:
        new.setdefault("share", "auto")
    if "plugin" in document:
        new.setdefault("plugins", _each(document["plugin"], _plugin))
    if isinstance(skills := document.get("skills"), dict):
        new["skills"] = [*_list(skills.get("paths")), *_list(skills.get("urls"))]
    modes = _values(document.get("mode"), lambda agent: {**migrate_agent(agent), "mode": "primary"})
    _merge(new, "agents", {**_values(document.get("agent"), migrate_agent), **modes}, _agent_of_both)
    _rules(new, document)
    _merge(new, "providers", _values(document.get("provider"), migrate_provider))
    _mcp(new)
    _compaction(new)
    _policies(new, document)
    return new


def migrate_agent(agent: Object) -> Object:
    """Accepts both formats. Newer names are kept; all unknown names become model options."""
    kept = ("model", "variant", "description", "mode", "hidden", "color", "system", "disabled", "permissions")
    new: Object = {key: agent[key] for key in kept if agent.get(key) is not None}
    for old, renamed in (("prompt", "system"), ("disable", "disabled"), ("steps", "steps"), ("maxSteps", "steps")):
        if agent.get(old) is not None:
            new.setdefault(renamed, agent[old])
    body = {**_object(agent.get("options")), **{key: agent[key] for key in agent if key not in AGENT_NAMES}}
    body |= {key: agent[key] for key in ("temperature", "top_p") if agent.get(key) is not None}
    request = agent.get("request")
    if request is not None and not isinstance(request, dict):
        new["request"] = request
    elif body:
        new["request"] = {**_object(request), "body": {**body, **_object(_object(request).get("body"))}}
    elif request:
        new["request"] = request
    _rules(new, agent)
    return new


def migrate_permissions(permission: Any, tools: Any = None) -> Any:
    """Rules in written order, those of `tools` first. A part without an effect is passed on unchanged, so that
    validation rejects it."""
    if tools is not None and not isinstance(tools, dict):
        return {"tools": tools}
    rules: list[Any] = [
        {
            "action": "edit" if action in ("write", "patch") else action,
            "resource": "*",
            "effect": ("allow" if enabled else "deny") if isinstance(enabled, bool) else enabled,
        }
        for action, enabled in _object(tools).items()
        if enabled is not None
    ]
    if isinstance(permission, str):
        permission = {"*": permission}
    if permission is not None and not isinstance(permission, dict):
        return permission
    for action, found in _object(permission).items():
        if isinstance(found, dict):
            rules += [{"action": action, "resource": pattern, "effect": effect} for pattern, effect in found.items()]
        elif found is not None:
            rules.append({"action": action, "resource": "*", "effect": found})
    return rules


def migrate_provider(provider: Object) -> Object:
    options = _object(provider.get("options"))
    body = {key: value for key, value in options.items() if key not in ("headers", "body")}
    body |= _object(options.get("body"))
    new: Object = {key: provider[key] for key in ("name", "env") if key in provider}
    url = provider.get("api") or body.get("baseURL")
    if package := provider.get("npm"):
        body.pop("baseURL", None)
        new["api"] = _present(type="aisdk", package=package, url=url)
    elif url:
        body["baseURL"] = url
    if request := _present(headers=options.get("headers"), body=body or None):
        new["request"] = request
    models = _values(provider.get("models"), migrate_model)
    for id in _list(provider.get("blacklist")):
        if isinstance(id, str):
            models[id] = {**_object(models.get(id)), "disabled": True}
    if models or provider.get("models") is not None:
        new["models"] = models or provider["models"]
    return new


def migrate_model(model: Object) -> Object:
    new: Object = {key: model[key] for key in ("family", "name") if key in model}
    if "provider" in model and (named := _object(model["provider"])).get("npm"):
        new["api"] = _present(id=model.get("id"), type="aisdk", package=named["npm"], url=named.get("api"))
    elif model.get("id") is not None:
        new["api"] = {"id": model["id"]}
    modalities = _object(model.get("modalities"))
    if model.get("tool_call") is not None or modalities:
        new["capabilities"] = {
            "tools": model.get("tool_call") or False,
            # Text is the default: a model without text could not be selected automatically.
            "input": modalities.get("input") or ["text"],
            "output": modalities.get("output") or ["text"],
        }
    if model.get("structured_output") is not None:
        new["capabilities"] = {**new.get("capabilities", {}), "structured": model["structured_output"]}
    if "headers" in model or "options" in model:
        new["request"] = _present(headers=model.get("headers"), body=model.get("options"))
    if isinstance(variants := model.get("variants"), dict):
        new["variants"] = [
            {"id": id, "body": {key: value for key, value in _object(options).items() if key != "disabled"}}
            for id, options in variants.items()
            if _object(options).get("disabled") is not True
        ]
    elif variants is not None:
        new["variants"] = variants
    if (cost := model.get("cost")) is not None:
        new["cost"] = _cost(cost) if isinstance(cost, dict) else cost
    if model.get("status") == "deprecated":
        new["disabled"] = True
    if "limit" in model:
        new["limit"] = model["limit"]
    return new


def _cost(cost: Object) -> list[Object]:
    def price(part: Object) -> Object:
        new: Object = {key: part[key] for key in ("input", "output") if key in part}
        if cache := {key[6:]: part[key] for key in ("cache_read", "cache_write") if part.get(key) is not None}:
            new["cache"] = cache
        return new

    costs = [price(cost)]
    if isinstance(above := cost.get("context_over_200k"), dict):
        costs.append({"tier": {"type": "context", "size": 200_000}, **price(above)})
    return costs


def _rules(new: Object, old: Object) -> None:
    """Rules in the newer format come last and win; denials in the older format stay in force."""
    if old.get("permission") is None and old.get("tools") is None:
        return
    new["permissions"] = _joined(migrate_permissions(old.get("permission"), old.get("tools")), new.get("permissions"))


def _agent_of_both(old: Any, newer: Any) -> Any:
    """The newer definition, with the older rules in front of its own."""
    rules = _object(old).get("permissions")
    if rules is None or not isinstance(newer, dict):
        return newer
    return {**newer, "permissions": _joined(rules, newer.get("permissions"))}


def _joined(rules: Any, newer: Any) -> Any:
    """A value that is not a list is passed on unchanged, so that validation rejects it."""
    if newer is None or not isinstance(rules, list):
        return rules
    return [*rules, *newer] if isinstance(newer, list) else newer


def _mcp(new: Object) -> None:
    """Moves servers from `mcp` to `mcp.servers`; many files have only servers there."""
    mcp = _object(new.get("mcp"))
    old = {name: item for name, item in mcp.items() if name not in ("servers", "timeout") or _is_server(item)}
    current = {} if "servers" in old else _object(mcp.get("servers"))
    if old or current:
        servers = {name: _server(item) if isinstance(item, dict) else item for name, item in {**old, **current}.items()}
        new["mcp"] = {**{name: item for name, item in mcp.items() if name not in old}, "servers": servers}
    if _is_number(timeout := _object(new.get("mcp")).get("timeout")):
        new["mcp"] = {**new["mcp"], "timeout": _timeouts(timeout)}
    experimental = new.get("experimental")
    if isinstance(experimental, dict) and "mcp_timeout" in experimental:
        if rest := {key: value for key, value in experimental.items() if key != "mcp_timeout"}:
            new["experimental"] = rest
        else:
            del new["experimental"]
        mcp = _object(new.get("mcp"))
        new["mcp"] = {**mcp, "timeout": {**_timeouts(experimental["mcp_timeout"]), **_object(mcp.get("timeout"))}}


def _timeouts(milliseconds: Any) -> Object:
    """The one number of V1: it does not limit the start."""
    return {"catalog": milliseconds, "execution": milliseconds}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_server(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("local", "remote")


def _server(server: Object) -> Object:
    new = {key: value for key, value in server.items() if key != "enabled"}
    if isinstance(enabled := server.get("enabled"), bool):
        new.setdefault("disabled", not enabled)
    if _is_number(timeout := server.get("timeout")):
        new["timeout"] = _timeouts(timeout)
    if isinstance(oauth := server.get("oauth"), dict):
        new["oauth"] = {_OAUTH.get(key, key): value for key, value in oauth.items()}
    return new


def _compaction(new: Object) -> None:
    compaction = new.get("compaction")
    if not isinstance(compaction, dict) or not {"preserve_recent_tokens", "reserved", "tail_turns"} & compaction.keys():
        return
    old = ("preserve_recent_tokens", "reserved", "tail_turns")
    kept = {key: value for key, value in compaction.items() if key not in old}
    if "reserved" in compaction:
        kept.setdefault("buffer", compaction["reserved"])
    if "preserve_recent_tokens" in compaction:
        kept.setdefault("keep", {"tokens": compaction["preserve_recent_tokens"]})
    new["compaction"] = kept


def _policies(new: Object, document: Object) -> None:
    enabled, disabled = document.get("enabled_providers"), document.get("disabled_providers")
    statements: list[Any] = []
    if isinstance(enabled, list):
        statements.append({"effect": "deny", "action": "provider.use", "resource": "*"})
        statements += [{"effect": "allow", "action": "provider.use", "resource": id} for id in enabled]
    if isinstance(disabled, list):
        statements += [{"effect": "deny", "action": "provider.use", "resource": id} for id in disabled]
    # A value that is not a list is passed on, so that validation rejects it.
    statements += [[named] for named in (enabled, disabled) if named is not None and not isinstance(named, list)]
    if not statements:
        return
    experimental = _object(new.get("experimental"))
    written = experimental.get("policies")
    if written is None or isinstance(written, list):
        new["experimental"] = {**experimental, "policies": [*statements, *_list(written)]}


def _plugin(plugin: Any) -> Any:
    if isinstance(plugin, list) and plugin:
        return _present(package=plugin[0], options=plugin[1] if len(plugin) > 1 else None)
    return plugin


def _merge(new: Object, key: str, old: Object, both: Callable[[Any, Any], Any] = lambda _, newer: newer) -> None:
    """Merges two mappings; `both` chooses the value where both have the name (default: the newer one)."""
    newer = new.get(key)
    if old and (newer is None or isinstance(newer, dict)):
        joined = {name: both(old[name], item) if name in old else item for name, item in _object(newer).items()}
        new[key] = {**old, **joined}


def _values(entries: Any, change: Callable[[Object], Object]) -> Object:
    return {name: change(item) if isinstance(item, dict) else item for name, item in _object(entries).items()}


def _each(entries: Any, change: Any) -> Any:
    return [change(item) for item in entries] if isinstance(entries, list) else entries


def _present(**values: Any) -> Object:
    return {key: value for key, value in values.items() if value is not None}


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
