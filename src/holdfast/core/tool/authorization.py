"""Asks the Location's permissions on behalf of a tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.permission.errors import PermissionDenied
from holdfast.core.permission.permission import Wish
from holdfast.core.permission.rules import ORDINARY
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.schema.permission import PermissionSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.core.permission.permission import Permissions
    from holdfast.core.permission.rules import Authority, Terms
    from holdfast.core.tool.tool import ToolContext


class PermissionAuthorizer:
    """The `Authorizer` of a Location: turns a refusal into a failure that the model reads."""

    def __init__(self, permissions: Permissions, owner: Callable[[], Awaitable[str]]) -> None:
        """`owner` identifies this process."""
        self._permissions = permissions
        self._owner = owner

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        wish = Wish(
            session_id=context.session_id,
            agent=context.agent,
            action=action,
            resources=tuple(resources),
            save=tuple(save),
            metadata=dict(metadata) if metadata is not None else None,
            terms=terms.replace(reads=()) if context.by_person else terms,
            source=PermissionSource(message_id=context.assistant_message_id, call_id=context.tool_call_id),
            owner=None if context.assistant_message_id else await self._owner(),
        )
        try:
            await self._permissions.assert_allowed(wish)
        except PermissionDenied as denied:
            raise Denied(str(denied)) from denied

    async def authority(self, context: ToolContext) -> Authority:
        """What the caller may do, for tools that look at many things and ask for none."""
        return await self._permissions.authorities.of(context.session_id, context.agent)
