"""`skill`: the only way to a skill's body and files. Denied, unknown and unreadable look alike."""

import asyncio
import os
import re
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

import msgspec

from holdfast.core.permission.errors import DeniedWithFeedback
from holdfast.core.skill.reader import SKILL_FILE
from holdfast.core.skill.skill import Skill
from holdfast.core.skill.skills import Skills
from holdfast.core.tool.builtin.authorize import Authorizer, Denied
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.pattern import pattern
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

ACTION = "skill"
MOST_FILES = 10
MOST_ENTRIES = 2000
NAME_CHARACTERS = 200
UNABLE = "Unable to load skill {name}"
BASE = "Base directory of this skill: {directory}"
RELATIVE = "Relative paths in this skill, such as scripts/ or references/, start at that directory."
SAMPLED = "The files listed here are a sample; there may be more."


class SkillInput(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(description="The name of an available skill")]


class LoadedSkill(Record):
    name: str
    directory: str
    output: str


def skill_tool(skills: Skills, authorizer: Authorizer) -> Tool[SkillInput, LoadedSkill]:
    async def execute(given: SkillInput, context: ToolContext) -> LoadedSkill:
        unable = ToolFailure(UNABLE.format(name=given.name[:NAME_CHARACTERS]))
        skill = await skills.get(given.name)
        if skill is None:
            raise unable
        try:
            await authorizer.allow(context, ACTION, (skill.name,), save=(skill.name,))
        except Denied as denied:
            if isinstance(denied.__cause__, DeniedWithFeedback):
                raise  # the user's own words, which the model shall read
            raise unable from denied
        files = await asyncio.to_thread(sample, skill)
        directory = os.path.dirname(skill.location)
        return LoadedSkill(name=skill.name, directory=directory, output=rendered(skill, directory, files))

    return Tool(
        looks_only=True,
        description=DESCRIPTION,
        input=SkillInput,
        output=LoadedSkill,
        execute=execute,
        content=_content,
        action=ACTION,
    )


def sample(skill: Skill) -> list[str]:
    """Some of the files that belong to a skill with a directory of its own. Those next to a flat one are not its."""
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


def rendered(skill: Skill, directory: str, files: list[str]) -> str:
    from html import escape

    lines = [
        f'<skill_content name="{escape(skill.name)}">',
        f"# Skill: {escape(skill.name)}",
        "",
        _CLOSING.sub("&lt;/skill_content", skill.content.strip()),
        "",
        BASE.format(directory=escape(directory)),
        RELATIVE,
        SAMPLED,
        "",
        "<skill_files>",
        *(f"<file>{escape(file)}</file>" for file in files),
        "</skill_files>",
        "</skill_content>",
    ]
    return "\n".join(lines)


def _is_file_below(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real.startswith(root + os.sep) and os.path.isfile(real)


def _content(given: SkillInput, value: dict[str, Any]) -> list[TextContent]:
    return [TextContent(text=value["output"])]


DESCRIPTION = (
    "Load one of the available skills by its name: instructions for a particular kind of work, "
    "with the directory of the files that belong to it."
)
_CLOSING = pattern(r"</\s*skill_content", re.IGNORECASE)
