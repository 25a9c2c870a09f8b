"""Where the browser is sent after a sign-in, and the listener that waits there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from holdfast.mcp.oauth.callback import HOST, CallbackListener, open_socket
from holdfast.mcp.oauth.url import check_url, is_loopback, with_port

if TYPE_CHECKING:
    from holdfast.mcp.oauth.settings import ServerSettings

PATH = "/callback"
DEFAULT = f"http://{HOST}{PATH}"
PASTED_PORT = 19876
"""In the redirect address if no port can be listened on: the address is then pasted by hand."""


class Redirect(msgspec.Struct, frozen=True):
    uri: str
    listener: CallbackListener | None
    """None if nothing can listen: the person pastes the address."""


def open_redirect(settings: ServerSettings, registered: str | None) -> Redirect:
    """Listens on the configured port, else on that of `redirect_uri`, else on a free one: the one of the address that
    was `registered` before, if it is free. Raises UrlRefused for a configured address that is not allowed."""
    base = check_url(settings.redirect_uri, "redirect_uri") if settings.redirect_uri else DEFAULT
    parts = urlsplit(base)
    local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    fixed = settings.callback_port or parts.port
    listening = None
    if fixed is not None:
        listening = open_socket(fixed)
    elif local:
        before = urlsplit(registered).port if registered else None
        listening = (open_socket(before) if before else None) or open_socket(0)
    if listening is None:
        return Redirect(base if parts.port or not local else with_port(base, fixed or PASTED_PORT), None)
    listener = CallbackListener(listening, {PATH, parts.path or "/"}, {parts.netloc.lower()})
    return Redirect(base if parts.port or not local else with_port(base, listener.port), listener)
