"""Who sent a request, and what they may do.

Invariants
- A caller without the role that an endpoint needs is refused before its payload is read.
- A caller that is limited to projects reaches nothing outside of them: neither Sessions nor files, and no endpoint that
  names neither, except those that check it themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.protocol.endpoint import EndpointScope
from holdfast.schema.access import includes
from holdfast.schema.exceptions import Forbidden, SessionNotFound
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.access import Role
    from holdfast.schema.session import Session

ANCESTORS = 100
"""Sessions above one that are looked at; trees are far less deep."""


class Caller(Frozen):
    name: str
    """The name of a token; else `password`, `page`, `local`, `node`, or `anyone` if the server has no password."""
    role: Role = "admin"
    ends: str | None = None
    """The id of the sign-in or the token with which the caller's streams end, if one does."""
    sign_in: str | None = None
    """The id of the caller's sign-in, if it is a page."""
    token: str | None = None
    """The id of the caller's token, also of one with which the page was signed in to."""
    projects: tuple[str, ...] = ()
    """Directories that the caller is limited to; empty: not limited."""

    def check_scope(self, endpoint: Endpoint) -> None:
        """Raises Forbidden for an endpoint that is not about one project."""
        if self.projects and endpoint.scope is EndpointScope.INSTANCE and not endpoint.checks_projects:
            raise Forbidden(
                f"The token {self.name} is limited to projects, and {endpoint.method} {endpoint.path} is not about "
                "one of them."
            )

    def check_all_projects(self, what: str) -> None:
        """Raises Forbidden for a caller that is limited to projects."""
        if self.projects:
            raise Forbidden(f"The token {self.name} is limited to projects, and may not ask for {what}.")

    def check_directory(self, directory: str | None) -> None:
        """Raises Forbidden if the directory is outside of the caller's projects."""
        if not self.reaches(directory):
            raise Forbidden(
                f"The token {self.name} is limited to {', '.join(self.projects)}, and {directory or 'this'} is not "
                "there."
            )

    async def check_session(self, session: Session, find: Callable[[str], Awaitable[Session | None]]) -> None:
        """Raises SessionNotFound for a Session of another project. A child may work in a copy of the project elsewhere:
        then the Sessions above it count."""
        above: Session | None = session
        for _ in range(ANCESTORS):
            if above is None:
                break
            if self.reaches(above.location.directory):
                return
            above = await find(above.parent_id) if above.parent_id is not None else None
        raise SessionNotFound(session.id)

    def reaches(self, directory: str | None) -> bool:
        if not self.projects:
            return True
        if directory is None:
            return False
        try:
            real = os.path.realpath(directory)  # a link in a project may lead out of it
        except ValueError:  # it has a NUL
            return False
        return any(real == project or real.startswith(project.rstrip("/") + "/") for project in self.projects)

    def has(self, role: Role) -> bool:
        return includes(self.role, role)
