"""JSON-RPC 2.0: one message as bytes and back. No I/O.

Invariants
- Whatever the bytes are, `read_message` returns a message or raises ProtocolError.
- Parameters and results stay undecoded until somebody knows their type."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.mcp.errors import McpError, ProtocolError, ServerError, UrlElicitationRequired
from holdfast.mcp.input import Elicitation

FRAME_LIMIT = 16 * 1024 * 1024
CONTAINER_LIMIT = 1_000_000
"""Of objects and arrays in a message: millions of empty ones fit into a frame and would take gigabytes as objects."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

_VERSION = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ID_FIRST = re.compile(rb"\s*\{\s*" + _VERSION + rb'"id"\s*:\s*(\d{1,18})\s*,\s*' + _VERSION + rb'"(?:result|error)"')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_RESULT_FIRST = re.compile(rb"\s*\{\s*" + _VERSION + rb'"(?:result|error)"')
_TAIL = 100

RequestId: TypeAlias = int | str
NO_PARAMS = msgspec.Raw(b"{}")


class Malformed(ProtocolError):
    """The bytes are not a JSON-RPC message."""


class Request(msgspec.Struct, frozen=True):
    id: RequestId
    method: str
    params: msgspec.Raw = NO_PARAMS


class Notification(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw = NO_PARAMS


class Answer(msgspec.Struct, frozen=True):
    """`id` is None for an error about a message whose id the other side could not read."""

    id: RequestId | None
    result: msgspec.Raw | None = None
    error: McpError | None = None


Message: TypeAlias = Request | Notification | Answer


class _Received(msgspec.Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: Any = None


class _Elicitations(msgspec.Struct, frozen=True):
    elicitations: list[Elicitation]


_RECEIVED = msgspec.json.Decoder(_Received)
_BATCH = msgspec.json.Decoder(list[msgspec.Raw])
_ERROR = msgspec.json.Decoder(_Error)
_ENCODER = msgspec.json.Encoder()


def read_message(frame: bytes | msgspec.Raw) -> Message:
    if _containers(frame) > CONTAINER_LIMIT:
        raise ProtocolError(f"A message has more than {CONTAINER_LIMIT} objects and arrays")
    try:
        received = _RECEIVED.decode(frame)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error
    id, method = received.id, received.method
    if isinstance(method, str):
        params = received.params if isinstance(received.params, msgspec.Raw) else NO_PARAMS
        if isinstance(id, int | str):
            return Request(id, method, params)
        if id is msgspec.UNSET:
            return Notification(method, params)
        raise Malformed("a request whose id is null")
    answered = id if isinstance(id, int | str) else None
    if isinstance(received.error, msgspec.Raw):
        return Answer(answered, error=_read_error(received.error))
    if answered is None:
        raise Malformed("neither a method nor an id")
    if isinstance(received.result, msgspec.Raw):
        return Answer(answered, received.result)
    return Answer(answered, error=ProtocolError("An answer has neither result nor error"))


def answered_id(frame: bytes | msgspec.Raw) -> int | None:
    """The call that bytes answer which cannot be read as a message, or of which only the beginning is there."""
    data = bytes(frame)
    found = _ID_FIRST.match(data)
    if found is None and _RESULT_FIRST.match(data) is not None:
        found = _ID_LAST.search(data[-_TAIL:])
    return None if found is None else int(found[1])


def _containers(frame: bytes | msgspec.Raw) -> int:
    """An upper bound of the objects and arrays in a frame; 0 for one that is too short to have too many."""
    data = bytes(frame)
    return data.count(b"{") + data.count(b"[") if len(data) > CONTAINER_LIMIT else 0


def read_batch(frame: bytes) -> list[msgspec.Raw]:
    try:
        return _BATCH.decode(frame)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _read_error(raw: msgspec.Raw) -> McpError:
    try:
        error = _ERROR.decode(raw)
    except (ValueError, RecursionError):
        return ProtocolError("An error has no code and no message")
    if error.code == URL_ELICITATION_REQUIRED:
        try:
            found = msgspec.convert(error.data, _Elicitations).elicitations
        except (ValueError, RecursionError):
            return ServerError(error.code, error.message, error.data)
        return UrlElicitationRequired(error.code, error.message, error.data, found)
    return ServerError(error.code, error.message, error.data)


def write_request(id: RequestId, method: str, params: Any) -> bytes:
    return _ENCODER.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def write_notification(method: str, params: Any = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method}
    return _ENCODER.encode(message if params is None else {**message, "params": params})


def write_result(id: RequestId, result: Any) -> bytes:
    return _ENCODER.encode({"jsonrpc": "2.0", "id": id, "result": result})


def write_error(id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    error = {"code": code, "message": message}
    return _ENCODER.encode({"jsonrpc": "2.0", "id": id, "error": error if data is None else {**error, "data": data}})
