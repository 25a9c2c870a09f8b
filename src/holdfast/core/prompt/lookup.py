"""What a mention names: a resource of an MCP server, a file or directory, a path of a reference, or an agent. Nothing
is opened or asked here.

Order: a resource, a reference of that name, an agent that other agents may call, a path. A path is relative to the
Session's directory; `~/` is the user's home. Symbolic links are followed first, so that permission is asked for their
target."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.filesystem.errors import PathError
from holdfast.core.prompt.mention import parse
from holdfast.core.reference.availability import unavailable
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.filesystem.location_files import LocationFiles
    from holdfast.core.filesystem.location_path import Target
    from holdfast.core.prompt.filled_template import FilledTemplate
    from holdfast.core.prompt.mention import Mention
    from holdfast.core.reference.reference import Reference

LOOKED_UP = 1_000
"""How many different mentions of one text are looked up."""
PARSED = 20_000
"""How many mentions of one text are parsed; beyond them only each `@` is counted."""

MISSING = "it does not exist"
OF_SERVER = "it is a resource, and the commands of this project are not trusted (`holdfast trust`)"
OUTSIDE = "it is outside the project, whose commands are not trusted (`holdfast trust`)"
EXISTING = frozenset({"special_path", "location_escape", "link_loop"})
"""Reasons for which a path is not used although something has its name."""


class NamedPath(Frozen):
    mention: Mention
    target: Target
    name: str


class NamedAgent(Frozen):
    mention: Mention


class NamedResource(Frozen):
    mention: Mention
    server: str


class Broken(Frozen):
    """A mention that is meant as a path or a resource and cannot be attached."""

    mention: Mention
    reason: str


Named = NamedPath | NamedResource | NamedAgent | Broken


class Findings(Frozen):
    named: list[Named]
    left_out: int


class Names(Frozen):
    """What can be mentioned besides paths."""

    references: dict[str, Reference]
    agents: frozenset[str]
    servers: frozenset[str] = frozenset()
    """MCP servers."""


class Lookup:
    def __init__(self, files: LocationFiles, home: Path) -> None:
        self._files = files
        self._home = home

    def find(self, text: str, names: Names, most: int, template: FilledTemplate | None = None) -> Findings:
        """The first `most` mentions that name something or are meant as a path, each once. `template` tells where the
        parts of the text come from. Blocks."""
        text = text if template is None else template.without_output(text)
        named: list[Named] = []
        seen: set[tuple[object, ...]] = set()
        targets: set[tuple[object, ...]] = set()
        left_out = 0
        for number, mention in enumerate(parse(text, names.servers), 1):
            if number > PARSED:
                return Findings(named, left_out + text.count("@", mention.source.start))
            if template is not None and not template.may_mention(mention.source):
                continue
            confined = template is not None and template.is_confined(mention.source)
            key = (mention.path, mention.server, mention.lines, mention.is_quoted, confined)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > LOOKED_UP:
                left_out += 1
                continue
            found = self._look_up(mention, names)
            if confined and isinstance(found, NamedPath) and not self._is_inside(found.target):
                found = Broken(mention, OUTSIDE)
            if confined and isinstance(found, NamedResource):
                found = Broken(mention, OF_SERVER)
            if isinstance(found, NamedResource):
                if (found.server, mention.path) in targets:
                    continue
                targets.add((found.server, mention.path))
            if isinstance(found, NamedPath):
                target = (found.target.path, mention.lines)
                if target in targets:
                    continue
                targets.add(target)
            if found is not None and len(named) < most:
                named.append(found)
            elif found is not None:
                left_out += 1
        return Findings(named, left_out)

    def _is_inside(self, target: Target) -> bool:
        return contains(str(self._files.root), str(target.path))

    def _look_up(self, mention: Mention, names: Names) -> Named | None:
        if mention.server is not None:
            return NamedResource(mention, mention.server)
        reference = names.references.get(mention.path.partition("/")[0])
        if reference is not None:
            return self._referenced(mention, reference)
        if mention.path in names.agents and mention.lines is None and not mention.is_quoted:
            return NamedAgent(mention)
        try:
            target = self._target(mention.path)
        except PathError as error:
            return Broken(mention, str(error)) if mention.looks_like_path or error.reason in EXISTING else None
        if target.exists:
            return NamedPath(mention, target, mention.name)
        return Broken(mention, MISSING) if mention.looks_like_path else None

    def _referenced(self, mention: Mention, reference: Reference) -> Named:
        """Named with the `@`, as tools accept it."""
        if (problem := unavailable(reference)) is not None:
            return Broken(mention, problem.reason)
        try:
            target = self._files.resolve(f"@{mention.path}", kind="directory")
        except PathError as error:
            return Broken(mention, str(error))
        return NamedPath(mention, target, f"@{mention.name}") if target.exists else Broken(mention, MISSING)

    def _target(self, path: str) -> Target:
        """A relative path that leads out of the Location is an absolute one, which needs approval."""
        if path.startswith("~/"):
            path = str(self._home / path[2:])
        try:
            return self._files.resolve(path if os.path.isabs(path) else f"./{path}", kind="directory")
        except PathError as error:
            if error.reason == "relative_escape":
                outside = os.path.normpath(self._files.root / path)
            elif error.reason == "location_escape":
                outside = os.path.realpath(self._files.root / path)
            else:
                raise
        return self._files.resolve(outside, kind="directory")
