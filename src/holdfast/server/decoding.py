"""Decodes path, query and body into the declared records, or raises the contract's 400 error."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from holdfast.protocol.sessions import CHECKED
from holdfast.protocol.unsupported import INSTEAD, UnsupportedInCreation
from holdfast.schema.codec import decoder
from holdfast.schema.exceptions import ApiError, InvalidRequest, UnsupportedMediaType
from holdfast.schema.ids import ID_CHARACTERS, is_name
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from holdfast.protocol.endpoint import Endpoint
    from holdfast.server.types import Receive

BODY_LIMIT = 32 * 1024 * 1024
BODY_SECONDS = 120.0
MESSAGE_LIMIT = 1024
OWN_FIELDS = ("budget",)
"""Payload fields of the contract's operations that OpenCode does not have."""
WHOLE_FIELDS = ("fields", "answer")
"""Of forms: what is wrong inside of them is told in the message."""
KEY_CHARACTERS = 100
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
EMPTY_VALUES = (b"null", b"false", b"{}", b"[]", b'""')


def decode_params(endpoint: Endpoint, values: Mapping[str, str]) -> Any:
    return _decode_strings(endpoint.params, values, "Params")


def decode_query(endpoint: Endpoint, values: Mapping[str, str]) -> Any:
    """Decode the query. `location[name]` is a field of the `location` object, the only nested parameter."""
    parts = {match[1]: value for name, value in values.items() if (match := re.fullmatch(r"location\[(\w+)\]", name))}
    return _decode_strings(endpoint.query, {**values, "location": parts} if parts else values, "Query")


