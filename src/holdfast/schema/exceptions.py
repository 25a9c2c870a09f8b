"""The exceptions of Holdfast.

HoldfastError                   `code` names the failure, the text explains it
├── ApiError                    an operation failed in a way that the API declares: `status`, `body`
│   ├── InvalidRequest 400      `kind`, `field`
│   ├── InvalidFormAnswer 400   `id`, `field`
│   ├── InvalidCursor 400
│   ├── ProjectCopyFailed 400   `force_required`
│   ├── Unauthorized 401
│   ├── Forbidden 403           `role`
│   ├── NotFound 404
│   │   ├── SessionNotFound     `session_id`
│   │   ├── MessageNotFound     `session_id`, `message_id`
│   │   ├── ProviderNotFound    `provider_id`
│   │   ├── PermissionNotFound  `request_id`
│   │   ├── QuestionNotFound    `request_id`
│   │   ├── FormNotFound        `id`
│   │   ├── PtyNotFound         `pty_id`
│   │   ├── CommandNotFound     `command`
│   │   ├── SkillNotFound       `skill`
│   │   └── McpServerNotFound   `server`
│   ├── MethodNotAllowed 405
│   ├── Conflict 409            `resource`
│   ├── FormAlreadySettled 409  `id`
│   ├── InstructionTooLarge 413 `actual_bytes`, `max_bytes`
│   ├── UnsupportedMediaType 415
│   ├── TooManyRequests 429     `retry_after`
│   ├── ServerFailed 500        `ref` finds the failure in the server's log
│   ├── ServiceUnavailable 503  `service`
│   └── InsufficientStorage 507 `limit`
├── ClientError                 the way to the server and back failed (client/errors.py)
├── ActivityFailed              a Session's work did not complete (client/errors.py)
│   └── StructuredOutputFailed  no answer had the form that the prompt asked for
├── StorageError                the database cannot be used (core/database/errors.py)
├── LLMError                    a provider failed (llm/errors.py)
├── ToolFailure                 a tool tells the model why it failed (core/tool/tool.py)
└── …                           each package of core draws its own part in its `errors.py`

Core raises these classes or subclasses of them. A client raises the class that belongs to the code of the answer. So
one `except` clause fits a runtime in the same process, a host in memory and a server.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.schema import errors as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_CHARACTERS = 200
"""Of a name that a caller sent, in a message."""


class HoldfastError(Exception):
    """The root of all exceptions that Holdfast raises for others to catch."""

    code: str | None = "HoldfastError"
    """The stable name of the failure: its tag on the wire, or else the name of the class. Of an LLMError it is the
    provider's own code, if there is one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "code" not in cls.__dict__:
            cls.code = cls.__name__


class ApiError(HoldfastError):
    """An operation failed in a way that the API declares."""

    struct: ClassVar[type[wire.PublicError]] = wire.UnknownError
    """How the failure is sent. The exception has its fields as attributes."""
    status: int = 500

    def __init_subclass__(cls, **options: Any) -> None:
        if "struct" in cls.__dict__:
            cls.code = cls.__dict__.get("code", cls.struct.__name__)
        super().__init_subclass__(**options)
        cls.status = cls.struct.status

    def public(self) -> wire.PublicError | wire.ProjectCopyError:
        """What the server sends."""
        fields = {name: getattr(self, name) for name in self.struct.__struct_fields__ if name != "message"}
        return self.struct(message=str(self), **fields)

    @cached_property
    def body(self) -> dict[str, Any]:
        """The answer as JSON."""
        return msgspec.to_builtins(self.public())  # type: ignore[no-any-return]


def received(code: str, status: int, body: dict[str, Any]) -> ApiError:
    """The exception for an answer of a server. An unknown code gives a plain ApiError."""
    kind = _BY_CODE.get(code, ApiError)
    error = kind.__new__(kind)
    content = body.get("data") if kind is ProjectCopyFailed else body
    content = content if isinstance(content, dict) else {}
    Exception.__init__(error, str(content.get("message", code)))
    for field in msgspec.structs.fields(wire.ProjectCopyFailure if kind is ProjectCopyFailed else kind.struct):
        if field.name != "message":
            setattr(error, field.name, content.get(field.encode_name))
    error.code, error.status, error.body = code, status, body
    return error


