"""Reads the Markdown files of a configuration folder: agents and commands. A file's path gives its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.config.text_file import Unreadable, is_text, read_text
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.frontmatter import InvalidFrontmatter, Markdown, parse_markdown
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.config.validate import Problem
    from holdfast.core.diagnostic import Severity

FILE_LIMIT = 1024 * 1024
MOST_FILES = 1_000
SUFFIX = ".md"


class NamedMarkdown(Frozen):
    name: str
    """The path relative to its folder, without the suffix: `team/helper`."""
    path: str
    content: Markdown

    def reporter(self, problems: list[Diagnostic]) -> Callable[[Problem], None]:
        """A reporter that adds problems of this file."""

        def report(problem: Problem) -> None:
            place = ".".join(str(part) for part in problem.trail)
            message = f"{place}: {problem.message}" if place else problem.message
            severity: Severity = "error" if problem.fatal else "warning"
            problems.append(Diagnostic(self.path, message, None, severity, problem.suggestion))

        return report


def read_markdown(
    directory: Path,
    names: Iterable[str],
    problems: list[Diagnostic],
    *,
    recursive: bool,
    resolve: Callable[[str], str] = lambda path: path,
) -> Iterator[NamedMarkdown]:
    """Read the folders with these names together, sorted by path, like one glob over all of them. `resolve` returns the
    path to read for one that was found, and raises Unreadable if the file must not be used."""
    folders = [folder for name in names if os.path.isdir(folder := f"{directory}/{name}")]
    found = ((path, folder) for folder in folders for path in _files(folder, problems, recursive=recursive))
    for path, folder in sorted(found):
        try:
            if not is_text(path):
                raise Unreadable("has a name that is not UTF-8")
            text = read_text(resolve(path), FILE_LIMIT)
            if text is None:
                continue
            content = parse_markdown(text)
        except (Unreadable, InvalidFrontmatter) as error:
            shown = os.fsencode(path).decode(errors="replace")
            problems.append(Diagnostic(shown, f"{error}; ignored", severity="error"))
            continue
        yield NamedMarkdown(path[len(folder) + 1 :].removesuffix(SUFFIX), path, content)


def _files(folder: str, problems: list[Diagnostic], *, recursive: bool) -> list[str]:
    """Follows links and enters each folder once. Folders count towards the limit, because a link may lead to a whole
    disk."""
    waiting, entered, paths = [folder], set[tuple[int, int]](), list[str]()
    while waiting and len(paths) <= MOST_FILES and len(entered) <= MOST_FILES:
        here = waiting.pop()
        try:
            status = os.stat(here)
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            if _is_folder(entry):
                if recursive:
                    waiting.append(entry.path)
            elif entry.name.endswith(SUFFIX) and entry.name != SUFFIX:
                paths.append(entry.path)
    if waiting or len(paths) > MOST_FILES:
        problems.append(Diagnostic(folder, f"has more than {MOST_FILES} files or folders; the rest is ignored"))
    return sorted(paths)[:MOST_FILES]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself
