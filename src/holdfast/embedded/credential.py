"""The password of this machine's server: given by the environment, or generated once and kept in a 0600 file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def credential_file(environment: dict[str, str]) -> Path:
    home = Path(environment.get("HOME", "~")).expanduser()
    state = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state")
    return state / "holdfast" / "server-password"


def known_password(environment: dict[str, str]) -> str | None:
    if given := environment.get("OPENCODE_SERVER_PASSWORD"):
        return given
    path = credential_file(environment)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def ensure_password(environment: dict[str, str]) -> str:
    if (known := known_password(environment)) is not None:
        return known
    path = credential_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = secrets.token_urlsafe(32)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(password + "\n")
    return password
