"""Reports settings that are valid but have no effect yet.

A value that asks for the default behaviour, such as `formatter: false`, is not reported. A setting that becomes
supported is removed from these tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    import difflib
    from collections.abc import Callable, Iterator, Mapping

    Trail = tuple[str | int, ...]
    Report = Callable[[Trail, str], None]
else:
    difflib = deferred("difflib")

NOT_YET = "is not supported yet; it has no effect"
OF_OPENCODE = "is a setting of OpenCode that is not supported yet; ignored"

_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "autoupdate": (False,),
    "share": ("disabled",),
    "formatter": (False, {}),
    "lsp": (False, {}),
    "username": (),
    "watcher": ({}, {"ignore": []}),
    "enterprise": ({},),
}
"""Document keys without effect, with the values that ask for the default behaviour."""

RESERVED_SERVERS = frozenset(("resource",))
"""`/api/mcp/resource` is the catalogue of resources."""

OPENCODE_NAMES = frozenset(
    """theme keybinds tui media websearch warming wellknown disable_paste_summary batch_tool
    openTelemetry primary_tools continue_loop_on_deny portable_shell_scanner chatMaxRetries
    hook""".split()  # noqa: SIM905
)
"""Keys of OpenCode that the schema does not have."""

AGENT_NAMES = frozenset(
    """name model variant prompt description temperature top_p mode hidden color steps maxSteps options permission
    disable tools system disabled permissions request""".split()  # noqa: SIM905
)
PROVIDER_NAMES = frozenset("id name env npm api options models blacklist whitelist".split())  # noqa: SIM905
MODEL_NAMES = frozenset(
    """id family name provider tool_call structured_output modalities headers options variants cost status
    limit""".split()  # noqa: SIM905
)
MODEL_NAMES_WITHOUT_EFFECT = frozenset(
    "release_date attachment reasoning temperature interleaved experimental knowledge last_updated".split()  # noqa: SIM905
)
COST_NAMES = frozenset("input output cache_read cache_write context_over_200k".split())  # noqa: SIM905
SKILLS_NAMES = frozenset(("paths", "urls"))


def report_unsupported(data: Mapping[str, Any], report: Report) -> None:
    """`data` is a valid, migrated document."""
    for key, harmless in _WITHOUT_EFFECT.items():
        if key in data and data[key] not in harmless:
            report((key,), NOT_YET)
    for name, server in data.get("mcp", {}).get("servers", {}).items():
        if name in RESERVED_SERVERS:
            report(("mcp", "servers", name), "no MCP server can have this name, which the API uses; it is not started")
        if "codemode" in server:
            report(("mcp", "servers", name, "codemode"), "has no effect: there is no code mode")


def report_unread(document: Mapping[str, Any], report: Report) -> None:
    """Report the parts of a V1 document that migration drops."""
    for id, provider in _objects(document.get("provider")):
        _names(provider, ("provider", id), PROVIDER_NAMES, report)
        for model_id, model in _objects(provider.get("models")):
            trail = ("provider", id, "models", model_id)
            for name in sorted(model.keys() & MODEL_NAMES_WITHOUT_EFFECT):
                report((*trail, name), NOT_YET)
            _names(model, trail, MODEL_NAMES | MODEL_NAMES_WITHOUT_EFFECT, report)
            if isinstance(cost := model.get("cost"), dict):
                _names(cost, (*trail, "cost"), COST_NAMES, report)
    for key in ("agent", "mode"):
        for id, agent in _objects(document.get(key)):
            for name, nearest in misspelled(agent):
                report((key, id, name), sent_to_the_model(nearest))
    if isinstance(skills := document.get("skills"), dict):
        _names(skills, ("skills",), SKILLS_NAMES, report)
    if isinstance(compaction := document.get("compaction"), dict) and compaction.get("tail_turns") is not None:
        report(("compaction", "tail_turns"), NOT_YET)


def misspelled(agent: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names in a V1 agent that resemble a known one. Unknown names are model options, so only these are reported."""
    for name in sorted(map(str, agent.keys() - AGENT_NAMES)):
        if nearest := difflib.get_close_matches(name[:50], AGENT_NAMES, n=1, cutoff=0.75):
            yield name, nearest[0]


def sent_to_the_model(nearest: str) -> str:
    return f"is not a known name and is sent to the model as an option (did you mean {nearest}?)"


def _names(value: Mapping[str, Any], trail: Trail, known: frozenset[str], report: Report) -> None:
    for name in sorted(map(str, value.keys() - known)):
        nearest = difflib.get_close_matches(name[:50], known, n=1)
        report((*trail, name), f"is not a known name; ignored{f' (did you mean {nearest[0]}?)' if nearest else ''}")


def _objects(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((name, item) for name, item in value.items() if isinstance(item, dict))
