"""Globs as ripgrep reads them, matched in linear time: `*` and `?` within one part of a path, `**` across parts,
`[…]`, `{a,b}`. A glob without a slash is about the file's name, one with a slash about its whole path.

Invariants
- Names that begin with a dot are matched only by a part that begins with one, unless `dots` are wanted.
- Once a star has found the first place for what follows it, no later place is tried: that one is always as good."""

from __future__ import annotations

import re

from holdfast.schema.exceptions import HoldfastError

LONGEST = 1024
MOST_ALTERNATIVES = 256


class InvalidGlob(HoldfastError):
    """The message is a clause about what is wrong with it."""


class Glob:
    def __init__(self, pattern: str, *, dots: bool = False) -> None:
        if not pattern or len(pattern) > LONGEST or re.search(r"[\0\r\n]", pattern):
            raise InvalidGlob("it is empty, too long or has control characters")
        forms = _alternatives(pattern)
        for form in forms:
            if form.startswith(("!", "/")) or ".." in form.split("/"):
                raise InvalidGlob("it must be relative, without `..` and without `!` at its beginning")
        self.hidden = any(part.startswith(".") for form in forms for part in form.split("/"))
        """Whether it selects hidden files."""
        self._expression = re.compile("|".join(f"(?:{_translate(form, dots)})" for form in forms), re.DOTALL)

    def matches(self, path: str) -> bool:
        """A path relative to where the search began, with forward slashes."""
        return self._expression.fullmatch(path) is not None


def _translate(form: str, dots: bool) -> str:
    parts = [part for part in form.removeprefix("./").split("/") if part]
    if "/" not in form:
        parts.insert(0, "**")
    if parts[-1:] == ["**"]:
        parts.append("*")
    # Between two `**` stands a run of parts with a fixed count: the first place where it fits is good enough.
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_part(part, dots))
    first, *others = ("/".join(run) for run in runs)
    if not others:
        return first
    *middle, last = others
    beginning = f"{first}/" if first else ""
    any_parts = f"(?:{_ANY if dots else _VISIBLE}/)*"
    return beginning + "".join(f"(?>{any_parts}?{run}/)" for run in middle if run) + any_parts + last


_ANY = r"[^/]+"
_VISIBLE = r"[^/.][^/]*"
_STAR = "*"


def _part(part: str, dots: bool) -> str:
    """One part of a path; stars are lazy and final, except the last one, which takes what the end leaves."""
    tokens = _tokens(part)
    dot = "" if dots or part.startswith(".") else r"(?!\.)"
    if _STAR not in tokens:
        return dot + "".join(tokens)
    pieces: list[str] = [""]
    for token in tokens:
        if token == _STAR:
            pieces.append("")
        else:
            pieces[-1] += token
    first, *middle, last = pieces
    return dot + first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + f"[^/]*{last}"


def _tokens(part: str) -> list[str]:
    tokens: list[str] = []
    index = 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            if tokens[-1:] != [_STAR]:
                tokens.append(_STAR)
        elif char == "?":
            tokens.append("[^/]")
        elif char == "[" and (found := re.compile(r"([!^]?)(\]?[^\]/]*)\]").match(part, index)):
            tokens.append(_class(found[1], found[2]))
            index = found.end()
        elif char == "\\" and index < len(part):
            tokens.append(re.escape(part[index]))
            index += 1
        else:
            tokens.append(re.escape(char))
    return tokens


def _class(negated: str, body: str) -> str:
    members = re.sub(r"([\\\[\]^&|~])", r"\\\1", body)
    text = f"[{'^/' if negated else ''}{members}]"
    try:
        re.compile(text)
    except re.error:
        raise InvalidGlob(f"the class [{negated}{body}] cannot be read") from None
    return text


def _alternatives(pattern: str) -> list[str]:
    """Every way to choose from its braces."""
    forms, finished = [pattern], []
    while forms:
        form = forms.pop()
        found = re.search(r"(?<!\\)\{((?:[^{}\\]|\\.)*)\}", form)
        if found is None:
            finished.append(form)
            continue
        forms += [form[: found.start()] + choice + form[found.end() :] for choice in found[1].split(",")]
        if len(forms) + len(finished) > MOST_ALTERNATIVES:
            raise InvalidGlob("it has too many alternatives")
    return list(dict.fromkeys(reversed(finished)))
