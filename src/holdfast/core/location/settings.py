"""What a Location's configuration says about tools and Sessions, each value from the last document that sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.agent.callable_agents import SubagentSettings
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.filesystem.location_files import FileSettings
from holdfast.core.mcp.location_tools import TOKENS
from holdfast.core.process.sandbox.confinement import SandboxSettings
from holdfast.core.runner.settings import CompactionSettings, Limits, SessionSettings
from holdfast.core.snapshot.limits import SnapshotLimits
from holdfast.core.tool.builtin.bash import BashSettings
from holdfast.core.tool.preview import OutputLimits
from holdfast.llm.limits import AnswerLimits
from holdfast.llm.route.retry import RetryLimits
from holdfast.schema.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.process.sandbox.confinement import Setting
    from holdfast.core.pty.ptys import PtySettings

T = TypeVar("T")

USER_ONLY = ("sandbox", "storage")
"""Settings of `holdfast` that count in the user's own configuration only."""
FILE_SWITCHES = ("external_paths", "line_endings", "stale_guard", "patch_moves", "patch_atomic")


def remembered(config: LiveConfig, make: Callable[[Config], T]) -> Callable[[], T]:
    """What the configuration in force says; worked out once for each configuration."""
    last: tuple[Config, T] | None = None

    def current() -> T:
        nonlocal last
        if last is None or last[0] is not config.current:
            last = (config.current, make(config.current))
        return last[1]

    return current


def output_limits(config: Config) -> OutputLimits:
    return OutputLimits(**_given(config, "tool_output"))


def image_limits(config: Config) -> ImageLimits:
    return ImageLimits(**_given(config, "attachments", "image"))


def file_settings(config: Config) -> FileSettings:
    limits = output_limits(config)
    return FileSettings(
        **_given(config, "holdfast", only=FILE_SWITCHES),
        **_scalar(config, "binary_files"),
        image=image_limits(config),
        output_lines=limits.max_lines,
        output_bytes=limits.max_bytes,
    )


def bash_settings(config: Config) -> BashSettings:
    given = _given(config, "holdfast", only=("external_paths",))
    passed = tuple(_given(config, "holdfast", only=("environment",)).get("environment", ()))
    return BashSettings(shell=config.latest("shell"), passed=passed, **given)


def sandbox_settings(config: Config, chosen: Setting | None = None) -> SandboxSettings:
    """From the user's documents alone; `chosen` is the mode that an argument or the environment sets."""
    found: dict[str, Any] = {}
    for document in config.documents():
        given = document.data.get("holdfast", {}).get("sandbox") if document.origin == "user" else None
        if isinstance(given, str):
            found["mode"] = given
        elif given is not None:
            found |= given
    found |= {key: tuple(found[key]) for key in ("writable", "hosts") if key in found}
    if chosen is not None:
        found["mode"] = chosen
    return SandboxSettings(**found)


def user_only_diagnostics(config: Config) -> tuple[Diagnostic, ...]:
    """A project that tries to choose how it is confined, or where Sessions are stored."""
    return tuple(
        Diagnostic(str(document.path), f"holdfast.{name}: only the user's own configuration can set this; ignored")
        for document in config.documents()
        for name in USER_ONLY
        if document.origin == "project" and name in document.data.get("holdfast", {})
    )


def pty_settings(config: Config) -> PtySettings:
    from holdfast.core.pty.ptys import PtySettings

    commands = bash_settings(config)
    return PtySettings(shell=commands.shell, external_paths=commands.external_paths, passed=commands.passed)


def session_settings(config: Config, environment: Mapping[str, str]) -> SessionSettings:
    compaction = _given(config, "compaction")
    keep = compaction.pop("keep", None) or {}
    if "tokens" in keep:
        compaction["keep_tokens"] = keep["tokens"]
    if _on(environment, "OPENCODE_DISABLE_AUTOCOMPACT"):
        compaction["auto"] = False
    if _on(environment, "OPENCODE_DISABLE_PRUNE"):
        compaction["prune"] = False
    snapshots = config.latest("snapshots")
    return SessionSettings(
        compaction=CompactionSettings(**compaction),
        limits=Limits(
            **_given(config, "holdfast", only=("running_calls", "calls", "repeated_calls")),
            retry=RetryLimits(**_given(config, "holdfast", "retry")),
        ),
        answer=AnswerLimits(**_given(config, "holdfast", "answer")),
        snapshots=snapshots is not False,
        **_given(config, "holdfast", only=("titles", "turns")),
        **_recovery(config),
        budget=default_budget(config),
    )


def _recovery(config: Config) -> dict[str, Any]:
    """`continue` is an earlier name of `safe`."""
    given = _given(config, "holdfast", only=("recovery",))
    return {name: "safe" if policy == "continue" else policy for name, policy in given.items()}


def default_budget(config: Config) -> Budget | None:
    """The budget of new Sessions without a parent: each limit from the last document of the user or a trusted project,
    and narrowed by projects that are not trusted."""
    limits: dict[str, float] = {}
    documents = [document for document in config.documents() if document.data.get("holdfast", {}).get("budget")]
    for document in sorted(documents, key=lambda found: not found.trusted):
        for name, value in document.data["holdfast"]["budget"].items():
            limits[name] = value if document.trusted else min(value, limits.get(name, value))
    return Budget(**limits) if limits else None  # type: ignore[arg-type]


def subagent_settings(config: Config) -> SubagentSettings:
    """Each value from the last document of the user or a trusted project; an untrusted project can only narrow it. The
    names that OpenCode has for the depth yield to ours."""
    trusted = [document.data for document in config.documents() if document.trusted]
    found = SubagentSettings(**_joined([*map(_opencode_depth, trusted), *map(_own_subagents, trusted)]))
    for document in config.documents():
        if not document.trusted:
            narrowing = _joined([_opencode_depth(document.data), _own_subagents(document.data)])
            found = found._replace(**{name: min(value, getattr(found, name)) for name, value in narrowing.items()})
    return found


def _own_subagents(data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data.get("holdfast", {}).get("subagents", {})
    return found


def _opencode_depth(data: Mapping[str, Any]) -> dict[str, Any]:
    depth = data.get("experimental", {}).get("subagent_depth", data.get("subagent_depth"))
    return {} if depth is None else {"depth": depth}


def _joined(sections: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for section in sections for key, value in section.items() if value is not None}


def mcp_tokens(config: Config) -> int:
    """What tools of MCP servers may take in a request."""
    tokens: int = _given(config, "holdfast", "mcp").get("tokens", TOKENS)
    return tokens


def snapshot_limits(config: Config) -> SnapshotLimits:
    return SnapshotLimits(**_given(config, "holdfast", "snapshot"))


def _given(config: Config, *path: str, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The fields of a section, each from the last document that sets it."""
    found: dict[str, Any] = {}
    for document in config.documents():
        section: Any = document.data
        for name in path:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict):
            found |= {key: value for key, value in section.items() if value is not None}
    return {key: value for key, value in found.items() if only is None or key in only}


def _scalar(config: Config, key: str) -> dict[str, Any]:
    value = config.latest(key)
    return {} if value is None else {key: value}


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("1", "true")
