"""The server's side of its password: generated once, when the environment gives none."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.client.credential import credential_file, kept_password, known_password

if TYPE_CHECKING:
    from collections.abc import Mapping


def ensure_password(environment: Mapping[str, str]) -> str:
    if (known := known_password(environment)) is not None:
        return known
    path = credential_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = secrets.token_urlsafe(32)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # which only its owner reads
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(password + "\n")
        return _kept(draft, path, environment) or password
    finally:
        Path(draft).unlink(missing_ok=True)


def _kept(draft: str, path: Path, environment: Mapping[str, str]) -> str | None:
    """Another server may start at the same moment: the first one's password is everybody's."""
    try:
        os.link(draft, path)
    except OSError:
        if (theirs := kept_password(environment)) is not None:
            return theirs
        os.replace(draft, path)
    return None
