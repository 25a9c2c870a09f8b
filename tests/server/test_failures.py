"""Every failure of the domain has one public face."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.server.conftest import Wire

from holdfast.core.catalog.errors import ModelNotSelected, ModelUnavailable, UnsupportedApi, VariantUnavailable
from holdfast.core.context.errors import ContextContention, ContextSnapshotDecodeError, InitializationBlocked
from holdfast.core.credential import errors as credential
from holdfast.core.database import errors as storage
from holdfast.core.filesystem import errors as file
from holdfast.core.permission.errors import InvalidSave, PermissionNotFound
from holdfast.core.permission.requests import DuplicateRequest
from holdfast.core.question.errors import InvalidAnswers, QuestionNotFound
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.search.search import SearchFailed
from holdfast.core.session import errors as domain
from holdfast.core.session import input_errors as inputs
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.schema import errors as public
from holdfast.schema.codec import encode
from holdfast.server.errors import to_public

pytestmark = pytest.mark.anyio

CASES: list[tuple[Exception, str, dict[str, object]]] = [
    (domain.SessionNotFound("ses_1"), "SessionNotFoundError", {"session_id": "ses_1"}),
    (domain.MessageNotFound("ses_1", "msg_1"), "MessageNotFoundError", {"session_id": "ses_1", "message_id": "msg_1"}),
    (inputs.InputNotFound("ses_1", "msg_1"), "MessageNotFoundError", {"message_id": "msg_1"}),
    (inputs.InputNotPending("ses_1", "msg_1"), "ConflictError", {"resource": "msg_1"}),
    (inputs.PromptConflict("ses_1", "msg_1"), "ConflictError", {"resource": "msg_1"}),
    (inputs.InboxFull("ses_1", 10), "ConflictError", {"resource": "ses_1"}),
    (domain.NothingToCompact("ses_1"), "ConflictError", {"resource": "ses_1"}),
    (domain.CompactionInUse("ses_1", "msg_1"), "ConflictError", {"resource": "msg_1"}),
    (domain.ChangesNotMoved("apply", "/there", "conflict"), "ConflictError", {"resource": "/there"}),
    (domain.Interrupted(), "ConflictError", {"resource": None}),
    (domain.DestinationMismatch("a", "b"), "InvalidRequestError", {"kind": "Payload", "field": "directory"}),
    (domain.InvalidCursor(), "InvalidCursorError", {}),
    (domain.AgentUnavailable("ses_1", "a"), "ServiceUnavailableError", {"service": "agent"}),
    (ModelUnavailable("p", "m"), "ServiceUnavailableError", {"service": "model"}),
    (ModelNotSelected("ses_1"), "ServiceUnavailableError", {"service": "model"}),
    (VariantUnavailable("p", "m", "v", ()), "ServiceUnavailableError", {"service": "model"}),
    (UnsupportedApi("p", "m", "a"), "ServiceUnavailableError", {"service": "model"}),
    (domain.CompactionFailed("ses_1", "no"), "ServiceUnavailableError", {"service": "session.compact"}),
    (InitializationBlocked(("a",)), "ServiceUnavailableError", {"service": "context"}),
    (ContextContention("ses_1"), "ServiceUnavailableError", {"service": "context"}),
    (PermissionNotFound("per_1"), "PermissionNotFoundError", {"request_id": "per_1"}),
    (QuestionNotFound("que_1"), "QuestionNotFoundError", {"request_id": "que_1"}),
    (InvalidSave("per_1", ["x"]), "InvalidRequestError", {"kind": "Payload", "field": "save"}),
    (InvalidAnswers("que_1", "no"), "InvalidRequestError", {"kind": "Payload", "field": "answers"}),
    (DuplicateRequest("per_1"), "ConflictError", {"resource": "per_1"}),
    (credential.IntegrationNotFound("x"), "InvalidRequestError", {"kind": "integration_not_found"}),
    (credential.AttemptNotFound("x"), "InvalidRequestError", {"kind": "integration_attempt_not_found"}),
    (credential.CodeRequired("x"), "InvalidRequestError", {"kind": "integration_code_required"}),
    (credential.AuthorizationFailed("x"), "InvalidRequestError", {"kind": "integration_authorization"}),
    (credential.CredentialsUnreadable(Path("/c"), "x"), "ServiceUnavailableError", {"service": "credentials"}),
    (file.TargetMissing("a"), "NotFoundError", {}),
    (file.PathError("a", "relative_escape"), "InvalidRequestError", {"field": "path"}),
    (file.WrongKind("a", "pipe"), "InvalidRequestError", {"field": "path"}),
    (file.FileTooLarge("a", 5), "InvalidRequestError", {"field": "path"}),
    (SearchFailed("/secret/place"), "ServiceUnavailableError", {"service": "files"}),
    (storage.StorageBusy("/db", 1.0), "ServiceUnavailableError", {"service": "storage"}),
    (storage.StorageFull("/db"), "ServiceUnavailableError", {"service": "storage"}),
    (storage.StorageClosed(), "ServiceUnavailableError", {"service": "storage"}),
    (storage.StorageCorrupt("/db", "torn"), "ServiceUnavailableError", {"service": "storage"}),
]


@pytest.mark.parametrize(("error", "tag", "fields"), CASES, ids=lambda value: type(value).__name__)
def test_a_domain_failure_has_one_public_face(error: Exception, tag: str, fields: dict[str, object]) -> None:
    """API-020, API-026, API-119, API-141: typed, with the contract's fields and a message."""
    answer = to_public(error)

    assert type(answer).__name__ == tag
    assert answer.status in (400, 404, 409, 503)
    assert {name: getattr(answer, name) for name in fields} == fields
    assert isinstance(answer, public.PublicError)
    assert answer.message


