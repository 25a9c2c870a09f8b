"""Policy statements that allow or deny. The last match decides, and a project cannot overrule the user.

Documents are read from high to low priority, so that the user's statements come after the project's; those of the host
come last. Plugins cannot add statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.core.permission.wildcard import matches
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.config.document import Document

Verdict: TypeAlias = Literal["allow", "deny"]
PROVIDER_USE = "provider.use"


class PolicyStatement(Frozen):
    effect: Verdict
    action: str
    resource: str


class Policy:
    def __init__(self, documents: Sequence[Document] = ()) -> None:
        authored = [document for document in reversed(documents) if not document.managed]
        managed = [document for document in documents if document.managed]
        self._statements = tuple(found for document in (*authored, *managed) for found in _statements(document))

    def evaluate(self, action: str, resource: str, fallback: Verdict) -> Verdict:
        for statement in reversed(self._statements):
            if matches(statement.action, action) and matches(statement.resource, resource):
                return statement.effect
        return fallback

    def allows_provider(self, provider_id: str) -> bool:
        return self.evaluate(PROVIDER_USE, provider_id, "allow") == "allow"


def _statements(document: Document) -> list[PolicyStatement]:
    return [PolicyStatement(**statement) for statement in document.data.get("experimental", {}).get("policies", ())]
