"""The text of a skill as a model reads it: its content, its directory, and some of its files."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.core.skill.reader import SKILL_FILE
from holdfast.core.tagged_text import inside_tag

if TYPE_CHECKING:
    from holdfast.core.skill.skill import Skill

MOST_FILES = 10
MOST_ENTRIES = 2000
BASE = "Base directory of this skill: {directory}"
RELATIVE = "Relative paths in this skill, such as scripts/ or references/, start at that directory."
SAMPLED = "The files listed here are a sample; there may be more."


def skill_text(skill: Skill) -> str:
    """Blocks: it lists the skill's directory. The content cannot end the tag around it."""
    from html import escape

    lines = [
        f'<skill_content name="{escape(skill.name)}">',
        f"# Skill: {escape(skill.name)}",
        "",
        inside_tag("skill_content", skill.content.strip()),
        "",
        BASE.format(directory=escape(os.path.dirname(skill.location))),
        RELATIVE,
        SAMPLED,
        "",
        "<skill_files>",
        *(f"<file>{escape(file)}</file>" for file in sample(skill)),
        "</skill_files>",
        "</skill_content>",
    ]
    return "\n".join(lines)


def sample(skill: Skill) -> list[str]:
    """Some files of a skill that has its own directory. Files next to a single-file skill do not belong to it."""
    if os.path.basename(skill.location) != SKILL_FILE:
        return []
    root = os.path.dirname(skill.location)
    real = os.path.realpath(root)
    found: list[str] = []
    pending, seen = [root], 0
    while pending and seen < MOST_ENTRIES:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in islice(entries, MOST_ENTRIES - seen):
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.name != SKILL_FILE and _is_file_below(entry.path, real):
                    found.append(entry.path)
    return sorted(found)[:MOST_FILES]


def _is_file_below(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real.startswith(root + os.sep) and os.path.isfile(real)
