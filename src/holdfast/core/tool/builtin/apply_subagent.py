"""The `apply_subagent` tool: applies what a subagent changed in its isolated copy to the files here, with approval."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.filesystem.location_path import Target
from holdfast.core.session.store import SessionStore
from holdfast.core.snapshot.application import Plan
from holdfast.core.snapshot.copy_changes import listed
from holdfast.core.snapshot.copy_record import CopyRecord
from holdfast.core.snapshot.errors import CopyFailed
from holdfast.core.tool.builtin.authorize import Authorizer, allow_outside, file_failures, narrowest_first
from holdfast.core.tool.builtin.isolation import Isolation
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

ACTION = "edit"
MOST_FILES = 1_000
SHOWN_CONFLICTS = 20
DESCRIPTION = (
    "Apply the changes that a subagent made in its isolated copy to the files here: all of them or none. Look at its "
    "diff first."
)
NO_CHILD = "{id} is not a subagent of this Session"
NOT_ISOLATED = "Subagent {id} did not work in an isolated copy: its changes are in the files already."
WORKING = "Subagent {id} is still working. Apply its changes when it has ended."
UNABLE = "Unable to apply the changes of {id}: {error}"
CONFLICT = "Nothing was applied. These files cannot be changed as the subagent did:\n{files}\nCopy: {directory}"
TOO_MANY = "The subagent changed {count} files, more than {most}. A person can apply them from {directory}."
NOTHING = "There is nothing to apply: all changes of the subagent are in the files already."
APPLIED = "Applied the changes of the subagent:"
FURTHER = "The subagent has changed more since then, in {directory}. Call it again for that."
LEFT_OUT = "Not applied, because they are too large or repositories of their own: {paths}. They are in {directory}."


class ApplySubagentInput(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    session_id: Annotated[str, msgspec.Meta(description="The Session of the subagent")]


class AppliedFile(Record):
    file: str
    status: Literal["added", "modified", "deleted"]


class ApplySubagentOutput(Record):
    session_id: str
    files: tuple[AppliedFile, ...]
    note: str | None = None


class ApplySubagent:
    def __init__(
        self,
        isolation: Isolation,
        store: SessionStore,
        files: LocationFiles,
        authorizer: Authorizer,
        edited: Callable[[Path], None],
    ) -> None:
        self._isolation = isolation
        self._store = store
        self._files = files
        self._authorizer = authorizer
        self._edited = edited

    async def execute(self, given: ApplySubagentInput, context: ToolContext) -> ApplySubagentOutput:
        record = await self._copy_of(given.session_id, context)
        applications = self._isolation.applications
        try:
            plan = await applications.plan(record)
            targets = self._targets(plan)
            if plan.steps:
                await self._approve(plan, targets, context)
                await applications.apply(plan)
                for target in targets:
                    self._files.fingerprints.note(context.session_id, target.path)
                    self._edited(target.path)
            further = await applications.finish(plan, partial(self._isolation.sessions.works, record.session_id))
        except CopyFailed as error:
            raise ToolFailure(UNABLE.format(id=record.session_id, error=error)) from error
        applied = (
            AppliedFile(file=target.resource, status=step.status)
            for step, target in zip(plan.steps, targets, strict=True)
        )
        return ApplySubagentOutput(session_id=record.session_id, files=tuple(applied), note=self._note(plan, further))

    async def _copy_of(self, session_id: str, context: ToolContext) -> CopyRecord:
        child = await self._store.find(session_id)
        if child is None or child.parent_id != context.session_id:
            raise ToolFailure(NO_CHILD.format(id=session_id[:200]))
        record = self._isolation.copies.folder.read(child.id)
        if record is None:
            raise ToolFailure(NOT_ISOLATED.format(id=child.id))
        if (await self._isolation.sessions.use(child.id)).state == "working":
            raise ToolFailure(WORKING.format(id=child.id))
        return record

    def _targets(self, plan: Plan) -> list[Target]:
        directory = self._isolation.copies.directory(plan.record)
        if plan.conflicts:
            files = "\n".join(f"{path}: {reason}" for path, reason in plan.conflicts[:SHOWN_CONFLICTS])
            if len(plan.conflicts) > SHOWN_CONFLICTS:
                files += f"\nand {len(plan.conflicts) - SHOWN_CONFLICTS} more"
            raise ToolFailure(CONFLICT.format(files=files, directory=directory))
        if len(plan.steps) > MOST_FILES:
            raise ToolFailure(TOO_MANY.format(count=len(plan.steps), most=MOST_FILES, directory=directory))
        return [self._target(step.path) for step in plan.steps]

    def _target(self, path: str) -> Target:
        with file_failures(f"Unable to change {path!r}"):
            # A link is changed itself, not its target.
            return self._files.resolve(str(self._isolation.root / path), "write", follow=False)

    async def _approve(self, plan: Plan, targets: Sequence[Target], context: ToolContext) -> None:
        diff = await self._isolation.applications.diff(plan)
        await allow_outside(self._authorizer, context, targets)
        resources = list(dict.fromkeys(target.resource for target in targets))
        metadata = {"sessionID": plan.record.session_id, "diff": diff.text()}
        save = narrowest_first(*resources)
        await self._authorizer.allow(context, ACTION, resources, save=save, metadata=metadata)

    def _note(self, plan: Plan, further: bool) -> str | None:
        directory = self._isolation.copies.directory(plan.record)
        notes = [FURTHER.format(directory=directory)] if further else []
        if plan.left_out:
            notes.append(LEFT_OUT.format(paths=listed(plan.left_out), directory=directory))
        return "\n".join(notes) or None


def apply_subagent_tool(tool: ApplySubagent) -> Tool[ApplySubagentInput, ApplySubagentOutput]:
    return Tool(
        description=DESCRIPTION,
        input=ApplySubagentInput,
        output=ApplySubagentOutput,
        execute=tool.execute,
        content=_content,
        action=ACTION,
    )


def _content(given: ApplySubagentInput, value: dict[str, Any]) -> Sequence[TextContent]:
    lines = [APPLIED, *(f"{_LETTERS[one['status']]} {one['file']}" for one in value["files"])]
    if not value["files"]:
        lines = [NOTHING]
    if "note" in value:
        lines.append(value["note"])
    return [TextContent(text="\n".join(lines))]


_LETTERS = {"added": "A", "modified": "M", "deleted": "D"}
