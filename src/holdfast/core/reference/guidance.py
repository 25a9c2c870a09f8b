"""`core/reference-guidance`: further directories that the model may look into."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source
from holdfast.core.context.system_context import EMPTY, make
from holdfast.core.reference.reference import GitSource
from holdfast.core.skill.guidance import one_line
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.reference.reference import Reference

KEY = "core/reference-guidance"
INTRODUCTION = "These further directories may be of use. Look into them where they bear on the task."
CHANGED = "The available references have changed. This list takes the place of the earlier one."
REMOVED = "The guidance on references has ended. Do not use the references that were listed earlier."


class Listed(Record):
    name: str
    path: str
    description: str


Guidance = tuple[Listed, ...]


def reference_context(references: Iterable[Reference]) -> SystemContext:
    value = guidance(references)
    if not value:
        return EMPTY
    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=lambda: value,
            baseline=baseline,
            update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
            removed=lambda _: REMOVED,
        )
    )


def guidance(references: Iterable[Reference]) -> Guidance:
    """Those that are described and, if they come from git, are there."""
    listed = (
        Listed(name=reference.name, path=reference.path, description=reference.description)
        for reference in references
        if reference.description and (not isinstance(reference.source, GitSource) or os.path.isdir(reference.path))
    )
    return tuple(sorted(listed, key=lambda reference: (reference.name.casefold(), reference.name)))


def baseline(value: Guidance) -> str:
    lines = [INTRODUCTION, "<available_references>"]
    for reference in value:
        lines += [
            "  <reference>",
            f"    <name>{one_line(reference.name)}</name>",
            f"    <path>{one_line(reference.path)}</path>",
            f"    <description>{one_line(reference.description)}</description>",
            "  </reference>",
        ]
    return "\n".join([*lines, "</available_references>"])


_CODEC = JsonCodec(Guidance)
