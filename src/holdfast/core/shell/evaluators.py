"""Recognises commands that run or evaluate text from outside the parsed script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.shell.variables import decides_what_runs
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.shell.script import Word

SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"})
EVALUATORS = frozenset(
    """
    . alias bind compgen complete coproc emulate enable eval fc hash jobs let mapfile parallel readarray runuser script
    setopt shopt source su trap unsetopt watch
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Commands whose arguments are shell code, or that change how the shell parses or finds later commands."""
INTERPRETERS = frozenset({"bun", "deno", "lua", "node", "perl", "php", "python", "ruby", "tclsh"})
"""Without a file argument they read a program from their input."""
DECLARATIONS = frozenset({"declare", "export", "getopts", "local", "read", "readonly", "typeset", "unset", "wait"})
"""Commands whose arguments are variable names, in which bash evaluates subscripts."""


def evaluates(words: Sequence[Word]) -> bool:
    """Whether the command runs text from outside the script, or a program with an unknown name."""
    if not words:
        return False
    name = words[0].value
    if name is None or _PLAIN_NAME.fullmatch(name) is None:
        return True
    name = name.rpartition("/")[2]
    arguments = words[1:]
    if name in EVALUATORS:
        return True
    if name in DECLARATIONS:
        return not all(
            _DECLARATION.fullmatch(word.source) and not decides_what_runs(word.value or word.source)
            for word in arguments
        )
    if name in ("test", "["):
        return not _is_plain_test(arguments)
    if name == "printf":
        # `printf -v name` assigns a variable.
        return not arguments or arguments[0].value is None or arguments[0].value.startswith("-")
    if name == "set":
        return not all(_SET_OPTION.fullmatch(word.value or "") for word in arguments)
    if name in SHELLS:
        # Running a script file is like running any program; with `-c` or no argument it runs other text.
        first = next((word.value for word in arguments if word.value is None or not word.value.startswith("+")), None)
        return first is None or first.startswith(("-", "/dev/", "/proc/"))
    if is_interpreter(name):
        given = [word.value or "" for word in arguments]
        program = next((value for value in given if value == "-" or not value.startswith("-")), None)
        if program is None:
            return not _ABOUT_ITSELF.intersection(given)
        return program == "-" or program.startswith(("/dev/", "/proc/"))
    return False


def is_interpreter(name: str) -> bool:
    """Whether it is an interpreter, of any version."""
    return name.rstrip("0123456789.") in INTERPRETERS


def has_subscript(value: str) -> bool:
    """Whether a subscript in the text has a substitution. A shell that reads the text as a variable name runs it."""
    _, bracket, rest = value.partition("[")
    return bool(bracket) and ("$(" in rest or "`" in rest)


def _is_plain_test(arguments: Sequence[Word]) -> bool:
    """Whether all operators are known and none takes a variable name."""
    values = [word.value for word in arguments]
    if "-v" in values or "-R" in values:
        return False
    if None not in values:
        return True
    words = [word for word in arguments if word.value not in ("!", "]")]
    if any(word.value is None and not _ONE_WORD.fullmatch(word.source) for word in words):
        return False
    match len(words):
        case 1:
            return True
        case 2:
            return words[0].value in _UNARY
        case 3:
            return words[1].value in _BINARY
        case _:
            return False


_PLAIN_NAME = pattern(r"[\w./+:@%,=-]+|\[")
_DECLARATION = pattern(r"(?s)-[a-hj-mo-zA-Z]+|[A-Za-z_]\w*(?:=.*)?|\$!|[0-9]+")
# Not `x`: with it, shells expand PS4 before each command.
_SET_OPTION = pattern(r"[-+][eu]+o?|[-+]o|pipefail|errexit|nounset")
_ABOUT_ITSELF = frozenset({"--help", "--version", "-V", "-h", "-v"})
_ONE_WORD = pattern(r'"[^"]*"')
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghkLnoOprsStuwxzGN")
_BINARY = frozenset(("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"))
