"""What must be allowed before a command may run, and which approvals could be kept for the next time.

Every simple command is one resource, so `git status *` says nothing about what follows a semicolon. Beside the text as
it is written stands its plain form, so that a rule against `rm *` also meets `"rm" -r`, `/bin/rm` and `X=1 rm`.

Invariants
- What is approved for good, unless a person chooses more, is this one text and no other: not its parts, not a pattern.
- The resources of a command are bounded in number and in size."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.shell.arity import arity
from holdfast.core.shell.evaluators import DECLARATIONS, EVALUATORS, SHELLS, evaluates, is_interpreter
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.shell.script import Script, SimpleCommand, Word

MOST_RESOURCES = 100
MOST_STARTED = 16
MOST_CHARACTERS = 64 * 1024
OPAQUE = "opaque:"
EXACT = "exact:"

_PLAIN_WRAPPERS = """
    builtin busybox command doas env exec fakeroot ionice ltrace nice nohup pkexec prlimit setsid stdbuf strace sudo
    time toybox unbuffer unshare valgrind xargs
"""
WRAPPERS = {
    **dict.fromkeys(_PLAIN_WRAPPERS.split(), 0),
    **dict.fromkeys(("chroot", "chrt", "flock", "setarch", "taskset", "timeout"), 1),
}
"""Commands that run their arguments as a command, and how many operands come before it."""
ASSIGNING = frozenset({"doas", "env", "sudo", "time"})
"""Those of them that take assignments first, to variables of any name."""

OBEYING = frozenset({"ed", "ex", "mysql", "psql", "sqlite3", "ssh"})
"""Commands that carry out what they read."""
PROGRAMMED = frozenset({"awk", "gawk", "sed"})
FINAL = frozenset({"dd", "find", "mkfs", "rm", "rsync", "shred"})
ANYTHING = SHELLS | EVALUATORS | DECLARATIONS | WRAPPERS.keys() | OBEYING | PROGRAMMED | FINAL
"""A prefix of one of these, or of an interpreter, would approve anything, or what cannot be taken back."""
READABLE_DEVICES = frozenset({"/dev/null", "/dev/stdin"})


class Approval(NamedTuple):
    resources: tuple[str, ...]
    """All of them must be allowed."""
    save: tuple[str, ...]
    """What may be approved for good: this command as a whole first, then patterns that cover more."""


def approval(script: Script) -> Approval:
    digest = hashlib.sha256(script.text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    inner = [wrapped(one.words) for one in script.commands]
    started = [words for found in inner if found is not None for words in found]
    resources = list(dict.fromkeys(_resources(script, started)))
    if sum(map(len, resources)) > MOST_CHARACTERS:
        resources = []
    obeyed = script.fed and any(
        _name(words) in OBEYING for words in (*(one.words for one in script.commands), *started)
    )
    opaque = script.opaque or obeyed or None in inner or not 0 < len(resources) <= MOST_RESOURCES
    if opaque:
        # No pattern but `*` matches all of these lines: none other matches the digest.
        resources = [script.text, *resources[:MOST_RESOURCES], f"{OPAQUE}{digest}"]
    whole = f"{EXACT}{digest}" if _NOT_LITERAL.search(script.text) else script.text
    prefixes = () if opaque else filter(None, map(_prefix, script.commands))
    return Approval(tuple(dict.fromkeys(resources)), tuple(dict.fromkeys([whole, *prefixes])))


def _resources(script: Script, started: Sequence[Sequence[Word]]) -> Iterator[str]:
    for one in script.commands:
        yield from _forms(one)
    yield from map(_plain, started)
    for target in script.outputs:
        yield f"> {target.source}"
    for target in script.inputs:
        if not _is_readable(target):
            yield f"< {target.source}"


def _is_readable(target: Word) -> bool:
    """Whether opening it does nothing else. In bash `/dev/tcp/host/port` is a connection; other devices act as well."""
    if target.value is None:
        return target.source.startswith("<(")
    return not target.value.startswith("/dev") or target.value in READABLE_DEVICES


def wrapped(words: Sequence[Word]) -> list[Sequence[Word]] | None:
    """The commands that these words start in their turn, each with its own; None if they cannot be told."""
    found: list[Sequence[Word]] = []
    waiting = [words]
    while waiting:
        words = waiting.pop()
        name = _name(words)
        starts = list(_executed(words)) if name == "find" else [_behind(name, words)] if name in WRAPPERS else []
        for started in filter(None, starts):
            if evaluates(started) or (started[0].value or "").startswith("-") or len(found) >= MOST_STARTED:
                return None
            found.append(started)
            waiting.append(started)
    return found


def _behind(wrapper: str, words: Sequence[Word]) -> Sequence[Word]:
    """The command that a wrapper runs, or the option that would have to be understood first."""
    start = 1
    while wrapper in ASSIGNING and start < len(words) and "=" in (words[start].value or words[start].source):
        start += 1
    operands = WRAPPERS[wrapper]
    if any((word.value or "").startswith("-") for word in words[start : start + operands]):
        return words[start:]
    return words[start + operands :]


def _executed(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """What `find` runs: the words between `-exec` and its end."""
    start: int | None = None
    for index, word in enumerate(words):
        if start is None and word.value in ("-exec", "-execdir", "-ok", "-okdir"):
            start = index + 1
        elif word.value in (";", "+") and start is not None:
            yield words[start:index]
            start = None


def _name(words: Sequence[Word]) -> str:
    return (words[0].value or "").rpartition("/")[2] if words else ""


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
    name = _name(command.words)
    if name in ANYTHING or is_interpreter(name) or not all(map(_PLAIN_WORD.fullmatch, beginning)):
        return None
    return " ".join([*beginning, "*"])


_PLAIN_WORD = pattern(r"[\w./:@+][\w./:@+-]*")
# As a saved approval such a text would be a pattern for more than itself, or stand for another command.
_NOT_LITERAL = pattern(rf"[*?]|\A{EXACT}")
