"""The headers and query of a request; ambiguous ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.server.types import Scope

QUERY_FIELDS = 1000
TWO_HOSTS = "The request has more than one Host header"
LONG_QUERY = f"The query has more than {QUERY_FIELDS} fields"


class Head(Frozen):
    headers: Mapping[str, str]
    query: Mapping[str, str]


def read_head(scope: Scope) -> Head:
    """Raises ApiError for two Host headers: a proxy and this server might each use a different one."""
    pairs = scope["headers"]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
    if len(headers) < len(pairs) and sum(name.lower() == b"host" for name, _ in pairs) > 1:
        raise InvalidRequest(TWO_HOSTS)
    return Head(headers, _fields(scope["query_string"]))


def _fields(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    try:
        return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS))
    except ValueError:
        raise InvalidRequest(LONG_QUERY, kind="Query") from None
