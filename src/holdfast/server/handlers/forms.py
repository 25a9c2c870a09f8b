"""Handlers of `protocol/forms.py`. Without a Session the form belongs to none, and to the Location of the request."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.core.form.errors import FormNotFound
from holdfast.core.form.forms import FormDraft
from holdfast.core.form.sign_in import AUTHORIZATION
from holdfast.schema.exceptions import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.location.services import LocationServices
    from holdfast.protocol import forms as protocol
    from holdfast.schema.form import Form, FormState
    from holdfast.server.types import ApiCall


async def list_requests(call: ApiCall) -> Sequence[Form]:
    async with call.services as services:
        return (*await services.forms.list(), *services.global_forms.list())


async def list(call: ApiCall) -> Sequence[Form]:
    async with call.services as services:
        if call.session is None:
            return services.global_forms.list()
        return await services.forms.of_tree(call.session.id)


async def create(call: ApiCall) -> Form:
    payload: protocol.FormPayload = call.payload
    if (payload.metadata or {}).get("kind") == AUTHORIZATION:
        raise InvalidRequest(f"{AUTHORIZATION} is a kind of forms that the server makes", field="metadata")
    draft = FormDraft(payload.title, payload.fields, payload.metadata)
    async with call.services as services:
        if call.session is None:
            return services.global_forms.create(draft, id=payload.id)
        return await services.forms.create(call.session.id, draft, id=payload.id)


async def get(call: ApiCall) -> Form:
    form, _ = await _found(call)
    return form


async def state(call: ApiCall) -> FormState:
    _, found = await _found(call)
    return found


async def reply(call: ApiCall) -> None:
    form_id: str = call.params.form_id
    if call.session is None:
        async with call.services as services:
            services.global_forms.reply(form_id, call.payload.answer)
        return
    async with _asking(call) as (services, session_id):
        await services.forms.reply(session_id, form_id, call.payload.answer)


async def cancel(call: ApiCall) -> None:
    form_id, declined = call.params.form_id, bool(call.payload.decline)
    if call.session is None:
        async with call.services as services:
            services.global_forms.cancel(form_id)
        return
    async with _asking(call) as (services, session_id):
        await services.forms.cancel(session_id, form_id, declined=declined)


async def _found(call: ApiCall) -> tuple[Form, FormState]:
    if call.session is None:
        async with call.services as services:
            return services.global_forms.get(call.params.form_id)
    async with _asking(call) as (services, session_id):
        return await services.forms.get(session_id, call.params.form_id)


@asynccontextmanager
async def _asking(call: ApiCall) -> AsyncIterator[tuple[LocationServices, str]]:
    """The services and the id of the Session that made the form: that of the call, or a descendant."""
    assert call.session is not None
    session = await call.runtime.store.form_asker(call.session.id, call.params.form_id)
    if session is None:
        raise FormNotFound(call.params.form_id)
    async with call.runtime.locations.use(session.location) as services:
        yield services, session.id
