"""Maps exceptions to the errors that clients receive.

An ApiError has its own answer. The other cases are failures that the API tells in other words, and defects."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from holdfast.core.config.reload import ConfigRefused
from holdfast.core.database.errors import (
    StorageBusy,
    StorageChanged,
    StorageClosed,
    StorageError,
    StorageFull,
    StorageTimeout,
    StorageUnavailable,
)
from holdfast.core.filesystem import errors as file
from holdfast.core.search.search import SearchFailed
from holdfast.schema import errors as public
from holdfast.schema.exceptions import ApiError

if TYPE_CHECKING:
    from holdfast.schema.errors import ProjectCopyError, PublicError

log = logging.getLogger(__name__)


def to_public(error: Exception) -> PublicError | ProjectCopyError:
    match error:
        case ApiError():
            return error.public()
        case ConfigRefused():
            return public.ConflictError(message=f"the former configuration stays in force: {error}", resource="config")
        case file.TargetMissing():
            return public.NotFoundError(message=f"{error.path}: {error}")
        case file.PathError() | file.WrongKind() | file.FileTooLarge():
            return public.InvalidRequestError(message=f"{error.path}: {error}", field="path")
        case SearchFailed():
            return public.ServiceUnavailableError(message="The search engine failed", service="files")
        case (
            StorageBusy() | StorageFull() | StorageClosed() | StorageTimeout() | StorageUnavailable() | StorageChanged()
        ):
            # Each names the database without its password. An outage is in the log once, not with each request.
            return public.ServiceUnavailableError(message=str(error), service="storage")
        case StorageError():
            log.error("storage failed", exc_info=error)
            return public.ServiceUnavailableError(message="storage failed", service="storage")
        case _:
            return _unknown(error)


def _unknown(error: Exception) -> PublicError:
    """A reference to the server's log, without internals."""
    reference = f"err_{secrets.token_hex(4)}"
    log.error("request failed (%s)", reference, exc_info=error)
    return public.UnknownError(message="Unexpected server error. See the server's log.", ref=reference)
