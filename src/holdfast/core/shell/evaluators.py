"""Commands that run, or evaluate, text which is not part of the script that starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
"""Commands whose arguments are shell text, or change how the shell reads or finds what comes after them."""
INTERPRETERS = frozenset({"bun", "deno", "lua", "node", "perl", "php", "python", "ruby", "tclsh"})
"""Without a program to run they read one."""
DECLARATIONS = frozenset({"declare", "export", "getopts", "local", "read", "readonly", "typeset", "unset", "wait"})
"""Commands whose arguments are names of variables, in which bash evaluates a subscript."""


def evaluates(words: Sequence[Word]) -> bool:
    """Whether this runs text that is not part of the script, or a program whose name cannot be read."""
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
        return not all(_DECLARATION.fullmatch(word.source) for word in arguments)
    if name in ("test", "["):
        return not _is_plain_test(arguments)
    if name == "printf":
        # `-v name` assigns.
        return not arguments or arguments[0].value is None or arguments[0].value.startswith("-")
    if name == "set":
        return not all(_SET_OPTION.fullmatch(word.value or "") for word in arguments)
    if name in SHELLS:
        # As good as any program while it runs a file; told `-c`, or nothing, it runs text from elsewhere.
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
    """Whatever its version."""
    return name.rstrip("0123456789.") in INTERPRETERS


def has_subscript(value: str) -> bool:
    """Where a shell takes text for the name of a variable, it runs the substitutions in its subscript."""
    _, bracket, rest = value.partition("[")
    return bool(bracket) and ("$(" in rest or "`" in rest)


def _is_plain_test(arguments: Sequence[Word]) -> bool:
    """Whether the operators are known, and none of them takes the name of a variable."""
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
_SET_OPTION = pattern(r"[-+][eux]+o?|[-+]o|pipefail|errexit|nounset|xtrace")
_ABOUT_ITSELF = frozenset({"--help", "--version", "-V", "-h", "-v"})
_ONE_WORD = pattern(r'"[^"]*"')
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghkLnoOprsStuwxzGN")
_BINARY = frozenset(("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"))
