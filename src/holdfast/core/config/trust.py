"""Which configuration of projects the user trusts.

Trust is given to one source, a file or a `.opencode` folder, and is bound to its real path, its owner and a digest of
what it grants itself. When one of these changes, the source has to be trusted again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.config.authority import Grant, digest
from holdfast.core.config.plugin_files import content_digest
from holdfast.core.config.text_file import Unreadable, read_text
from holdfast.core.file_lock import wait_for_lock
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME = "trust.json"
LIMIT = 4 * 1024 * 1024


class Decision(Frozen):
    """What the store keeps of one source, under its path."""

    owner: int
    digest: str
    trusted: bool
    decided: int
    """Seconds since the epoch."""


class Source(Frozen):
    """A configuration file or folder of a project, and what it wants beyond narrowing."""

    path: Path
    digest: str
    grants: tuple[Grant, ...]
    trusted: bool


class Wanted(Frozen):
    """What a file or folder of a project wants beyond narrowing. Trust is given to its digest."""

    path: Path
    grants: tuple[Grant, ...] = ()
    plugins: tuple[Path, ...] = ()
    """The plugins it runs that are files: what is in them is a part of what is trusted."""

    def contents(self) -> dict[str, str]:
        """A digest of each plugin, by its path. Reads them."""
        return {str(plugin): content_digest(plugin) for plugin in self.plugins}

    def digest(self, contents: Mapping[str, str]) -> str:
        return digest((*self.grants, *(Grant(("content", path), "", value) for path, value in contents.items())))


class Judged(NamedTuple):
    trusted: bool
    contents: Mapping[str, str]
    """Of the plugins, as they were when they were judged: nothing else may be executed."""


def judge(wanted: Wanted, trust: Trust) -> Judged:
    """Whether a project's user trusts what this source wants now. Nothing is read of one that nobody decided about."""
    if not trust.knows(wanted.path):
        return Judged(False, {})
    contents = wanted.contents()
    return Judged(trust.covers(wanted.path, wanted.digest(contents)), contents)


class Trust(Protocol):
    def knows(self, path: Path) -> bool:
        """Whether this source was trusted at some time: if not, its digest need not be worked out."""

    def covers(self, path: Path, digest: str) -> bool: ...


class _Everything(Frozen):
    def knows(self, path: Path) -> bool:
        return True

    def covers(self, path: Path, digest: str) -> bool:
        return True


class _Nothing(Frozen):
    def knows(self, path: Path) -> bool:
        return False

    def covers(self, path: Path, digest: str) -> bool:
        return False


TRUST_EVERYTHING: Trust = _Everything()
"""For hosts that vouch for every project they open."""
TRUST_NOTHING: Trust = _Nothing()


class TrustUnreadable(HoldfastError):
    """The file that holds what was trusted cannot be read or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")


class TrustStore:
    """A small file in the user's state folder that only its owner can read. Read at each question: another process may
    have changed it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = folder / f"{NAME}.lock"

    def knows(self, path: Path) -> bool:
        return str(path.resolve()) in self._read_or_nothing()

    def covers(self, path: Path, digest: str) -> bool:
        known = self._decision(path, digest)
        return known is not None and known.trusted

    def decided(self, path: Path, digest: str) -> bool:
        """Whether a person said yes or no to this source as it is."""
        return self._decision(path, digest) is not None

    def decide(self, sources: Iterable[tuple[Path, str]], *, trusted: bool) -> None:
        """Raises TrustUnreadable."""
        now = int(time.time())
        given = {
            str(real): Decision(owner, digest, trusted, now)
            for path, digest in sources
            if (owner := _owner(real := path.resolve())) is not None
        }
        self._change(lambda known: {**known, **given})

    def revoke(self, folder: Path) -> tuple[Path, ...]:
        """Forget everything in this folder and below it; what was trusted there. Raises TrustUnreadable."""
        root = folder.resolve()
        gone: list[Path] = []

        def without(known: dict[str, Decision]) -> dict[str, Decision]:
            below = {text for text in known if Path(text).is_relative_to(root)}
            gone.extend(Path(text) for text in sorted(below) if known[text].trusted)
            return {text: found for text, found in known.items() if text not in below}

        self._change(without)
        return tuple(gone)

    def list(self) -> dict[str, Decision]:
        """By path. Raises TrustUnreadable."""
        return self._read()

    def _decision(self, path: Path, digest: str) -> Decision | None:
        real = path.resolve()
        known = self._read_or_nothing().get(str(real))
        return known if known is not None and known.digest == digest and known.owner == _owner(real) else None

    def _read_or_nothing(self) -> dict[str, Decision]:
        try:
            return self._read()
        except TrustUnreadable:
            return {}  # what cannot be read vouches for nothing

    def _read(self) -> dict[str, Decision]:
        try:
            text = read_text(self._path, LIMIT)
            return msgspec.json.decode(text, type=dict[str, Decision]) if text else {}
        except Unreadable as error:
            raise TrustUnreadable(self._path, str(error)) from error
        except msgspec.MsgspecError as error:
            raise TrustUnreadable(self._path, f"is not what was written there: {error}") from error

    def _change(self, change: Callable[[dict[str, Decision]], dict[str, Decision]]) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with wait_for_lock(self._lock):
                atomic_write(self._path, msgspec.json.encode(change(self._read())))
        except OSError as error:
            raise TrustUnreadable(self._path, f"cannot be written: {error.strerror or error}") from error


def _owner(path: Path) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None