class InvalidRequest(ApiError):
    """The request is not valid: `kind` names the part of it, `field` the field."""

    struct = wire.InvalidRequestError

    def __init__(self, message: str, *, kind: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.field = field


class InvalidCursor(ApiError):
    """A page cursor that does not fit this request."""

    struct = wire.InvalidCursorError

    def __init__(self, message: str = "Invalid cursor") -> None:
        super().__init__(message)


class ProjectCopyFailed(ApiError):
    """A copy of a project could not be made, removed or refreshed."""

    code = "ProjectCopyError"
    struct = wire.InvalidRequestError  # for its status: the answer has another form than all others

    def __init__(self, message: str, *, force_required: bool | None = None) -> None:
        super().__init__(message)
        self.force_required = force_required

    def public(self) -> wire.ProjectCopyError:
        failure = wire.ProjectCopyFailure(message=str(self), force_required=self.force_required)
        return wire.ProjectCopyError(data=failure)


class Unauthorized(ApiError):
    """Credentials are missing or wrong."""

    struct = wire.UnauthorizedError


class Forbidden(ApiError):
    """The request is not permitted: `role` is the one that the caller lacks, if that is the reason."""

    struct = wire.ForbiddenError

    def __init__(self, message: str, *, role: str | None = None) -> None:
        super().__init__(message)
        self.role = role


class NotFound(ApiError):
    """Something that the request names does not exist."""

    struct: ClassVar[type[wire.PublicError]] = wire.NotFoundError


class SessionNotFound(NotFound):
    """No such Session."""

    struct = wire.SessionNotFoundError

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session not found: {session_id}")
        self.session_id = session_id


class MessageNotFound(NotFound):
    """No such message in that Session."""

    struct = wire.MessageNotFoundError

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message not found: {message_id}")
        self.session_id = session_id
        self.message_id = message_id


class ProviderNotFound(NotFound):
    """No such provider."""

    struct = wire.ProviderNotFoundError

    def __init__(self, provider_id: str) -> None:
        super().__init__(f"Provider not found: {provider_id[:200]}")
        self.provider_id = provider_id


class PermissionNotFound(NotFound):
    """No such request waits here: it is unknown, already answered, or of another Session."""

    struct = wire.PermissionNotFoundError

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Permission request not found: {request_id}")
        self.request_id = request_id


class QuestionNotFound(NotFound):
    """No such question waits here: it is unknown, already answered, or of another Session."""

    struct = wire.QuestionNotFoundError

    def __init__(self, request_id: str) -> None:
        super().__init__(f"Question request not found: {request_id}")
        self.request_id = request_id


class FormNotFound(NotFound):
    """No such form here, or it belongs to another Session."""

    struct = wire.FormNotFoundError

    def __init__(self, id: str) -> None:
        super().__init__(f"Form not found: {id[:NAME_CHARACTERS]}")
        self.id = id


class FormAlreadySettled(ApiError):
    """The form was answered or cancelled before."""

    struct = wire.FormAlreadySettledError

    def __init__(self, id: str) -> None:
        super().__init__(f"Form already settled: {id}")
        self.id = id


class InvalidFormAnswer(ApiError):
    """The answer does not fit the form, which goes on waiting: `field` is the key of the field."""

    struct = wire.FormInvalidAnswerError

    def __init__(self, id: str, reason: str, *, field: str | None = None) -> None:
        where = f"field {field!r}: " if field is not None else ""
        super().__init__(f"This answer does not fit the form: {where}{reason}")
        self.id = id
        self.field = field


class PtyNotFound(NotFound):
    """No such terminal in this Location; `node` is the server that has it, if another one does."""

    struct = wire.PtyNotFoundError

    def __init__(self, pty_id: str, node: str | None = None) -> None:
        super().__init__(f"PTY session not found: {pty_id}{f'. It belongs to {node}' if node else ''}")
        self.pty_id = pty_id


class CommandNotFound(NotFound):
    """No such command; nothing was admitted."""

    struct = wire.CommandNotFoundError

    def __init__(self, command: str, near: Sequence[str] = ()) -> None:
        hint = f". Similar: {', '.join(near)}" if near else ""
        super().__init__(f"Command not found: {command[:NAME_CHARACTERS]}{hint}")
        self.command = command[:NAME_CHARACTERS]


class SkillNotFound(NotFound):
    """No such skill; nothing was admitted."""

    struct = wire.SkillNotFoundError

    def __init__(self, skill: str) -> None:
        super().__init__(f"Skill not found: {skill[:NAME_CHARACTERS]}")
        self.skill = skill[:NAME_CHARACTERS]


class McpServerNotFound(NotFound):
    """The Location has no such MCP server."""

    struct = wire.McpServerNotFoundError

    def __init__(self, server: str) -> None:
        shown = server[:NAME_CHARACTERS]
        super().__init__(f"MCP server not found: {shown}. `holdfast mcp list` lists the servers.")
        self.server = shown


class MethodNotAllowed(ApiError):
    """The path exists, but not with this method."""

    struct = wire.MethodNotAllowedError


class Conflict(ApiError):
    """The operation does not fit the present state of `resource`."""

    struct = wire.ConflictError

    def __init__(self, message: str, *, resource: str | None = None) -> None:
        super().__init__(message)
        self.resource = resource


class InstructionTooLarge(ApiError):
    """The value of an instruction entry has too many bytes as JSON; nothing was changed."""

    struct = wire.InstructionEntryValueTooLargeError

    def __init__(self, actual_bytes: int, max_bytes: int) -> None:
        super().__init__(f"The value has {actual_bytes} bytes as JSON; an instruction entry may have {max_bytes}")
        self.actual_bytes = actual_bytes
        self.max_bytes = max_bytes


class UnsupportedMediaType(ApiError):
    """The body of the request is not JSON."""

    struct = wire.UnsupportedMediaTypeError


class TooManyRequests(ApiError):
    """More is asked for than the server takes; `retry_after` says when to try again, in seconds."""

    struct = wire.TooManyRequestsError

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InsufficientStorage(ApiError):
    """The server accepts nothing new: `limit` names the setting of `holdfast.limits` that is reached."""

    struct = wire.InsufficientStorageError

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class ServerFailed(ApiError):
    """The server failed unexpectedly; `ref` finds the failure in its log."""

    struct = wire.UnknownError

    def __init__(self, message: str, *, ref: str | None = None) -> None:
        super().__init__(message)
        self.ref = ref


class ServiceUnavailable(ApiError):
    """The operation is not possible now: `service` tells what is missing."""

    struct = wire.ServiceUnavailableError

    def __init__(self, message: str, *, service: str | None = None) -> None:
        super().__init__(message)
        self.service = service


_BY_CODE = {kind.code: kind for kind in (*ApiError.__subclasses__(), *NotFound.__subclasses__())}
