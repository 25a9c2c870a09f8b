"""The password of this machine's server: given by the environment, or kept in a file that only its owner reads."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.private_files import OTHERS, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_USER = "opencode"

log = logging.getLogger(__name__)


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
    """None also for a file that another user could have written: it would be that user's password."""
    path = credential_file(environment)
    try:
        for one in (path, path.parent):
            if (reason := refusal(one.stat())) is not None:
                log.warning("%s %s; the password in %s is not used", one, reason, path)
                return None
        if path.stat().st_mode & OTHERS:
            path.chmod(0o600)
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
