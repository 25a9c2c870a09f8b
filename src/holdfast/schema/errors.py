"""The public errors: JSON objects discriminated by `_tag`, each with its status.

InvalidRequestError 400      InvalidCursorError 400       UnauthorizedError 401      ForbiddenError 403
SessionNotFoundError 404     MessageNotFoundError 404     ProviderNotFoundError 404  PermissionNotFoundError 404
QuestionNotFoundError 404    PtyNotFoundError 404         CommandNotFoundError 404   SkillNotFoundError 404
FormNotFoundError 404        McpServerNotFoundError 404   NotFoundError 404          FormInvalidAnswerError 400
FormAlreadySettledError 409
MethodNotAllowedError 405    ConflictError 409            UnsupportedMediaTypeError 415
InstructionEntryValueTooLargeError 413                    TooManyRequestsError 429
UnknownError 500             ServiceUnavailableError 503   InsufficientStorageError 507

One is discriminated by `name`: ProjectCopyError 400.
"""

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
    role: str | None = None
    """The role that the caller would need, if that is the reason."""


class SessionNotFoundError(PublicError):
    status: ClassVar[int] = 404
    session_id: str


class MessageNotFoundError(PublicError):
    status: ClassVar[int] = 404
    session_id: str
    message_id: str


class ProviderNotFoundError(PublicError):
    status: ClassVar[int] = 404
    provider_id: str


class PermissionNotFoundError(PublicError):
    status: ClassVar[int] = 404
    request_id: str


class QuestionNotFoundError(PublicError):
    status: ClassVar[int] = 404
    request_id: str


class FormNotFoundError(PublicError):
    status: ClassVar[int] = 404
    id: str


class FormAlreadySettledError(PublicError):
    status: ClassVar[int] = 409
    id: str


class FormInvalidAnswerError(PublicError):
    status: ClassVar[int] = 400
    id: str
    field: str | None = None


class PtyNotFoundError(PublicError):
    status: ClassVar[int] = 404
    pty_id: str


class CommandNotFoundError(PublicError):
    status: ClassVar[int] = 404

    command: str


class McpServerNotFoundError(PublicError):
    status: ClassVar[int] = 404

    server: str


class SkillNotFoundError(PublicError):
    status: ClassVar[int] = 404

    skill: str


class NotFoundError(PublicError):
    """Unknown path of this server or of a Location."""

    status: ClassVar[int] = 404


class MethodNotAllowedError(PublicError):
    status: ClassVar[int] = 405


class ConflictError(PublicError):
    status: ClassVar[int] = 409
    resource: str | None = None


class InstructionEntryValueTooLargeError(PublicError):
    status: ClassVar[int] = 413
    actual_bytes: int
    max_bytes: int


class TooManyRequestsError(PublicError):
    """The caller, or all of them together, ask for more than the server takes."""

    status: ClassVar[int] = 429
    retry_after: int
    """In seconds."""


class InsufficientStorageError(PublicError):
    """The server accepts nothing new, because there is no room for it."""

    status: ClassVar[int] = 507
    limit: str
    """The name of the setting in `holdfast.limits`."""


class UnsupportedMediaTypeError(PublicError):
    status: ClassVar[int] = 415


class UnknownError(PublicError):
    status: ClassVar[int] = 500
    ref: str | None = None


class ServiceUnavailableError(PublicError):
    status: ClassVar[int] = 503
    service: str | None = None


class ProjectCopyFailure(Record):
    message: str
    force_required: bool | None


class ProjectCopyError(Record, tag_field="name", tag=True):
    status: ClassVar[int] = 400
    data: ProjectCopyFailure
