"""From domain failures to public errors, once."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageBusy, StorageClosed, StorageError, StorageFull
from holdfast.core.session import errors as domain
from holdfast.schema import errors as public

if TYPE_CHECKING:
    from holdfast.schema.errors import PublicError

log = logging.getLogger(__name__)


class PublicFailure(Exception):
    """Ends a request with exactly this error."""

    def __init__(self, error: PublicError) -> None:
        super().__init__(error.message)
        self.error = error


def to_public(error: Exception) -> PublicError:
    match error:
        case PublicFailure():
            return error.error
        case domain.SessionNotFound():
            return public.SessionNotFoundError(message=str(error), session_id=error.session_id)
        case domain.MessageNotFound():
            return public.MessageNotFoundError(
                message=str(error), session_id=error.session_id, message_id=error.message_id
            )
        case domain.PromptConflict():
            return public.ConflictError(message=str(error), resource=error.message_id)
        case domain.InvalidCursor():
            return public.InvalidCursorError(message=str(error))
        case StorageBusy() | StorageFull() | StorageClosed():
            return public.ServiceUnavailableError(message=str(error), service="storage")
        case StorageError():
            log.error("storage failed", exc_info=error)
            return public.ServiceUnavailableError(message="storage failed", service="storage")
        case _:
            return _unknown(error)


def _unknown(error: Exception) -> PublicError:
    """No internals leave; the reference finds them in the log."""
    reference = f"err_{secrets.token_hex(4)}"
    log.error("request failed (%s)", reference, exc_info=error)
    return public.UnknownError(message="Unexpected server error. See the server's log.", ref=reference)
