"""The `skill` tool: loads the body and file list of a skill. Denied, unknown and unreadable skills fail alike."""

import asyncio
import os
from typing import Annotated

import msgspec

from holdfast.core.permission.errors import DeniedWithFeedback
from holdfast.core.skill.content import skill_text
from holdfast.core.skill.skills import Skills
from holdfast.core.tool.builtin.authorize import Authorizer, Denied
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

ACTION = "skill"
NAME_CHARACTERS = 200
UNABLE = "Unable to load skill {name}"


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
                raise  # the model must read the user's message
            raise unable from denied
        text = await asyncio.to_thread(skill_text, skill)
        return LoadedSkill(name=skill.name, directory=os.path.dirname(skill.location), output=text)

    return Tool(
        read_only=True,
        description=DESCRIPTION,
        input=SkillInput,
        output=LoadedSkill,
        execute=execute,
        content=lambda given, value: (TextContent(text=value["output"]),),
        action=ACTION,
    )


DESCRIPTION = (
    "Load one of the available skills by its name: instructions for a particular kind of work, "
    "with the directory of the files that belong to it."
)
