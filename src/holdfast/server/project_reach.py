"""What belongs to a whole project, and not to the directory of one Session: snapshots have the files of the whole
worktree, and a saved approval holds for all worktrees of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.permission.approval_key import approval_key
from holdfast.schema.exceptions import Forbidden

if TYPE_CHECKING:
    from holdfast.schema.session import Session
    from holdfast.server.types import ApiCall

ASK_INSTEAD = "Ask somebody whose token is not limited to a part of it"
UNDO_INSTEAD = "Leave the files as they are, with files: false"


async def check_worktree(call: ApiCall, session: Session, instead: str) -> None:
    """Raises Forbidden, with what to do instead, for a caller that does not reach the worktree of the Session."""
    if call.caller.projects:
        project = await call.runtime.project(session.location)
        _check(call, str(project.directory), f"this has the files of {project.directory}", instead)


async def check_saving(call: ApiCall, session: Session) -> None:
    """Raises Forbidden for a caller that does not reach all that an approval for this Session would hold for."""
    if call.caller.projects:
        root = approval_key(await call.runtime.project(session.location)).root
        _check(call, root, f"this would hold for all of {root}", "Reply with once")


def _check(call: ApiCall, directory: str, why: str, instead: str) -> None:
    caller = call.caller
    if not caller.reaches(directory):
        raise Forbidden(f"The token {caller.name} is limited to {', '.join(caller.projects)}, and {why}. {instead}.")
