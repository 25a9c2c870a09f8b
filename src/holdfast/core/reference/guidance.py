"""`core/reference-guidance`: further directories that the model may read, and the ones that cannot be used.

A reference is named as tools accept it, `@name`. A missing directory is reported; a repository that is being fetched
for the first time is not mentioned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import ABSENT, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.core.reference.availability import unavailable
from holdfast.core.skill.guidance import one_line
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.context.source import Absent
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.reference.reference import Reference

KEY = "core/reference-guidance"
INTRODUCTION = (
    "These further directories may be of use. Look into them where they bear on the task. They can only be read: "
    "`read`, `glob` and `grep` accept the path that is shown here, and paths inside it such as `@name/src/main.py`."
)
UNUSABLE = "These references are configured and cannot be used at present:"
CHANGED = "The available references have changed. This list takes the place of the earlier one."
REMOVED = "The guidance on references has ended. Do not use the references that were listed earlier."


class Listed(Record):
    name: str
    path: str
    """As tools accept it."""
    description: str
    problem: str | None = None
    """Why it cannot be used."""


Guidance = tuple[Listed, ...]


def reference_context(references: Callable[[], Iterable[Reference]]) -> SystemContext:
    """One source; whether the directories exist is checked at each observation."""

    async def load() -> Guidance | Absent:
        return guidance(references()) or ABSENT

    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=load,
            baseline=baseline,
            update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
            removed=lambda _: REMOVED,
            immediate=True,
        )
    )


def guidance(references: Iterable[Reference]) -> Guidance:
    """The references that have a description, sorted by name, except those that are still being fetched."""
    listed = (found for reference in references if reference.description and (found := _listed(reference)) is not None)
    return tuple(sorted(listed, key=lambda reference: (reference.name.casefold(), reference.name)))


def baseline(value: Guidance) -> str:
    usable = [reference for reference in value if reference.problem is None]
    lines = [INTRODUCTION, "<available_references>"] if usable else []
    for reference in usable:
        lines += [
            "  <reference>",
            f"    <name>{one_line(reference.name)}</name>",
            f"    <path>{one_line(reference.path)}</path>",
            f"    <description>{one_line(reference.description)}</description>",
            "  </reference>",
        ]
    if usable:
        lines.append("</available_references>")
    problems = [f"- {one_line(item.name)}: {one_line(item.problem)}" for item in value if item.problem is not None]
    return "\n".join([*lines, *([UNUSABLE, *problems] if problems else [])])


def _listed(reference: Reference) -> Listed | None:
    problem = unavailable(reference)
    if problem is not None and problem.is_unfetched:
        return None
    return Listed(
        name=reference.name,
        path=f"@{reference.name}",
        description=reference.description or "",
        problem=problem.reason if problem is not None else None,
    )


_CODEC = JsonCodec(Guidance)
