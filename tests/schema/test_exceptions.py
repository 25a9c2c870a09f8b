"""The exceptions that users catch: one root, codes, and the same classes near and far."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.core.session import errors as session
from holdfast.core.session import input_errors as inputs
from holdfast.schema import errors as wire
from holdfast.schema import exceptions
from holdfast.schema.exceptions import ApiError, HoldfastError, received

INTERNAL = {
    # Handled inside the package that raises them, or of a development tool.
    *("AnsweredElsewhere", "FileTooLarge", "GenerationError", "HunkError", "Paused", "Stalled", "UnreadableSettings"),
    *(
        "InvalidConversation",
        "InvalidFrontmatter",
        "ConnectionLost",
        "InvalidJson",
        "NodeSocketClosed",
        "NodeSocketRefused",
        "NoSession",
        "NotAValue",
        "NotConvertible",
        "NotJson",
        "PasteRefused",
        "PatchError",
        "PatternTooWide",
        "RefusedPath",
        "SchemaMismatch",
    ),
    *("MatchTooLong", "PatternError", "SchemaProblem"),
    *(
        "ServerGone",
        "SocketClosed",
        "StaleSocket",
        "SocketRefused",
        "TextNotMatched",
        "TooMuch",
        "Unclear",
    ),
    *("Unreadable", "Unusable", "Void"),
}


def kinds(of: type[Exception]) -> set[type[Exception]]:
    return {of}.union(*(kinds(each) for each in of.__subclasses__()))


def modules() -> list[str]:
    found = pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    return [module.name for module in found if not module.name.endswith("__main__")]


def test_every_exception_of_the_package_has_one_root() -> None:
    """API-471: what leaves a package can be caught as HoldfastError."""
    for name in modules():
        importlib.import_module(name)

    own = {kind for kind in kinds(Exception) if kind.__module__.startswith("holdfast.")}
    own -= {kind for kind in own if kind.__module__.startswith(("holdfast.http.", "holdfast.mcp."))}  # libraries
    rootless = {kind for kind in own if not issubclass(kind, HoldfastError) and not kind.__name__.startswith("_")}
    assert {kind.__name__ for kind in rootless} == INTERNAL
    assert len(own - rootless) > 80


def test_every_kind_has_a_code_of_its_own() -> None:
    """API-471: a program can tell failures apart without reading their text."""
    own = [
        kind for kind in kinds(HoldfastError) if kind.__module__.startswith("holdfast.") and kind is not HoldfastError
    ]
    codes = [kind.code for kind in own]  # type: ignore[attr-defined]
    assert sorted(set(codes)) == sorted(codes)
    assert all(codes)


DECLARED = [struct for struct in wire.PublicError.__subclasses__() if struct.__module__ == wire.__name__]
"""Not those of the page, which are not for clients."""


@pytest.mark.parametrize("struct", DECLARED, ids=lambda struct: str(struct.__name__))
def test_every_declared_error_has_its_exception(struct: type[wire.PublicError]) -> None:
    """API-472: a client raises the class that belongs to the tag, with the fields of the answer as attributes."""
    fields = {name: f"the {name}" for name in struct.__struct_fields__}
    body = msgspec.to_builtins(struct(**fields))
    error = received(struct.__name__, struct.status, body)

    assert type(error) is not ApiError
    assert (error.code, error.status, error.body, str(error)) == (struct.__name__, struct.status, body, "the message")
    assert {name: getattr(error, name) for name in fields if name != "message"} == {
        name: value for name, value in fields.items() if name != "message"
    }
    assert error.public() == struct(**fields)


def test_a_failed_project_copy_has_its_exception() -> None:
    """API-472: its answer is discriminated by `name` and has its content inside."""
    body: dict[str, Any] = {"name": "ProjectCopyError", "data": {"message": "not clean", "forceRequired": True}}
    error = received("ProjectCopyError", 400, body)
    assert isinstance(error, exceptions.ProjectCopyFailed)
    assert (str(error), error.force_required, error.status, error.body) == ("not clean", True, 400, body)
    assert exceptions.ProjectCopyFailed("not clean", force_required=True).body == body


def test_an_unknown_code_is_still_an_api_error() -> None:
    """API-472: a newer server may declare what this client does not know."""
    error = received("TeapotError", 418, {"_tag": "TeapotError", "message": "short and stout", "lid": 1})
    assert type(error) is ApiError
    assert (error.code, error.status, str(error), error.body["lid"]) == ("TeapotError", 418, "short and stout", 1)


def test_missing_fields_of_an_answer_are_none() -> None:
    """API-472: what another server leaves out is no reason to lose the failure."""
    error = received("SessionNotFoundError", 404, {"_tag": "SessionNotFoundError"})
    assert isinstance(error, holdfast.SessionNotFound)
    assert getattr(error, "session_id") is None  # noqa: B009 - typed as a string, which a proper server sends
    assert str(error) == "SessionNotFoundError"


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (session.SessionNotFound("ses_1"), holdfast.SessionNotFound),
        (inputs.InputNotFound("ses_1", "msg_1"), holdfast.MessageNotFound),
        (inputs.PromptConflict("ses_1", "msg_1"), holdfast.Conflict),
        (inputs.PromptTooLarge("ses_1", "prompt.text", "its text", 1), holdfast.InvalidRequest),
        (session.AgentUnavailable("ses_1", "a"), holdfast.ServiceUnavailable),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_one_except_clause_fits_core_and_client(raised: ApiError, caught: type[ApiError]) -> None:
    """API-472: the class that a client makes of the answer catches what core raises."""
    assert isinstance(raised, caught)
    tag = str(raised.body["_tag"])
    remote = received(tag, raised.status, raised.body)
    assert type(remote) is caught
    assert str(remote) == str(raised)
    assert remote.public() == raised.public()
