"""The password of this machine's server: given by the environment, or kept in a file that only its owner reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_USER = "opencode"


def state_folder(environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("HOME", "~")).expanduser()
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "holdfast"


def credential_file(environment: Mapping[str, str]) -> Path:
    """While servers run that made their password themselves, it is in this file."""
    return state_folder(environment) / "server-password"


def username(environment: Mapping[str, str]) -> str:
    return environment.get("OPENCODE_SERVER_USERNAME") or DEFAULT_USER


def given_password(environment: Mapping[str, str]) -> str | None:
    return environment.get("OPENCODE_SERVER_PASSWORD") or None


def kept_password(environment: Mapping[str, str]) -> str | None:
    path = credential_file(environment)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
