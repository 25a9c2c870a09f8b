"""What an isolated copy changed, as text for people and models: statistics, a bounded patch, and the whole patch as a
managed file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.process.git import GitFailed
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    RunGit = Callable[..., Awaitable[bytes]]
    Save = Callable[[bytes], Awaitable[str | None]]
    """Writes a managed file; its path, or None if that failed."""

STAT_FILES = 200
PATCH_CHARACTERS = 16_000
PATCH_LINES = 400
LISTED = 20
COMPARE = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv")
WHOLE = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")


class DiffText(Frozen):
    stat: str
    patch: str
    whole: str | None
    """The managed file with the whole patch; None if `patch` is the whole one, or if it could not be saved."""
    complete: bool
    """Whether `patch` has everything; binary content is only named."""

    def text(self) -> str:
        lines = [self.stat, "", self.patch.rstrip("\n")]
        if self.whole is not None:
            lines.append(f"[The whole diff, for `git apply`: {self.whole}]")
        elif not self.complete:
            lines.append("[The rest of the diff could not be saved.]")
        return "\n".join(lines)


async def diff_text(git: RunGit, before: str, after: str, save: Save | None = None) -> DiffText:
    """The differences of two trees. `git` runs with the store of the trees. Without `save`, the rest is left out."""
    stat = (await git(*COMPARE, f"--stat=120,80,{STAT_FILES}", "--summary", before, after)).decode("utf-8", "replace")
    try:
        patch = (await git(*COMPARE, "-p", before, after)).decode("utf-8", "replace")
    except GitFailed:  # more than can be read
        return DiffText(stat.strip("\n"), "", None, False)
    shown = bounded(patch)
    binary = "\nBinary files " in patch
    whole = None
    if save is not None and (shown != patch or binary):
        with suppress(GitFailed):
            whole = await save(await git(*WHOLE, before, after))
    return DiffText(stat.strip("\n"), shown, whole, shown == patch)


def bounded(patch: str) -> str:
    """The beginning of a patch, cut at a line."""
    lines = patch[:PATCH_CHARACTERS].splitlines(keepends=True)[:PATCH_LINES]
    if sum(map(len, lines)) == len(patch):
        return patch
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    return "".join(lines) + "[cut here]\n"


def listed(paths: Collection[str]) -> str:
    """The first names of a list."""
    names = sorted(paths)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
