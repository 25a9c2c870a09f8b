"""Guesses which further commands a script may run, so that rules that deny or ask meet them too.

`resources` of an approval are what rules have to allow. A guess is never needed for that: it only finds the command
behind options of git and of wrappers, and in text that a shell carries out later (`sh -c`, `eval`, `trap`). Too many
guesses are better than too few, but a rule only meets what stands in the script: not what a variable, a file or another
language decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.shell.approval import WRAPPERS, executed_by_find, normal_form
from holdfast.core.shell.arity import arity
from holdfast.core.shell.evaluators import EVALUATORS, SHELLS, evaluates
from holdfast.core.shell.grammar import parse
from holdfast.core.shell.guess import guessed_commands
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.shell.script import Script, Word

MOST_FORMS = 200
DEEPEST = 6
MOST_WORDS = 100
"""Words of one command that are looked at."""

_LAUNCHERS = """
    bunx caffeinate catchsegv chronic cpulimit daemonize dbus-run-session eatmydata entr firejail fakechroot npx nsenter
    numactl proxychains proxychains4 rlwrap rtkit run0 screen setpriv sshpass start-stop-daemon systemd-inhibit
    systemd-run torify torsocks uvx watchexec xvfb-run
"""
_LAUNCHERS_WITH_OPERAND = """
    bundle conda faketime gosu hatch npm pdm pipenv pipx pnpm poetry runuser su su-exec tmux uv yarn
"""
LAUNCHERS = {
    **dict.fromkeys(_LAUNCHERS.split(), 0),
    **dict.fromkeys(_LAUNCHERS_WITH_OPERAND.split(), 1),
}
"""Further commands that run their arguments as a command, and the number of operands before it."""
RUNNERS = {**dict.fromkeys((*EVALUATORS, *SHELLS), 0), **WRAPPERS, **LAUNCHERS}
TEXTUAL = EVALUATORS | SHELLS | frozenset(("env", "flock", "npm", "npx", "screen", "tmux", "watchexec"))
"""Commands that carry out text in their arguments."""
FEEDERS = frozenset(("echo", "printf"))
"""Commands that give text to a shell that reads its input."""


def suspected_commands(script: Script) -> tuple[str, ...]:
    """Normalised forms of these commands, bounded in number."""
    search = _Search()
    to_shell = any(_name(one.words) in SHELLS and evaluates(one.words) for one in script.commands)
    for command in script.commands:
        search.look_behind(command.words, 0)
        if to_shell and _name(command.words) in FEEDERS:
            search.read(" ".join(map(_text, command.words[1:])), 0)
    if script.opaque and script.has_inline_input:
        for command in guessed_commands(script.text, MOST_FORMS):
            search.add(command.words, 0)
    return tuple(search.forms)


class _Search:
    def __init__(self) -> None:
        self.forms: dict[str, None] = {}

    def add(self, words: Sequence[Word], depth: int) -> None:
        form = normal_form(words)
        if form and form not in self.forms and len(self.forms) < MOST_FORMS:
            self.forms[form] = None
            self.look_behind(words, depth + 1)

    def read(self, text: str, depth: int) -> None:
        """Text that a shell carries out."""
        if depth < DEEPEST and text.strip():
            for command in parse(text).commands:
                self.add(command.words, depth + 1)

    def look_behind(self, words: Sequence[Word], depth: int) -> None:
        if depth >= DEEPEST or not words:
            return
        words, name = words[:MOST_WORDS], _name(words)
        if name in RUNNERS:
            for started in _behind_options(words, RUNNERS[name]):
                if " " in _text(started[0]):
                    self.read(_text(started[0]), depth)
                else:
                    self.add(started, depth)
        if name in TEXTUAL:
            for text in (*map(_carried, words[1:]), " ".join(map(_text, words[1:]))):
                self.read(text, depth)
        if name == "find":
            for started in executed_by_find(words):
                self.add(started, depth)
        if arity((name, "x")) > 1 and len(words) > 1 and _text(words[1]).startswith("-"):
            for started in _behind_options(words, 0):
                self.add((words[0], *started), depth)
        if name == "git":
            self._read_aliases(words, depth)

    def _read_aliases(self, words: Sequence[Word], depth: int) -> None:
        for word in words:
            found = _GIT_ALIAS.search(_text(word))
            if found is not None:
                self.read(found[2] if found[1] else f"git {found[2]}", depth)


def _behind_options(words: Sequence[Word], operands: int) -> Iterator[Sequence[Word]]:
    """What the first word may run: the words from an operand on. Each option may have taken an operand as its value."""
    options = passed = 0
    for index, word in enumerate(words[1:], start=1):
        text = _text(word)
        if text.startswith("-") or _ASSIGNMENT.match(text) is not None:
            options += text not in ("-", "--")
            continue
        yield words[index:]
        passed += 1
        if passed > options + operands:
            return


def _name(words: Sequence[Word]) -> str:
    return (words[0].value or "").rpartition("/")[2] if words else ""


def _text(word: Word) -> str:
    return word.value if word.value is not None else word.source.strip("\"'")


def _carried(word: Word) -> str:
    """The text in an argument, which may be attached to an option or to the name of an alias."""
    text = _text(word)
    if text.startswith("-"):
        return text.partition("=")[2] or text[2:]
    return text[found.end() :] if (found := _ASSIGNMENT.match(text)) is not None else text


_ASSIGNMENT = pattern(r"[A-Za-z_]\w*+=")
_GIT_ALIAS = pattern(r"(?s)\balias\.[^=]+=(!?)(.*)")
