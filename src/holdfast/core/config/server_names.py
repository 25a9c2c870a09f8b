"""Under which names a server answers, and which pages may use it: `holdfast.server` of the user's configuration.

A project cannot set it, and a name that cannot be used is an error."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from holdfast.core.config.user_settings import UnusableSetting, user_section
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE = "user configuration"
HOST_EXPECTED = "expected a name like agent.example, without scheme and port"
ORIGIN_EXPECTED = "expected scheme, host and port, as in https://agent.example"
_ORIGIN = pattern(r"[a-z][a-z0-9+.-]*://[^/?#@\s*,]+", re.IGNORECASE)


class ServerNames(Frozen):
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def configured_names(environment: Mapping[str, str]) -> ServerNames:
    """Raises UnusableSetting."""
    found = user_section(environment, "server")
    names = ServerNames(tuple(found.get("hosts") or ()), tuple(found.get("origins") or ()))
    for name in names.hosts:
        if not is_host_name(name):
            raise UnusableSetting(PLACE, "holdfast.server.hosts", f"{name!r} is not a host name; {HOST_EXPECTED}")
    for origin in names.origins:
        if not is_origin(origin):
            raise UnusableSetting(PLACE, "holdfast.server.origins", f"{origin!r} is not an origin; {ORIGIN_EXPECTED}")
    return names


def host_name(given: str) -> str:
    """The name as in a Host header, without a port. Raises ValueError for anything but a name or an address."""
    name = given.lower()
    if ":" in name:
        return f"[{ip_address(name.removeprefix('[').removesuffix(']'))}]"
    if not name or set(name) & set("/@ *?#\\,[]"):
        raise ValueError(given)
    return name


def is_host_name(given: str) -> bool:
    try:
        host_name(given)
    except ValueError:
        return False
    return True


def is_origin(given: str) -> bool:
    return _ORIGIN.fullmatch(given) is not None
