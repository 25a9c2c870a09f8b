"""Computes the permission resources that a shell command needs, and the approvals that can be saved.

Every simple command is one resource, so `git status *` does not cover what follows a semicolon. Each is listed as
written and in a normalised form, so that a rule for `rm *` also matches `"rm" -r`, `/bin/rm` and `X=1 rm`.

Invariants
- Unless the user chooses more, a saved approval covers exactly this text in this directory: not its parts, no pattern.
- The resources of a command are bounded in number and in size."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.shell.arity import arity
from holdfast.core.shell.evaluators import evaluates
from holdfast.core.shell.variables import decides_what_runs
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
"""Commands that run their arguments as a command, and the number of operands before it."""
ASSIGNING = frozenset({"doas", "env", "sudo", "time"})
"""Wrappers that accept variable assignments before the command."""

READS_COMMANDS = frozenset({"ed", "ex", "mysql", "psql", "sqlite3", "ssh"})
"""Programs that execute commands from their input."""
PREFIXES = frozenset(
    """
    b2sum basename cat cksum cmp comm cut df dirname du echo egrep expand expr false fgrep fold free grep groups head
    hexdump id join jq ls md5sum mkdir nl nproc od paste pgrep printf ps pwd readlink realpath rev rmdir seq sha1sum
    sha224sum sha256sum sha384sum sha512sum stat strings sum tac tail touch tr true tty type uname unexpand uptime wc
    which who whoami
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Commands for which a prefix is offered: those that only do what they say, whatever their arguments. None of them runs
another program, changes what exists, or decides what later commands mean."""
GIT_PREFIXES = frozenset(
    """
    add blame cherry commit count-objects describe for-each-ref ls-files ls-tree merge-base name-rev rev-parse show-ref
    status
    """.split()  # noqa: SIM905
)
"""The same for subcommands of git. `log`, `diff` and `show` write to any file, and `grep` starts any program."""
READABLE_DEVICES = frozenset({"/dev/null", "/dev/stdin"})


class Approval(NamedTuple):
    resources: tuple[str, ...]
    """All must be allowed."""
    save: tuple[str, ...]
    """Approvals that can be saved: the exact command first, then broader patterns."""


def approval(script: Script, directory: str = "", *, prefixes: bool = True) -> Approval:
    """`directory` is where the command runs, relative to the project; empty at its root. It is a part of what is
    approved as a whole. `prefixes` are offered only where the command runs in the Session's own directory."""
    digest = _digest(script.text)
    inner = [nested_commands(one.words) for one in script.commands]
    started = [words for found in inner if found is not None for words in found]
    resources = list(dict.fromkeys(_resources(script, started)))
    if sum(map(len, resources)) > MOST_CHARACTERS:
        resources = []
    runs_input = script.has_inline_input and any(
        _name(words) in READS_COMMANDS for words in (*(one.words for one in script.commands), *started)
    )
    opaque = script.opaque or runs_input or None in inner or not 0 < len(resources) <= MOST_RESOURCES
    if opaque:
        # Only the pattern `*` matches all of these, because of the digest.
        resources = [script.text, *resources[:MOST_RESOURCES], f"{OPAQUE}{digest}"]
    whole = script.text
    if directory:
        whole = f"{EXACT}{_digest(directory + chr(0) + script.text)}"
    elif _NOT_LITERAL.search(whole):
        whole = f"{EXACT}{digest}"
    offered = filter(None, map(_prefix, script.commands)) if prefixes and not opaque else ()
    return Approval(tuple(dict.fromkeys(resources)), tuple(dict.fromkeys([whole, *offered])))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _resources(script: Script, started: Sequence[Sequence[Word]]) -> Iterator[str]:
    for one in script.commands:
        yield from _forms(one)
    yield from map(normal_form, started)
    for target in script.outputs:
        yield f"> {target.source}"
    for target in script.inputs:
        if not _is_readable(target):
            yield f"< {target.source}"


def _is_readable(target: Word) -> bool:
    """Whether opening the file has no side effect. In bash `/dev/tcp/host/port` connects; other devices act too."""
    if target.value is None:
        return target.source.startswith("<(")
    return not target.value.startswith("/dev") or target.value in READABLE_DEVICES


def nested_commands(words: Sequence[Word]) -> list[Sequence[Word]] | None:
    """The commands that this command starts, recursively; None if they are unknown."""
    found: list[Sequence[Word]] = []
    waiting = [words]
    while waiting:
        words = waiting.pop()
        name = _name(words)
        starts = list(executed_by_find(words)) if name == "find" else [_behind(name, words)] if name in WRAPPERS else []
        assigned = words[1:] if name in ASSIGNING else ()
        if any("=" in word.source and decides_what_runs(word.value or word.source) for word in assigned):
            return None
        for started in filter(None, starts):
            if evaluates(started) or (started[0].value or "").startswith("-") or len(found) >= MOST_STARTED:
                return None
            found.append(started)
            waiting.append(started)
    return found


def _behind(wrapper: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words of the command that a wrapper runs; they begin with an option if it has one that is not understood."""
    start = 1
    while wrapper in ASSIGNING and start < len(words) and "=" in (words[start].value or words[start].source):
        start += 1
    operands = WRAPPERS[wrapper]
    if any((word.value or "").startswith("-") for word in words[start : start + operands]):
        return words[start:]
    return words[start + operands :]


def executed_by_find(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """The commands that `find` runs: the words between `-exec` and its terminator."""
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
        yield normal_form(command.words)


def normal_form(words: Sequence[Word]) -> str:
    """The normalised form: single spaces, the name without its path, and no quotes in the subcommand words."""
    if not words:
        return ""
    if words[0].value is None:
        return " ".join(word.source for word in words)
    values = [word.value if word.value is not None else word.source for word in words]
    values[0] = values[0].rpartition("/")[2] or values[0]
    count = arity(values)
    return " ".join([*values[:count], *(word.source for word in words[count:])])


def _prefix(command: SimpleCommand) -> str | None:
    """A pattern for all uses of the command, if one is offered for it."""
    if command.assignments or not command.words:
        return None
    name, subcommand = [*(word.value for word in command.words), None][:2]
    if name == "git":
        return f"git {subcommand} *" if subcommand in GIT_PREFIXES else None
    return f"{name} *" if name in PREFIXES else None


# A saved approval of such a text would match other texts too.
_NOT_LITERAL = pattern(rf"[*?]|\A{EXACT}")
