"""The secrets with which nodes sign requests to each other, in a file: one in each line.

The first one signs, all are accepted. So a secret is replaced while nodes run: add the new one as the last line on
every machine, then move it to the front, then remove the old one. The file is read again every half
minute, and at SIGHUP."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from pathlib import Path

SHORTEST = 16
MOST = 8
FILE_LIMIT = 64 * 1024

log = logging.getLogger(__name__)


class UnusableSecretFile(HoldfastError):
    """The file with the secret of the nodes cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"The secret of the nodes cannot be read from {path}: {reason}")
        self.path = path


class SecretFile:
    def __init__(self, path: Path) -> None:
        """Raises UnusableSecretFile."""
        self.path = path
        self.secrets = _read(path)
        """At least one; the first signs."""

    def read_again(self) -> None:
        """If the file cannot be used any more, the secrets that it had stay in force."""
        try:
            found = _read(self.path)
        except UnusableSecretFile as error:
            log.warning("%s. The former secrets stay in force.", error)
            return
        if found != self.secrets:
            log.info("the secrets of the nodes were read again from %s", self.path)
            self.secrets = found


def _read(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_LIMIT + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableSecretFile(path, getattr(error, "strerror", None) or "it is no text") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise UnusableSecretFile(path, "it is empty")
    if len(lines) > MOST or len(text) > FILE_LIMIT:
        raise UnusableSecretFile(path, f"it has more than {MOST} lines")
    if any(len(line) < SHORTEST for line in lines):
        raise UnusableSecretFile(path, f"a secret in it is shorter than {SHORTEST} characters")
    return lines
