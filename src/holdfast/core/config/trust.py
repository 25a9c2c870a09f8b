"""Stores which project configuration the user trusts.

Trust is given to one source: a file, a `.opencode` folder, or the project's directory. It is bound to the source's
real path, its owner and a digest of its grants; a change of any of these requires a new decision."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.config.authority import Grant, digest
from holdfast.core.config.plugin_files import content_digest
from holdfast.core.config.text_file import Unreadable, read_private_text
from holdfast.core.file_lock import wait_for_lock
from holdfast.private_files import NotPrivate, own_directory
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME = "trust.json"
LIMIT = 4 * 1024 * 1024


class TrustDecision(Frozen):
    """A stored decision about one source."""

    owner: int
    digest: str
    trusted: bool
    decided: int
    """Seconds since the epoch."""


class TrustSource(Frozen):
    """A configuration file or folder of a project with settings that need trust, or the project's directory."""

    path: Path
    digest: str
    grants: tuple[Grant, ...]
    trusted: bool
    directory: bool = False
    """It is the project's directory, in which programs of the user would start."""


class TrustRequest(Frozen):
    """The settings of one file or folder that need trust. Trust is given to its digest."""

    path: Path
    grants: tuple[Grant, ...] = ()
    plugins: tuple[Path, ...] = ()
    """Its plugins that are files: their content is part of the digest."""

    def contents(self) -> dict[str, str]:
        """The digest of each plugin, by path. Reads the files."""
        return {str(plugin): content_digest(plugin) for plugin in self.plugins}

    def digest(self, contents: Mapping[str, str]) -> str:
        return digest((*self.grants, *(Grant(("content", path), "", value) for path, value in contents.items())))


class TrustVerdict(Frozen):
    trusted: bool
    contents: Mapping[str, str]
    """Digests of the plugins when they were checked: only this content may be executed."""


def check_trust(request: TrustRequest, trust: Trust) -> TrustVerdict:
    """Whether the user trusts the source as it is now. Nothing is read for a source without a decision."""
    if not trust.knows(request.path):
        return TrustVerdict(False, {})
    contents = request.contents()
    named = {str(trust.decided_as(Path(path))): digest for path, digest in contents.items()}
    return TrustVerdict(trust.covers(request.path, request.digest(named)), contents)


class Trust(Protocol):
    def knows(self, path: Path) -> bool:
        """Whether there is a decision about this source; if not, its digest is not needed."""

    def covers(self, path: Path, digest: str) -> bool: ...

    def decided_as(self, path: Path) -> Path:
        """The path that the user decided about: another one for files of an isolated copy."""

    def problem(self) -> TrustUnreadable | None:
        """Why no decision can be had."""


class _FixedTrust(Frozen):
    trusted: bool

    def knows(self, path: Path) -> bool:
        return self.trusted

    def covers(self, path: Path, digest: str) -> bool:
        return self.trusted

    def decided_as(self, path: Path) -> Path:
        return path

    def problem(self) -> TrustUnreadable | None:
        return None


TRUST_EVERYTHING: Trust = _FixedTrust(True)
"""For hosts that trust every project they open."""
TRUST_NOTHING: Trust = _FixedTrust(False)


class CopyTrust(Frozen):
    """For an isolated copy of a project: the decisions about the original hold for files with the same content."""

    trust: Trust
    original: Callable[[Path], Path]

    def knows(self, path: Path) -> bool:
        return self.trust.knows(self.original(path))

    def covers(self, path: Path, digest: str) -> bool:
        return self.trust.covers(self.original(path), digest)

    def decided_as(self, path: Path) -> Path:
        return self.original(path)

    def problem(self) -> TrustUnreadable | None:
        return self.trust.problem()


class TrustUnreadable(HoldfastError):
    """The file that holds what was trusted cannot be read or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


class TrustStore:
    """A file in the user's state folder that only its owner can read. Read at each call, because another process may
    have changed it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = folder / f"{NAME}.lock"

    def knows(self, path: Path) -> bool:
        return str(path.resolve()) in self._read_or_nothing()

    def covers(self, path: Path, digest: str) -> bool:
        known = self._decision(path, digest)
        return known is not None and known.trusted

    def decided_as(self, path: Path) -> Path:
        return path

    def problem(self) -> TrustUnreadable | None:
        try:
            self._read()
        except TrustUnreadable as error:
            return error
        return None

    def decided(self, path: Path, digest: str) -> bool:
        """Whether the user decided about this source in its current state."""
        return self._decision(path, digest) is not None

    def decide(self, sources: Iterable[tuple[Path, str]], *, trusted: bool) -> None:
        """Store a decision about each source. Raises TrustUnreadable."""
        now = int(time.time())
        given = {
            str(real): TrustDecision(owner, digest, trusted, now)
            for path, digest in sources
            if (owner := _owner(real := path.resolve())) is not None
        }
        self._change(lambda known: {**known, **given})

    def revoke(self, folder: Path) -> tuple[Path, ...]:
        """Remove all decisions in and below this folder; returns the paths that were trusted. Raises
        TrustUnreadable."""
        root = folder.resolve()
        gone: list[Path] = []

        def without(known: dict[str, TrustDecision]) -> dict[str, TrustDecision]:
            below = {text for text in known if Path(text).is_relative_to(root)}
            gone.extend(Path(text) for text in sorted(below) if known[text].trusted)
            return {text: found for text, found in known.items() if text not in below}

        self._change(without)
        return tuple(gone)

    def list(self) -> dict[str, TrustDecision]:
        """All decisions, by path. Raises TrustUnreadable."""
        return self._read()

    def _decision(self, path: Path, digest: str) -> TrustDecision | None:
        real = path.resolve()
        known = self._read_or_nothing().get(str(real))
        return known if known is not None and known.digest == digest and known.owner == _owner(real) else None

    def _read_or_nothing(self) -> dict[str, TrustDecision]:
        try:
            return self._read()
        except TrustUnreadable:
            return {}  # an unreadable file trusts nothing

    def _read(self) -> dict[str, TrustDecision]:
        try:
            text = read_private_text(self._path, LIMIT)
            return msgspec.json.decode(text, type=dict[str, TrustDecision]) if text else {}
        except Unreadable as error:
            raise TrustUnreadable(self._path, str(error)) from error
        except msgspec.MsgspecError as error:
            raise TrustUnreadable(self._path, f"is damaged: {error}") from error

    def _change(self, change: Callable[[dict[str, TrustDecision]], dict[str, TrustDecision]]) -> None:
        try:
            own_directory(self._path.parent)
            with wait_for_lock(self._lock):
                atomic_write(self._path, msgspec.json.encode(change(self._read())))
        except NotPrivate as error:
            raise TrustUnreadable(self._path, f"cannot be written: {error}") from error
        except OSError as error:
            raise TrustUnreadable(self._path, f"cannot be written: {error.strerror or error}") from error


def _owner(path: Path) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None
