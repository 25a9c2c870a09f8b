"""Decides which files a project may make Holdfast read by itself.

A project names files that reach the model or a setting without a tool call: links with the name of an instruction file,
entries of `instructions`, `{file:…}`, and links among the Markdown files and skills of a `.opencode` folder.

Invariant: on the word of a project no file is read that agents may not `read` unasked, by the built-in rules and those
of the user, and none in Holdfast's own folders. The real path counts. Rules of the project itself have no say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains, printable
from holdfast.core.filesystem.own_folders import OwnFolders
from holdfast.core.permission.protected import READ_RULES, resources
from holdfast.core.permission.rules import deciding
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ACTION = "read"


class ProjectReads:
    def __init__(
        self, rules: Sequence[Rule], strict: Sequence[Rule], directory: str, root: str, own: OwnFolders
    ) -> None:
        """`rules` apply to every agent, and the last one that matches decides. `strict` are rules that ask or deny for
        one agent; they count too, because what a project names reaches all agents."""
        self._rules = tuple(rules)
        self._strict = tuple(strict)
        self._own = own
        self._root = os.path.realpath(root)
        self._bases = dict.fromkeys((os.path.realpath(directory), self._root))

    def protecting(self, path: str, *, as_named: bool = False) -> Rule | None:
        """The rule that protects the file at a real path, or None if it may be read. With `as_named`, the file is what
        its name says, such as an AGENTS.md: rules about all files do not concern it."""
        if self._own.use(path) != "open":
            return Rule(action=ACTION, resource=f"{os.path.dirname(path)}/*", effect="deny")
        rules = [rule for name in self._names(path) for rule in self._deciding(name)]
        strict = [rule for rule in rules if rule.effect != "allow" and not (as_named and rule.resource == "*")]
        return min(strict, key=lambda rule: rule.effect != "deny", default=None)

    def refusal(self, path: str, *, anywhere: bool) -> str | None:
        """Why a file that the project names by this path must not be read, in words for the user, or None. `anywhere`
        permits a link that leads out of the project."""
        folder, name = os.path.split(path)
        real = os.path.realpath(path)
        if not anywhere and not contains(self._root, real):
            return f"leads to {printable(real)}, which is outside the project"
        rule = self.protecting(real, as_named=real == os.path.join(os.path.realpath(folder), name))
        return protected_by(real, rule) if rule is not None else None

    def _deciding(self, name: str) -> Iterable[Rule]:
        for rules in (self._rules, self._strict):
            if (rule := deciding(rules, ACTION, name)) is not None:
                yield rule

    def _names(self, path: str) -> list[str]:
        """Every way in which a rule may name the file: absolute, and relative to the Location and to the project."""
        names = (path, *(os.path.relpath(path, base) for base in self._bases if contains(base, path)))
        return [resource for name in names for resource in resources(ACTION, name, path)]


def protected_by(path: str, rule: Rule) -> str:
    """The reason for not using a file, in words for the user."""
    verb = "denies" if rule.effect == "deny" else "asks about"
    return f"leads to {printable(path)}, and the permission rule `{rule.action}: {rule.resource}` {verb} reading it"


READ_DEFAULTS = ProjectReads(READ_RULES, (), "/", "/", OwnFolders())
"""Without settings of the user."""
