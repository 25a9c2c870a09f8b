"""Statements that allow or deny. The last one that matches decides, and a project cannot overrule its user.

Documents are read backwards, so that the user's own file speaks after the project's; the host's speaks last. Plugins
have no way in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.core.permission.wildcard import matches
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.config.document import Document

Verdict: TypeAlias = Literal["allow", "deny"]
PROVIDER_USE = "provider.use"


class Statement(Frozen):
    effect: Verdict
    action: str
    resource: str


class Policy:
    def __init__(self, documents: Sequence[Document] = ()) -> None:
        self.replace(documents)

    def replace(self, documents: Sequence[Document]) -> None:
        """Another configuration is in force."""
        authored = [document for document in reversed(documents) if not document.managed]
        managed = [document for document in documents if document.managed]
        self._statements = tuple(found for document in (*authored, *managed) for found in _written(document))

    def evaluate(self, action: str, resource: str, fallback: Verdict) -> Verdict:
        for statement in reversed(self._statements):
            if matches(statement.action, action) and matches(statement.resource, resource):
                return statement.effect
        return fallback

    def allows_provider(self, provider_id: str) -> bool:
        return self.evaluate(PROVIDER_USE, provider_id, "allow") == "allow"


def _written(document: Document) -> list[Statement]:
    return [Statement(**statement) for statement in document.data.get("experimental", {}).get("policies", ())]
