"""From domain failures to public errors, once.

What the caller can change is 400, what is not there 404, what stands in the way 409, what may pass by itself 503."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from holdfast.core.catalog.errors import ModelNotSelected, ModelUnavailable, UnsupportedApi, VariantUnavailable
from holdfast.core.config.reload import ConfigRefused
from holdfast.core.context.errors import ContextContention, InitializationBlocked
from holdfast.core.credential import errors as credential
from holdfast.core.database.errors import StorageBusy, StorageClosed, StorageError, StorageFull
from holdfast.core.filesystem import errors as file
from holdfast.core.permission.errors import InvalidSave, PermissionNotFound
from holdfast.core.permission.requests import DuplicateRequest
from holdfast.core.project.errors import CopyFailed
from holdfast.core.question.errors import InvalidAnswers, QuestionNotFound
from holdfast.core.search.search import SearchFailed
from holdfast.core.session import errors as domain
from holdfast.schema import errors as public

if TYPE_CHECKING:
    from holdfast.schema.errors import ProjectCopyError, PublicError

    PublicAnswer = PublicError | ProjectCopyError

log = logging.getLogger(__name__)


class PublicFailure(Exception):
    """Ends a request with exactly this error."""

    def __init__(self, error: PublicError) -> None:
        super().__init__(error.message)
        self.error = error


def to_public(error: Exception) -> PublicAnswer:
    if isinstance(error, PublicFailure):
        return error.error
    for translate in (_of_session, _of_execution, _of_requests, _of_integrations, _of_files, _of_storage):
        if (found := translate(error)) is not None:
            return found
    return _unknown(error)


def _of_session(error: Exception) -> PublicAnswer | None:
    match error:
        case domain.SessionNotFound():
            return public.SessionNotFoundError(message=str(error), session_id=error.session_id)
        case domain.MessageNotFound() | domain.InputNotPending(known=False):
            return public.MessageNotFoundError(
                message=str(error), session_id=error.session_id, message_id=error.message_id
            )
        case domain.PromptConflict() | domain.PromptWithdrawn() | domain.InputNotPending() | domain.CompactionInUse():
            return public.ConflictError(message=str(error), resource=error.message_id)
        case (
            domain.SessionDeleted()
            | domain.InboxFull()
            | domain.NothingToCompact()
            | domain.UnfinishedWork()
            | domain.InputExceedsWindow()
        ):
            return public.ConflictError(message=str(error), resource=error.session_id)
        case ConfigRefused():
            return public.ConflictError(message=f"the former configuration stays in force: {error}", resource="config")
        case domain.ChangesNotMoved():
            return public.ConflictError(message=str(error), resource=error.directory)
        case domain.DestinationMismatch():
            return public.InvalidRequestError(message=str(error), kind="Payload", field="directory")
        case domain.AttachmentRefused():
            field = f"prompt.files[{error.index}]"
            return public.InvalidRequestError(message=str(error), kind="Payload", field=field)
        case domain.PromptTooLarge():
            return public.InvalidRequestError(message=str(error), kind="Payload", field=error.field)
        case domain.InvalidCursor():
            return public.InvalidCursorError(message=str(error))
        case _:
            return None


def _of_execution(error: Exception) -> PublicAnswer | None:
    match error:
        case domain.AgentUnavailable():
            return public.ServiceUnavailableError(message=str(error), service="agent")
        case ModelUnavailable() | ModelNotSelected() | VariantUnavailable() | UnsupportedApi():
            return public.ServiceUnavailableError(message=str(error), service="model")
        case InitializationBlocked() | ContextContention():
            return public.ServiceUnavailableError(message=str(error), service="context")
        case domain.CompactionFailed():
            return public.ServiceUnavailableError(message=str(error), service="session.compact")
        case domain.Interrupted():
            return public.ConflictError(message=str(error))
        case _:
            return None


def _of_requests(error: Exception) -> PublicAnswer | None:
    match error:
        case PermissionNotFound():
            return public.PermissionNotFoundError(message=str(error), request_id=error.request_id)
        case QuestionNotFound():
            return public.QuestionNotFoundError(message=str(error), request_id=error.request_id)
        case InvalidSave():
            return public.InvalidRequestError(message=str(error), kind="Payload", field="save")
        case InvalidAnswers():
            return public.InvalidRequestError(message=str(error), kind="Payload", field="answers")
        case DuplicateRequest():
            return public.ConflictError(message=str(error), resource=error.request_id)
        case _:
            return None


def _of_integrations(error: Exception) -> PublicAnswer | None:
    match error:
        case credential.CredentialsUnreadable():
            return public.ServiceUnavailableError(message=str(error), service="credentials")
        case credential.IntegrationError():
            return public.InvalidRequestError(message=str(error), kind=error.kind)
        case _:
            return None


def _of_files(error: Exception) -> PublicAnswer | None:
    match error:
        case file.TargetMissing():
            return public.NotFoundError(message=f"{error.path}: {error}")
        case file.PathError() | file.WrongKind() | file.FileTooLarge():
            return public.InvalidRequestError(message=f"{error.path}: {error}", field="path")
        case SearchFailed():
            return public.ServiceUnavailableError(message="The search engine failed", service="files")
        case CopyFailed(message=message, force_required=force_required):
            failure = public.ProjectCopyFailure(message=message, force_required=force_required)
            return public.ProjectCopyError(data=failure)
        case _:
            return None


def _of_storage(error: Exception) -> PublicAnswer | None:
    match error:
        case StorageBusy() | StorageFull() | StorageClosed():
            return public.ServiceUnavailableError(message=str(error), service="storage")
        case StorageError():
            log.error("storage failed", exc_info=error)
            return public.ServiceUnavailableError(message="storage failed", service="storage")
        case _:
            return None


def _unknown(error: Exception) -> PublicAnswer:
    """No internals leave; the reference finds them in the log."""
    reference = f"err_{secrets.token_hex(4)}"
    log.error("request failed (%s)", reference, exc_info=error)
    return public.UnknownError(message="Unexpected server error. See the server's log.", ref=reference)
