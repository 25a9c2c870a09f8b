"""A project on disk with instruction files, and the services that read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.core.context.errors import InitializationBlocked
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.instructions import InstructionFiles
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.system_context import (
    SystemContext,
    Unchanged,
    Updated,
    initialize,
    observe,
    reconcile,
)


class Place:
    """`root` is the project, `work` the Location inside it, `config` the user's own directory."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.root = self.base / "project"
        self.work = self.root / "packages" / "core"
        self.config = self.base / "config"
        self.environment: dict[str, str] = {}
        for folder in (self.work, self.config):
            folder.mkdir(parents=True)
        self.cache = FileCache()

    def files(self, directory: Path | None = None, project: Path | None = None) -> InstructionFiles:
        return InstructionFiles(directory or self.work, project or self.root, self.config, self.cache, self.environment)

    def write(self, path: Path | str, text: str = "") -> Path:
        target = Path(os.path.normpath(self.root / path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text or f"text of {target.name}", encoding="utf-8")
        return target


async def baseline(context: SystemContext) -> str | None:
    """What a first baseline says, or None if it is blocked."""
    try:
        return initialize(await observe(context)).baseline
    except InitializationBlocked:
        return None


async def stored(context: SystemContext) -> Snapshot:
    return initialize(await observe(context)).snapshot


async def told(context: SystemContext, snapshot: Snapshot) -> tuple[str | None, Snapshot]:
    """What the next boundary says, if anything, and the snapshot after it."""
    outcome = reconcile(await observe(context), snapshot)
    if outcome == Unchanged():
        return None, snapshot
    assert isinstance(outcome, Updated), outcome
    return outcome.text, outcome.snapshot


def instructions(*files: tuple[Path, str]) -> str:
    return "\n\n".join(f"Instructions from: {path}\n{text}" for path, text in files)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions do not bind root; they bind this."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def forbidden(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with as_nobody():
            yield
    finally:
        path.chmod(mode)
