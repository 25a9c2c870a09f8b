"""How failures are answered: the codes of JSON-RPC and of the protocol."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.mcp.errors import RpcError
from holdfast.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from holdfast.schema.exceptions import HoldfastError

T = TypeVar("T")

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
NOT_VALID = (400, 413, 415)

log = logging.getLogger(__name__)


def read(raw: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, RecursionError) as error:
        raise invalid(f"Invalid parameters: {error}") from error


def invalid(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message)


def unknown_method(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"Holdfast has no method {method[:100]!r}")


def no_session(session_id: str) -> RpcError:
    shown = session_id[:100]
    return RpcError(NOT_FOUND, f"There is no session {shown!r} in this database. session/list lists them.")


def not_open(session_id: str) -> RpcError:
    shown = session_id[:100]
    return RpcError(
        NOT_FOUND, f"The session {shown!r} is not open in this connection. session/load or session/resume opens it."
    )


def failed(error: HoldfastError) -> RpcError:
    """What the runtime refused or could not do, in its own words."""
    status = getattr(error, "status", None)
    code = NOT_FOUND if status == 404 else INVALID_PARAMS if status in NOT_VALID else INTERNAL_ERROR
    return RpcError(code, str(error), {"code": error.code} if error.code else None)
