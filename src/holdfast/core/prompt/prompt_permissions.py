"""Permission for what a prompt attaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.permission.errors import REQUEST_DENIED, DeniedByPerson
from holdfast.core.permission.rules import ORDINARY
from holdfast.core.tool.builtin.authorize import Denied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.permission.rules import Terms
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.tool import ToolContext


class PromptPermissions:
    """Asks each thing once for all attachments of a prompt. A person who denies one does not end anything."""

    def __init__(self, permissions: Authorizer) -> None:
        self._permissions = permissions
        self._decided: dict[tuple[str, tuple[str, ...]], str | None] = {}

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
        key = (action, tuple(resources))
        if key not in self._decided:
            self._decided[key] = None
            try:
                await self._permissions.allow(context, action, resources, save=save, metadata=metadata, terms=terms)
            except Denied as denied:
                self._decided[key] = str(denied)
            except DeniedByPerson:
                self._decided[key] = REQUEST_DENIED
        if (reason := self._decided[key]) is not None:
            raise Denied(reason)
