"""What must be allowed before a command may run, and which approvals could be kept for the next time.

Every simple command is one resource, so `git status *` says nothing about what follows a semicolon. Beside the text as
it is written stands its plain form, so that a rule against `rm *` also meets `"rm" -r`, `/bin/rm` and `X=1 rm`."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.shell.arity import arity
from holdfast.core.shell.grammar import EVALUATORS, SHELLS, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.shell.grammar import SimpleCommand, Word

MOST_RESOURCES = 100
OPAQUE = "opaque:"

WRAPPERS = {
    "builtin": r"",
    "command": r"",
    "doas": r"",
    "env": r"\w+=.*",
    "exec": r"",
    "ionice": r"",
    "nice": r"",
    "nohup": r"",
    "setsid": r"",
    "stdbuf": r"",
    "sudo": r"\w+=.*",
    "time": r"",
    "timeout": r"[\d.]+[smhd]?",
    "xargs": r"",
}
"""Commands that run their arguments as a command; the pattern is what may stand in between."""

INTERPRETERS = "awk bun deno gawk lua node parallel perl php python python3 ruby ssh su tclsh watch"
FINAL = "dd find mkfs rm rsync shred"
ANYTHING = frozenset({*SHELLS, *EVALUATORS, *WRAPPERS, *INTERPRETERS.split(), *FINAL.split()})
"""A prefix of one of these would approve anything, or what cannot be taken back."""


class Approval(NamedTuple):
    resources: tuple[str, ...]
    save: tuple[str, ...]


def approval(command: str) -> Approval:
    script = parse(command)
    inner = [wrapped(one.words) for one in script.commands]
    resources = [text for one in script.commands for text in _forms(one)]
    resources += [_plain(words) for found in inner if found is not None for words in found]
    resources += [f"> {target.source}" for target in script.outputs]
    if script.opaque or None in inner or not 0 < len(resources) <= MOST_RESOURCES:
        # A rule must match all lines: `*` does, or those that were saved together; no prefix matches the digest.
        digest = hashlib.sha256(command.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        resources = [command, *resources[:MOST_RESOURCES], f"{OPAQUE}{digest}"]
        prefixes: list[str] = []
    else:
        prefixes = [prefix for one in script.commands if (prefix := _prefix(one)) is not None]
    # A text with a wildcard in it would be saved as a pattern for more than itself.
    exact = [resource for resource in resources if "*" not in resource and "?" not in resource]
    return Approval(tuple(dict.fromkeys(resources)), tuple(dict.fromkeys([*exact, *prefixes])))


def wrapped(words: Sequence[Word]) -> list[Sequence[Word]] | None:
    """The commands that these words start in their turn, each with its own; None if they cannot be told."""
    found: list[Sequence[Word]] = []
    while words and words[0].value is not None:
        name = words[0].value.rpartition("/")[2]
        if name == "find":
            found += _executed(words)
        if name not in WRAPPERS:
            return found
        rest = list(words[1:])
        while rest and rest[0].value is not None and re.fullmatch(WRAPPERS[name], rest[0].value):
            rest.pop(0)
        if not rest:
            return found
        if rest[0].value is None or rest[0].value.startswith("-") or _starts_text(rest):
            return None
        words = rest
        found.append(words)
    return found


def _starts_text(words: Sequence[Word]) -> bool:
    name = (words[0].value or "").rpartition("/")[2]
    return name in SHELLS or name in EVALUATORS


def _executed(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """What `find` runs: the words between `-exec` and its end."""
    start: int | None = None
    for index, word in enumerate(words):
        if word.value in ("-exec", "-execdir", "-ok", "-okdir"):
            start = index + 1
        elif word.value in (";", "+") and start is not None:
            yield words[start:index]
            start = None


def _forms(command: SimpleCommand) -> Iterator[str]:
    yield command.source
    if command.words:
        yield _plain(command.words)


def _plain(words: Sequence[Word]) -> str:
    """One blank between words, no path before the name, no quotes in the words that say what it does."""
    if not words:
        return ""
    if words[0].value is None:
        return " ".join(word.source for word in words)
    values = [word.value if word.value is not None else word.source for word in words]
    values[0] = values[0].rpartition("/")[2] or values[0]
    count = arity(values)
    return " ".join([*values[:count], *(word.source for word in words[count:])])


def _prefix(command: SimpleCommand) -> str | None:
    """The words that say what it does, if they are all there and say it plainly; an option among them would not."""
    values = [word.value or "" for word in command.words]
    beginning = values[: arity(values)]
    if command.assignments or not beginning or len(beginning) < arity(values):
        return None
    if beginning[0].rpartition("/")[2] in ANYTHING or not all(map(_PLAIN_WORD.fullmatch, beginning)):
        return None
    return " ".join([*beginning, "*"])


_PLAIN_WORD = re.compile(r"[\w./:@+][\w./:@+-]*")
