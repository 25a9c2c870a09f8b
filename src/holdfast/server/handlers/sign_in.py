"""The page that a form leads to which waits for a sign-in: it begins the sign-in and sends the browser on."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from holdfast.core.form.sign_in import AUTHORIZATION
from holdfast.schema.catalog import OAuthMethod
from holdfast.schema.exceptions import NotFound
from holdfast.server.types import RawBody

if TYPE_CHECKING:
    from holdfast.server.types import ApiCall

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in to {name}</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={url}"></head>
<body><h1>Sign in to {name}</h1><p><a rel="noreferrer" href="{url}">Continue to the sign-in</a></p><p>{instructions}</p>
</body></html>
"""


async def page(call: ApiCall) -> RawBody:
    """Only while a form of the Session waits for it: any page could lead a browser here."""
    assert call.session is not None
    id: str = call.params.integration_id
    async with call.services as services:
        forms = [form.metadata or {} for form in await services.forms.for_session(call.session.id)]
        if not any((about.get("kind"), about.get("integrationID")) == (AUTHORIZATION, id) for about in forms):
            raise NotFound(f"No form of {call.session.id} waits for a sign-in to {id[:100]}")
        await services.catalog.ready()
        integrations = services.catalog.integrations
        known = integrations.get(id)
        method = next((found for found in known.methods if isinstance(found, OAuthMethod)), None) if known else None
        if known is None or method is None:
            raise NotFound(f"There is no sign-in to {id[:100]} here any more")
        attempt = await integrations.attempts.begin(id, integrations.oauth(id, method.id), {})
    text = PAGE.format(
        name=escape(known.name), url=escape(attempt.url, quote=True), instructions=escape(attempt.instructions)
    )
    return RawBody(text.encode(), "text/html; charset=utf-8")