@pytest.mark.parametrize(
    "error",
    [
        SnapshotError("restore", "fatal: /home/someone/secret"),
        ContextSnapshotDecodeError("ses_1", "secret"),
        RuntimeError("secret"),
        KeyError("secret"),
        OSError(5, "secret"),
        RecursionError("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_defect_leaves_a_reference_and_nothing_else(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """API-025: 500, a generic message, and the same reference in the log, where the rest is."""
    answer = to_public(error)

    assert isinstance(answer, public.UnknownError)
    assert answer.status == 500
    assert answer.ref is not None
    assert answer.ref.startswith("err_")
    assert len(answer.ref) == 12
    assert "secret" not in answer.message
    assert answer.ref in caplog.text
    assert "secret" in caplog.text


async def test_a_defect_in_a_handler_is_answered(
    memory: Wire, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-025: tagged, and the server goes on."""

    def broken() -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(runtime.metrics, "read", broken)
    answer = await memory.get("/api/metrics")

    assert answer.failure == (500, "UnknownError")
    assert b"secret" not in answer.body
    assert (await memory.get("/api/health")).status == 200


def test_the_error_that_has_a_name_instead_of_a_tag() -> None:
    """API-021: `forceRequired` is there, null when it does not apply."""
    error = public.ProjectCopyError(data=public.ProjectCopyFailure(message="no", force_required=None))
    assert encode(error) == b'{"name":"ProjectCopyError","data":{"message":"no","forceRequired":null}}'
    assert error.status == 400


@pytest.mark.parametrize(
    ("error", "status", "fields"),
    [
        (public.ProviderNotFoundError, 404, {"message", "providerID"}),
        (public.PermissionNotFoundError, 404, {"message", "requestID"}),
        (public.QuestionNotFoundError, 404, {"message", "requestID"}),
        (public.PtyNotFoundError, 404, {"message", "ptyID"}),
    ],
)
def test_further_errors_have_the_fields_of_the_contract(
    error: type[public.PublicError], status: int, fields: set[str]
) -> None:
    """API-020: as the table says."""
    full = error(**{field.name: "x" for field in msgspec.structs.fields(error)})
    assert json.loads(msgspec.json.encode(full)) == {"_tag": error.__name__, **dict.fromkeys(fields, "x")}
    assert error.status == status
