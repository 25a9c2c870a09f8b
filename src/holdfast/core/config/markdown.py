"""Markdown files below a configuration folder: agents, commands. Their names come from their paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.config.document import Diagnostic
from holdfast.core.config.text_file import Unreadable, read_text
from holdfast.core.frontmatter import InvalidFrontmatter, Markdown, parse_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.config.document import Severity
    from holdfast.core.config.validate import Problem

FILE_LIMIT = 1024 * 1024
MOST_FILES = 1_000
SUFFIX = ".md"


class NamedMarkdown(NamedTuple):
    name: str
    """The path below its folder without the suffix: `team/helper`."""
    path: str
    content: Markdown

    def reporter(self, problems: list[Diagnostic]) -> Callable[[Problem], None]:
        """Adds what is wrong in this file."""

        def report(problem: Problem) -> None:
            place = ".".join(str(part) for part in problem.trail)
            message = f"{place}: {problem.message}" if place else problem.message
            severity: Severity = "error" if problem.fatal else "warning"
            problems.append(Diagnostic(self.path, message, None, severity, problem.suggestion))

        return report


def read_markdown(
    directory: Path, names: Iterable[str], problems: list[Diagnostic], *, recursive: bool
) -> Iterator[NamedMarkdown]:
    """The folders of these names together, in the order of their paths, as one glob over them would give."""
    folders = [folder for name in names if os.path.isdir(folder := f"{directory}/{name}")]
    found = sorted((path, folder) for folder in folders for path in _files(folder, recursive=recursive))
    if len(found) > MOST_FILES:
        problems.append(Diagnostic(found[MOST_FILES][1], f"has more than {MOST_FILES} files; the rest is ignored"))
    for path, folder in found[:MOST_FILES]:
        try:
            text = read_text(path, FILE_LIMIT)
            if text is None:
                continue
            content = parse_markdown(text)
        except (Unreadable, InvalidFrontmatter) as error:
            problems.append(Diagnostic(path, f"{error}; ignored"))
            continue
        yield NamedMarkdown(path[len(folder) + 1 :].removesuffix(SUFFIX), path, content)


def _files(folder: str, *, recursive: bool) -> Iterator[str]:
    """Links are followed; a folder that leads back to itself is entered once."""
    waiting, entered = [folder], set[tuple[int, int]]()
    count = 0
    while waiting and count <= MOST_FILES:
        here = waiting.pop()
        try:
            status = os.stat(here)
            entries = list(os.scandir(here))
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        for entry in entries:
            if entry.is_dir():
                if recursive:
                    waiting.append(entry.path)
            elif entry.name.endswith(SUFFIX):
                count += 1
                yield entry.path
