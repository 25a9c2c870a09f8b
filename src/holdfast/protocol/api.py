"""All endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.protocol import (
    audit,
    budgets,
    bundles,
    catalog,
    configuration,
    extensions,
    files,
    forms,
    inbox,
    inspection,
    instance,
    instructions,
    integrations,
    mcp,
    overview,
    permissions,
    project_copies,
    pty,
    questions,
    retention,
    sessions,
    tokens,
    trees,
    usage,
)

if TYPE_CHECKING:
    from holdfast.protocol.endpoint import Endpoint

API: tuple[Endpoint, ...] = (
    *instance.ENDPOINTS,
    *sessions.ENDPOINTS,
    *permissions.ENDPOINTS,
    *questions.ENDPOINTS,
    *forms.ENDPOINTS,
    *catalog.ENDPOINTS,
    *configuration.ENDPOINTS,
    *integrations.ENDPOINTS,
    *mcp.ENDPOINTS,
    *files.ENDPOINTS,
    *pty.ENDPOINTS,
    *project_copies.ENDPOINTS,
    *inbox.ENDPOINTS,
    *instructions.ENDPOINTS,
    *budgets.ENDPOINTS,
    *extensions.ENDPOINTS,
    *trees.ENDPOINTS,
    *overview.ENDPOINTS,
    *inspection.ENDPOINTS,
    *bundles.ENDPOINTS,
    *retention.ENDPOINTS,
    *usage.ENDPOINTS,
    *tokens.ENDPOINTS,
    *audit.ENDPOINTS,
)
