"""Handlers of `protocol/integrations.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import integrations as protocol
    from holdfast.schema.catalog import Attempt, AttemptStatus, IntegrationInfo
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[IntegrationInfo]:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.integrations.list()


async def get(call: ApiCall) -> IntegrationInfo | None:
    async with call.services as services:
        await services.catalog.ready()
        return services.catalog.integrations.get(call.params.integration_id)


async def connect_key(call: ApiCall) -> None:
    payload: protocol.KeyPayload = call.payload
    async with call.services as services:
        await services.catalog.ready()
        await services.catalog.integrations.connect_key(call.params.integration_id, payload.key, payload.label)


async def connect_oauth(call: ApiCall) -> Attempt:
    payload: protocol.OAuthPayload = call.payload
    id: str = call.params.integration_id
    async with call.services as services:
        await services.catalog.ready()
        integrations = services.catalog.integrations
        method = integrations.oauth(id, payload.method_id)
        return await integrations.attempts.begin(id, method, payload.inputs, payload.label)


async def attempt_status(call: ApiCall) -> AttemptStatus:
    async with call.services as services:
        return await services.catalog.integrations.attempts.status(call.params.attempt_id)


async def attempt_complete(call: ApiCall) -> None:
    async with call.services as services:
        await services.catalog.integrations.attempts.complete(call.params.attempt_id, call.payload.code)


async def attempt_cancel(call: ApiCall) -> None:
    async with call.services as services:
        await services.catalog.integrations.attempts.cancel(call.params.attempt_id)


async def update_credential(call: ApiCall) -> None:
    await call.runtime.credentials.update(call.params.credential_id, label=call.payload.label)


async def remove_credential(call: ApiCall) -> None:
    await call.runtime.credentials.remove(call.params.credential_id)