async def decode_payload(
    endpoint: Endpoint,
    headers: Mapping[str, str],
    receive: Receive,
    *,
    limit: int,
    seconds: float,
    keep: Callable[[int], None] = lambda size: None,
) -> tuple[Any, list[str]]:
    """The payload, and the paths of keys that mean nothing: the contract ignores them, unless the caller asks for
    checks. `keep` is told how many bytes of the body are kept, and may raise."""
    if endpoint.payload is None:
        return None, []
    body = await json_body(headers, receive, limit=limit, seconds=seconds, keep=keep)
    try:
        payload = decoder(endpoint.payload).decode(body or b"{}")
        if endpoint.unsupported is not None:
            _refuse_unsupported(decoder(endpoint.unsupported).decode(body or b"{}"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(error, "Payload", fields=OWN_FIELDS) from error
    _check_new_id(getattr(payload, "id", None))
    refused = _records(endpoint.unsupported) if endpoint.unsupported is not None else ()  # empty ones ask for nothing
    unknown = [item for item in _unknown_keys(endpoint.payload, body) if item[0] not in refused]
    if unknown and headers.get(CHECKED) == "1":
        raise _unknown(*unknown[0])
    return payload, [key for key, _ in unknown]


def _check_new_id(id: str | None) -> None:
    """An id that the caller chose is in every answer about what it names."""
    if id is not None and not is_name(id):
        message = f"An id has 1 to {ID_CHARACTERS} letters, digits, `_` and `-`. {id[:ID_CHARACTERS]!a} is none."
        raise InvalidRequest(message, kind="Payload", field="id")


async def json_body(
    headers: Mapping[str, str],
    receive: Receive,
    *,
    limit: int,
    seconds: float,
    keep: Callable[[int], None] = lambda size: None,
) -> bytearray:
    """The body of a request, not decoded."""
    try:
        async with asyncio.timeout(seconds):
            body = await _body(receive, limit, keep)
    except TimeoutError:
        raise _refused(f"The body did not arrive within {seconds:.0f} s") from None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind not in ("application/json", ""):
        raise UnsupportedMediaType(f"Expected application/json, got {kind[:100]}")
    return body


async def _body(receive: Receive, limit: int, keep: Callable[[int], None]) -> bytearray:
    """Reads the body, up to the limit. A larger one is read to its end and discarded, so that the sender gets the
    response."""
    body = bytearray()
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _refused("The body was cut short")
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            body += piece
            keep(len(piece))
        else:
            body.clear()
        more = message.get("more_body", False)
    if size > limit:
        raise _refused(f"The body is larger than {limit} bytes")
    return body


def _refuse_unsupported(found: Record, path: str = "") -> None:
    """Raises for the first unsupported field with a value that is not empty."""
    for attribute, field in _names(type(found)):
        value, name = getattr(found, attribute), f"{path}{field}"
        if isinstance(value, Record):
            _refuse_unsupported(value, f"{name}.")
        elif bytes(value).strip() not in EMPTY_VALUES:
            reason = INSTEAD.get(field, "this server cannot honour it")
            outcome = (
                "Nothing was created" if isinstance(found, UnsupportedInCreation) else "The prompt was not admitted"
            )
            message = f"`{name}` is not supported: {reason}. {outcome}."
            raise InvalidRequest(message, kind="Payload", field=name)


def _unknown_keys(kind: Any, body: bytes | bytearray | msgspec.Raw, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Each key that a record does not have, with those that it has; also of the records in it."""
    if not body:
        return
    known = _records(kind)
    for key, value in _KEYS.decode(body).items():
        if key not in known:
            yield f"{path}{key}", [f"{path}{name}" for name in known]
        elif (inner := known[key]) is not None and bytes(memoryview(value)[:1]) == b"{":
            yield from _unknown_keys(inner, value, f"{path}{key}.")


def _unknown(key: str, known: Collection[str]) -> ApiError:
    import difflib

    near = difflib.get_close_matches(key[:KEY_CHARACTERS], known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(f'`{name}`' for name in known)}."
    shown = key[:KEY_CHARACTERS]
    return InvalidRequest(f"{shown!a} is no key of this request: {hint} Nothing was done.", kind="Payload", field=shown)


@cache
def _records(kind: type[Record]) -> dict[str, type[Record] | None]:
    """The keys of a record, with the one record that each may hold."""
    found: dict[str, type[Record] | None] = {}
    for field in msgspec.structs.fields(kind):
        inner = [
            one for one in get_args(field.type) or (field.type,) if isinstance(one, type) and issubclass(one, Record)
        ]
        found[field.encode_name] = inner[0] if len(inner) == 1 else None
    return found


def _decode_strings(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    if kind is None:
        return None
    try:
        decoded = msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise _invalid(error, where) from error
    for attribute, field in _names(kind):
        if field in values and getattr(decoded, attribute) is None:
            # A query has no null: the word is an invalid value.
            raise InvalidRequest(f'Expected a value\n  at ["{attribute}"]', kind=where)
    return decoded


@cache
def _names(kind: type[Record]) -> tuple[tuple[str, str], ...]:
    """Each attribute of a record with its name on the wire. Kept: msgspec resolves all annotations to tell them."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


def _refused(message: str) -> ApiError:
    return InvalidRequest(message, kind="Payload")


def _invalid(error: Exception, kind: str, fields: Collection[str] = ()) -> ApiError:
    """Converts msgspec's `reason - at $.a.b` into the contract's reason and `at ["a"]["b"]`. A field that is or belongs
    to one of `fields` is named."""
    reason, _, path = str(error).partition(" - at ")
    if missing := re.match(r"Object missing required field `([^`]+)`", reason):
        reason, path = "Missing key", f"{path.strip('`') or '$'}.{missing[1]}"
    names = [key for key in path.strip("`").removeprefix("$").replace("[", ".").split(".") if key]
    keys = "".join(f'["{key}"]' for key in names)
    message = f"{reason}\n  at {keys}" if keys else reason
    if len(message) > MESSAGE_LIMIT:
        message = f"{message[:MESSAGE_LIMIT]}... ({len(message) - MESSAGE_LIMIT} more chars)"
    field = names[0] if names[:1] and names[0] in WHOLE_FIELDS else None
    if field is None and names[:1] and names[0] in fields:
        field = ".".join(names)
    return InvalidRequest(message, kind=kind, field=field)
