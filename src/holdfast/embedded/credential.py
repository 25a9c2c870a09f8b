"""The server's side of its password: generated once, when the environment gives none."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from holdfast.client.credential import credential_file, known_password

if TYPE_CHECKING:
    from collections.abc import Mapping


def ensure_password(environment: Mapping[str, str]) -> str:
    if (known := known_password(environment)) is not None:
        return known
    path = credential_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = secrets.token_urlsafe(32)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(password + "\n")
    return password
