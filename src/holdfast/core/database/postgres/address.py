"""What an address means: where to connect, which schema to use, and the settings that every connection has.

libpq parses the address, so hosts, TLS, service and password files are what operators know. Two parameters are ours:
`schema` is the schema that holds the tables, and `direct` is the `host:port` of the server itself, where the address
leads to a pooler: listening and locks need a connection that nobody shares.

Invariants
- The password is in no name, message or representation of an address.
- An address that cannot work is refused before anything connects."""

from __future__ import annotations

import re
import secrets
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import OperationalError
from psycopg.pq import Conninfo

from holdfast.core.database.errors import InvalidAddress
from holdfast.core.database.postgres.outages import Outages

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES = ("postgresql://", "postgres://")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
LOCK_SECONDS = 10.0
READ_SECONDS = 30.0
LARGE_READ_SECONDS = 300.0
# How soon a connection whose other side vanished is noticed. The node's own connection decides whether it lives.
KEEPALIVES = {"keepalives": "1", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
QUICK_KEEPALIVES = {"keepalives": "1", "keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "3"}
USER_TIMEOUT = "15000"
QUICK_USER_TIMEOUT = "3000"

# A plan that is made while the tables are empty would read them from end to end for as long as the connection lives. A
# plan for any values expects many rows: starting helpers or a compiler for them would take longer than reading the few.
INDEXED = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
# Limits that an administrator has set for the role are for people: they would end commits, the lock of a node and
# upgrades of the schema in the middle.
UNLIMITED = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
WRITING = {**INDEXED, **UNLIMITED, "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}"}
READING = {
    **INDEXED,
    **UNLIMITED,
    "statement_timeout": f"{READ_SECONDS * 1000:.0f}",
    "default_transaction_read_only": "on",
}
READING_LARGE = {
    **UNLIMITED,
    "plan_cache_mode": "force_custom_plan",
    "max_parallel_workers_per_gather": "0",
    "statement_timeout": f"{LARGE_READ_SECONDS * 1000:.0f}",
    "default_transaction_read_only": "on",
    "jit": "off",
}
LISTENING = {
    **UNLIMITED,
    "synchronous_commit": "off",
    "statement_timeout": f"{READ_SECONDS * 1000:.0f}",
    # Of the server: how soon it notices that the machine of a node has vanished, and gives its lock up.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
# It connects first, and must be understood by servers that are too old to be used.
MIGRATING = {name: value for name, value in UNLIMITED.items() if name != "idle_session_timeout"}


class Address:
    """Where the database is. `name` has no password and is what messages show."""

    def __init__(self, url: str, *, application: str | None = None) -> None:
        """`application` tells this process from others on the server."""
        url, own = _split(url)
        self._parameters = _parse(url)
        self.schema = own.get("schema")
        if self.schema is not None and not IDENTIFIER.match(self.schema):
            raise InvalidAddress(f"{self.schema!r} cannot be the name of a schema: letters, digits and _ only")
        self._direct = own.get("direct")
        self.application = application or f"holdfast:{secrets.token_hex(8)}"
        self.name = _name(self._parameters, self.schema)
        self.lock_class = _signed(zlib.crc32((self.schema or "").encode()))
        """Advisory locks are shared by all schemas of a database; this keeps theirs apart."""
        self.outages = Outages(self.name)
        self.server: str | None = None
        """The identifier of the server that was found there first."""
        self.pooled = False
        """A pooler in between refuses settings of a connection; found out while connecting."""
        self.prepares = True
        """Prepared statements work; found out by using them."""

    def __repr__(self) -> str:
        return f"Address({self.name})"

    def parameters(self, settings: Mapping[str, str], *, direct: bool = False, pooled: bool = False) -> dict[str, str]:
        """The parameters of a connection. A pooler refuses `options`; there they are set in each transaction."""
        quick = settings is LISTENING
        found = {
            **(QUICK_KEEPALIVES if quick else KEEPALIVES),
            "tcp_user_timeout": QUICK_USER_TIMEOUT if quick else USER_TIMEOUT,
            "target_session_attrs": "primary" if "default_transaction_read_only" in settings else "read-write",
            **self._parameters,
            "application_name": self.application,
            "client_encoding": "UTF8",
        }
        if direct and self._direct is not None:
            host, _, port = self._direct.rpartition(":")
            found |= {"host": host, "port": port}
            found.pop("hostaddr", None)
        if not pooled:
            options = " ".join(f"-c {key}={value}" for key, value in self.settings(settings).items())
            found["options"] = " ".join(filter(None, (found.get("options"), options)))
        return found

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        found = dict(settings)
        found["standard_conforming_strings"] = "on"
        if self.schema is not None:
            found["search_path"] = f'"{self.schema}"'
        return found


def conninfo(parameters: dict[str, str]) -> bytes:
    """`key='value' …` as libpq reads it."""
    quoted = (value.replace("\\", "\\\\").replace("'", "\\'") for value in parameters.values())
    return " ".join(f"{key}='{value}'" for key, value in zip(parameters, quoted, strict=True)).encode()


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Our own parameters, and the address without them."""
    if not url.startswith(SCHEMES):
        raise InvalidAddress("the address of a database begins with postgresql://")
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    own = {key: value for key, value in pairs if key in ("schema", "direct")}
    rest = [(key, value) for key, value in pairs if key not in own]
    direct = own.get("direct")
    if direct is not None and not re.fullmatch(r"\S+:\d{1,5}", direct):
        raise InvalidAddress("`direct` names the server behind the pooler as host:port")
    return base + ("?" + urlencode(rest, quote_via=quote) if rest else ""), own


def _parse(url: str) -> dict[str, str]:
    options: list[Any] = []
    reason = ""
    try:
        options = Conninfo.parse(url.encode())
    except (OperationalError, UnicodeError) as error:
        # libpq repeats parts of the address, which may be the password.
        reason = re.sub(r'"[^"]*"', "…", str(error)).strip() or "not valid"
    found = {item.keyword.decode(): item.val.decode() for item in options if item.val is not None}
    if not all(port.isdigit() for port in found.get("port", "").split(",") if port):
        reason = "a port is a number"
    if reason:  # outside of the handler: the exception of libpq would come along
        raise InvalidAddress(f"the address of the database cannot be read: {reason}")
    return found


def _name(parameters: dict[str, str], schema: str | None) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or ""
    ports = parameters.get("port", "")
    place = host if host.startswith("/") else quote(host, safe=",.-:[]")
    name = f"postgresql://{place}{':' + ports if ports else ''}/{parameters.get('dbname', '')}"
    return name + (f"?schema={schema}" if schema else "")


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
