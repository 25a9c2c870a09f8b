"""Where Sessions are stored: the path of a file, or the address of a PostgreSQL database.

Invariants
- No text made here contains a password, however badly the address is written.
- Two addresses have the same identity only if they lead to the same database and schema. They may lead to the same one
  and have different identities."""

from __future__ import annotations

import getpass
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode

from holdfast.core.database.errors import InvalidAddress
from holdfast.core.secret import HIDDEN, is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

Place: TypeAlias = Path | str

DATABASE = "HOLDFAST_DATABASE"
"""The environment variable that names the place."""
EXPECTED = "expected postgresql://USER@HOST:PORT/DATABASE"
SCHEMES = ("postgresql://", "postgres://")
SCHEME = SCHEMES[0]
# What libpq takes from the environment where an address says nothing.
_DEFAULTS = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
}
_PARTS = re.compile(r"(?P<authority>[^/?]*)(?:/(?P<database>[^?]*))?(?:\?(?P<parameters>.*))?", re.DOTALL)
_PORTS = re.compile(r"[0-9,]*")


def is_postgres(text: str) -> bool:
    return text.startswith(SCHEMES)


def check_address(address: str, source: str) -> str:
    """The address, if it can be understood; `source` says where it was written."""
    reason = None
    if not is_postgres(address):
        reason = "only postgresql:// is known"
    elif re.search(r"[\x00-\x20\x7f]", address):
        reason = "it contains spaces or control characters"
    elif _userinfo_is_ambiguous(address.partition("://")[2]):
        reason = "characters like / ? @ in a password must be written as %2F %3F %40"
    if reason is not None:
        raise InvalidAddress(f"{source}: {public_place(address)!r} is no address of a database: {reason}; {EXPECTED}")
    return address


def has_password(address: str) -> bool:
    rest = address.partition("://")[2]
    user, _, _ = rest.rpartition("@")
    return ":" in user or any(is_secret(name) for name, _ in _parameters(rest))


def public_place(place: Place) -> str:
    """The place for messages, without a password."""
    if isinstance(place, Path):
        return str(place)
    scheme, separator, rest = place.partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        return HIDDEN if "@" in place else re.split(r"[?#]", place)[0][:100]
    if _userinfo_is_ambiguous(rest):
        return f"{SCHEME}{HIDDEN}"
    parts = _parts(rest)
    user, at, hosts = parts["authority"].rpartition("@")
    named = user.partition(":")[0]
    shown = {name: HIDDEN if is_secret(name) else value for name, value in _parameters(rest)}
    query = f"?{urlencode(shown, safe='/*:,')}" if shown else ""
    return f"{SCHEME}{named}{at}{hosts}/{parts['database']}{query}"


def place_identity(place: Place, environment: Mapping[str, str]) -> str:
    """A digest that differs for different databases; empty for a file. It does not depend on the password."""
    if isinstance(place, Path):
        return ""
    rest = place.partition("://")[2]
    parts = _parts(rest)
    user, _, hosts = parts["authority"].rpartition("@")
    named = {"user": unquote(user.partition(":")[0]), "host": unquote(hosts), "dbname": unquote(parts["database"])}
    found = {name: environment[variable] for name, variable in _DEFAULTS.items() if environment.get(variable)}
    found |= {name: value for name, value in (*named.items(), *_parameters(rest)) if value and not is_secret(name)}
    found.setdefault("user", _system_user())
    lines = sorted(f"{name}={value}" for name, value in found.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _parts(rest: str) -> dict[str, str]:
    match = _PARTS.fullmatch(rest)
    return {name: value or "" for name, value in match.groupdict().items()} if match else {}


def _parameters(rest: str) -> list[tuple[str, str]]:
    return parse_qsl(_parts(rest)["parameters"], keep_blank_values=True)


def _userinfo_is_ambiguous(rest: str) -> bool:
    """Whether a part of a password may have been read as a host, a port, a database or a parameter."""
    parts = _parts(rest)
    if "@" in parts["database"] or "@" in parts["parameters"]:
        return True
    user, _, hosts = parts["authority"].rpartition("@")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts.split(",")]
    return "@" in user or not all(_PORTS.fullmatch(port) for port in ports)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
