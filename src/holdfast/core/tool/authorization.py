"""The permissions of a Location, as its tools ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.permission.errors import PermissionDenied
from holdfast.core.permission.permission import Wish
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.schema.permission import PermissionSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.permission.permission import Permissions
    from holdfast.core.tool.tool import ToolContext


class Authorization:
    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        wish = Wish(
            session_id=context.session_id,
            agent=context.agent,
            action=action,
            resources=tuple(resources),
            save=tuple(save),
            metadata=dict(metadata) if metadata is not None else None,
            source=PermissionSource(message_id=context.assistant_message_id, call_id=context.tool_call_id),
        )
        try:
            await self._permissions.assert_allowed(wish)
        except PermissionDenied as denied:
            raise Denied(str(denied)) from denied
