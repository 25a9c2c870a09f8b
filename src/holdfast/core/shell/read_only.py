"""Proves that a command changes nothing, for the rule effect `ask-changes`.

The proof is by list: each simple command of the script has a name of the table, literal arguments, and none of the
options with which that program writes or starts another one. Pipes, lists and conditions of such commands are proved
with their parts. Nothing is proved of output redirections, assignments, words that are decided at run time, and text
that is opaque.

Invariants
- An option that the table does not name is harmless for every argument, as far as the manuals of GNU, BSD and git say.
  Long options also count when abbreviated, and short ones inside a cluster.
- Every word that may name a file is returned, so that rules about reading can be asked. Programs that search
  directories by themselves (`rg`, `grep -r`, `find`) read more than they name.

A program's own configuration is not looked at: `git` runs what the repository's configuration names."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from holdfast.core.shell.references import STREAMS
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.shell.script import Script, SimpleCommand, Word


class Limits(Frozen):
    """The arguments with which a command is not proved to change nothing."""

    letters: str = ""
    """Short options that write or execute."""
    options: tuple[str, ...] = ()
    """Long options that write or execute, and words such as `-exec` that are one option."""
    operands: int | None = None
    """Most words that are no option; None is any number. What follows may be written to."""
    only: re.Pattern[str] | None = None
    """What every argument must match."""


ANY = Limits()
VERSION = Limits(only=pattern(r"--version|-V"))
_GIT_OUTPUT = Limits(options=("--output", "--ext-diff", "--textconv"))
_LISTED = pattern(r"-[arvl]|--(?:all|remotes|verbose|list|show-current|merged|no-merged|sort=[\w-]+)")

READERS: Mapping[str, Limits] = {
    # Any argument.
    **dict.fromkeys(
        """
        [ arch b2sum basename cat cksum cmp comm cut df dirname du echo egrep expand expr false fgrep fold free grep
        groups head hexdump id join jq ls md5sum nl nproc od paste pgrep printenv printf ps pwd readlink realpath rev
        seq sha1sum sha224sum sha256sum sha384sum sha512sum stat strings sum tac tail test tr true tty type uname
        unexpand uptime wc which who whoami
        """.split(),  # noqa: SIM905 - a list of words reads best as words
        ANY,
    ),
    # Some arguments.
    "date": Limits(only=pattern(r"\+.*|-u|--utc|-R|-I\w*")),
    "diff": Limits("l", ("--paginate",)),
    "fd": Limits("xX", ("--exec", "--exec-batch")),
    "file": Limits("CzZ", ("--compile", "--uncompress")),
    "find": Limits(
        options=("-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir")
    ),
    "hostname": Limits(only=pattern(r"-[Iadfis]|--fqdn|--short")),
    "rg": Limits("z", ("--hostname-bin", "--pre", "--search-zip")),
    "sort": Limits("oT", ("--compress-program", "--output", "--temporary-directory")),
    "tree": Limits("oR"),
    "uniq": Limits(operands=1),
    **dict.fromkeys("cargo gcc go java make node npm pip pip3 python python3 ruby rustc".split(), VERSION),  # noqa: SIM905
}
"""Commands that read, by name."""

GIT_READERS: Mapping[str, Limits] = {
    **dict.fromkeys(
        """
        blame cherry count-objects describe for-each-ref ls-files ls-tree merge-base name-rev rev-list rev-parse
        show-ref status
        """.split(),  # noqa: SIM905
        Limits(options=("--output",)),
    ),
    **dict.fromkeys(("diff", "diff-index", "diff-tree", "log", "shortlog", "show", "whatchanged"), _GIT_OUTPUT),
    "branch": Limits(only=_LISTED),
    "cat-file": Limits(options=("--batch-command", "--filters", "--textconv")),
    "config": Limits(only=pattern(r"-l|--list|--show-origin|--show-scope|--local")),
    "grep": Limits("O", ("--open-files-in-pager", "--ext-grep", "--textconv")),
    "reflog": Limits(operands=0),
    "remote": Limits(only=pattern(r"-v|--verbose")),
    "tag": Limits(only=_LISTED),
}
"""Subcommands of git that read."""


def read_files(script: Script) -> tuple[str, ...] | None:
    """The words that may name files, relative to where the script starts, or None if it may change something."""
    if script.opaque or script.outputs or not script.commands or not all(map(_only_reads, script.commands)):
        return None
    if any(target.value is None for target in script.inputs):
        return None
    folders = [command.words[1].value or "" for command in script.commands if command.words[0].value == "cd"]
    if len(folders) > 1:
        return None  # it is unclear what relative names are relative to
    named = [text for command in script.commands for word in command.words[1:] for text in _named(word.value or "")]
    named += [target.value or "" for target in script.inputs]
    if any(name.startswith("~") for name in named):
        return None
    named = [name for name in named if name not in STREAMS]
    return tuple(dict.fromkeys([*named, *(posixpath.join(folder, text) for folder in folders for text in named)]))


def _only_reads(command: SimpleCommand) -> bool:
    if command.assignments or not command.words:
        return False
    if any(word.value is None or _has_glob(word) for word in command.words[1:]):
        return False  # the arguments are decided at run time
    name = command.words[0].value
    arguments = [word.value or "" for word in command.words[1:]]
    if name == "cd":
        return len(arguments) == 1 and not arguments[0].startswith("-")
    if name == "git":
        arguments = arguments[1:] if arguments[:1] == ["--no-pager"] else arguments
        limits = GIT_READERS.get(arguments[0]) if arguments else None
        return limits is not None and _within(limits, arguments[1:])
    limits = READERS.get(name or "")
    return limits is not None and _within(limits, arguments)


def _within(limits: Limits, arguments: Sequence[str]) -> bool:
    if limits.only is not None:
        return all(map(limits.only.fullmatch, arguments))
    if limits.operands is not None and sum(not _is_option(argument) for argument in arguments) > limits.operands:
        return False
    return not any(_is_excluded(limits, argument) for argument in arguments if _is_option(argument))


def _is_option(argument: str) -> bool:
    return len(argument) > 1 and argument.startswith("-")


def _is_excluded(limits: Limits, option: str) -> bool:
    if option.startswith("--"):
        name = option.partition("=")[0]
        return len(name) > 2 and any(excluded.startswith(name) for excluded in limits.options)
    return option in limits.options or any(letter in limits.letters for letter in option[1:])


def _has_glob(word: Word) -> bool:
    return _GLOB.search(_QUOTED.sub("", word.source)) is not None


def _named(argument: str) -> Iterator[str]:
    """The argument, and the parts of it that may be the value of an option or a path in a revision."""
    yield argument
    if argument.startswith("-"):
        yield argument[2:]
        yield argument.partition("=")[2]
        yield argument[argument.find("/") :] if "/" in argument else ""
    elif ":" in argument:
        yield argument.rpartition(":")[2]


_GLOB = pattern(r"[*?\[{]")
_QUOTED = pattern(r"""'[^']*+'|"[^"]*+"|\\.""")
