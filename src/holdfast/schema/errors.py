"""The public errors: JSON objects discriminated by `_tag`, each with its status.

InvalidRequestError 400   InvalidCursorError 400    UnauthorizedError 401    ForbiddenError 403
SessionNotFoundError 404  MessageNotFoundError 404  NotFoundError 404        MethodNotAllowedError 405
ConflictError 409         UnknownError 500          ServiceUnavailableError 503
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.schema.record import Record


class PublicError(Record, tag_field="_tag", tag=True):
    status: ClassVar[int]

    message: str


class InvalidRequestError(PublicError):
    status: ClassVar[int] = 400

    kind: str | None = None
    field: str | None = None


class InvalidCursorError(PublicError):
    status: ClassVar[int] = 400


class UnauthorizedError(PublicError):
    status: ClassVar[int] = 401


class ForbiddenError(PublicError):
    status: ClassVar[int] = 403


class SessionNotFoundError(PublicError):
    status: ClassVar[int] = 404

    session_id: str


class MessageNotFoundError(PublicError):
    status: ClassVar[int] = 404

    session_id: str
    message_id: str


class NotFoundError(PublicError):
    """An unknown path; the contract's own server answers those with its web page."""

    status: ClassVar[int] = 404


class MethodNotAllowedError(PublicError):
    status: ClassVar[int] = 405


class ConflictError(PublicError):
    status: ClassVar[int] = 409

    resource: str | None = None


class UnsupportedMediaTypeError(PublicError):
    status: ClassVar[int] = 415


class UnknownError(PublicError):
    status: ClassVar[int] = 500

    ref: str | None = None


class ServiceUnavailableError(PublicError):
    status: ClassVar[int] = 503

    service: str | None = None
