"""The directories of this user, and the switches in the environment. Nothing is read at import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_NAME = "opencode"
"""Only the configuration folder is shared with OpenCode, never the data."""
APP_NAME = "holdfast"
SYSTEM_TMP = "/tmp"


class Directories(Frozen):
    config: Path
    data: Path
    cache: Path
    state: Path
    tmp: Path

    @property
    def log(self) -> Path:
        return self.data / "log"

    @property
    def repos(self) -> Path:
        return self.data / "repos"

    @property
    def bin(self) -> Path:
        return self.cache / "bin"

    @property
    def plans(self) -> Path:
        return self.data / "plans"

    @property
    def tool_output(self) -> Path:
        return self.data / "tool-output"


def directories(environment: Mapping[str, str]) -> Directories:
    home = home_directory(environment)

    def base(variable: str, default: str) -> Path:
        return Path(environment.get(variable) or home / default)

    return Directories(
        config=config_home(environment),
        data=Path(environment.get("HOLDFAST_DATA") or base("XDG_DATA_HOME", ".local/share") / APP_NAME),
        cache=base("XDG_CACHE_HOME", ".cache") / APP_NAME,
        state=base("XDG_STATE_HOME", ".local/state") / APP_NAME,
        tmp=Path(environment.get("TMPDIR") or SYSTEM_TMP) / APP_NAME,
    )


def config_home(environment: Mapping[str, str]) -> Path:
    if named := environment.get("OPENCODE_CONFIG_DIR"):
        return Path(named)
    return Path(environment.get("XDG_CONFIG_HOME") or home_directory(environment) / ".config") / CONFIG_NAME


def home_directory(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("OPENCODE_TEST_HOME") or environment.get("HOME") or Path.home())


def user_path(text: str, environment: Mapping[str, str]) -> Path:
    """Expands a leading `~/`, and nothing else."""
    return home_directory(environment) / text[2:] if text.startswith("~/") else Path(text)


def is_enabled(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("1", "true")
