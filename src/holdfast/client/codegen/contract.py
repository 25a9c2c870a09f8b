"""The contract that clients are generated from: groups of operations with flat inputs, one success type and declared
failures, and the events of streams. Types are those of the schema."""

from __future__ import annotations

import keyword
import re
import typing
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.event import Definition
    from holdfast.schema.record import Record

Channel = Literal["params", "query", "payload"]
SHAPES = ("bare", "data", "location", "page", "history", "void", "stream", "raw")
SOCKET = "socket"

CLIENT_MEMBERS = frozenset(
    (
        *("close", "tool", "tools", "context", "verify", "rebuild", "default_model"),
        *("run", "stream", "ask", "on_permission", "on_question", "on_form"),
    )
)
"""Members of a client or of the embedded host; groups cannot have these names."""
COMMON_FAILURES = frozenset(("InvalidRequestError", "UnauthorizedError"))
CALL_PARAMETERS = frozenset(("self", "options"))

_PLACEHOLDER = re.compile(r"\{([^}]*)\}")


class GenerationError(ValueError):
    """The protocol says something that no client can express."""


class Input(NamedTuple):
    name: str
    wire: str
    channel: Channel
    kind: Any
    required: bool


class DeclaredFailure(NamedTuple):
    tag: str
    field: str
    """The field of the body with the tag."""
    status: int
    kind: type[msgspec.Struct]


class ContractOperation(NamedTuple):
    group: str
    name: str
    method: str
    path: str
    summary: str
    inputs: tuple[Input, ...]
    has_payload: bool
    shape: str
    success: Any
    """The type inside the envelope; of a stream, that of one element."""
    failures: tuple[DeclaredFailure, ...]
    headers: tuple[tuple[str, str], ...]
    """Headers of every request."""

    def channel(self, channel: Channel) -> tuple[Input, ...]:
        return tuple(given for given in self.inputs if given.channel == channel)

    @property
    def documentation(self) -> str:
        """The summary, and the failures that are specific to the operation."""
        own = [failure.tag for failure in self.failures if failure.tag not in COMMON_FAILURES]
        return f"{self.summary} Fails with {', '.join(own)}." if own else self.summary

    @property
    def statuses(self) -> tuple[int, ...]:
        return tuple(sorted({failure.status for failure in self.failures}))


class Contract(NamedTuple):
    groups: dict[str, tuple[ContractOperation, ...]]
    failures: tuple[DeclaredFailure, ...]
    durable: dict[str, type[Record]]
    """Payload type of each durable event type."""
    live: dict[str, type[Record]]
    """Payload type of each live event type."""


def compile_contract(api: Iterable[Endpoint], events: Iterable[Definition] = ()) -> Contract:
    groups: dict[str, list[ContractOperation]] = {}
    failures: dict[str, DeclaredFailure] = {}
    for endpoint in api:
        operation = _operation(endpoint)
        members = groups.setdefault(operation.group, [])
        if any(member.name == operation.name for member in members):
            raise GenerationError(f"two operations are called {operation.group}.{operation.name}")
        members.append(operation)
        failures.update({failure.tag: failure for failure in operation.failures})
    known = sorted(events, key=lambda event: event.type)
    return Contract(
        groups={name: tuple(members) for name, members in groups.items()},
        failures=tuple(failures[tag] for tag in sorted(failures)),
        durable={event.type: event.payload for event in known if event.durable},
        live={event.type: event.payload for event in known if not event.durable},
    )


def _operation(endpoint: Endpoint) -> ContractOperation:
    where = endpoint.operation
    for name in (endpoint.group, endpoint.name):
        _require_name(where, name)
    if endpoint.group in CLIENT_MEMBERS:
        raise GenerationError(f"{where}: a client has a member {endpoint.group} of its own")
    if endpoint.envelope.value not in SHAPES:
        raise GenerationError(f"{where}: no client reads an answer that is {endpoint.envelope.value}")
    inputs = (
        *_inputs("params", endpoint.params),
        *_inputs("query", endpoint.query),
        *_inputs("payload", endpoint.payload),
    )
    for given in inputs:
        _require_name(where, given.name)
        if given.name in CALL_PARAMETERS:
            raise GenerationError(f"{where}: an input cannot be called {given.name}")
    if len({given.name for given in inputs}) != len(inputs):
        raise GenerationError(f"{where}: one input name in two channels")
    _require_path(endpoint, {given.wire for given in inputs if given.channel == "params"})
    return ContractOperation(
        group=endpoint.group,
        name=endpoint.name,
        method=endpoint.method,
        path=endpoint.path,
        summary=endpoint.summary,
        inputs=tuple(sorted(inputs, key=lambda given: not given.required)),
        has_payload=endpoint.payload is not None,
        shape=SOCKET if endpoint.socket else endpoint.envelope.value,
        success=endpoint.success,
        failures=tuple(_failure(where, error) for error in endpoint.declared_errors),
        headers=endpoint.headers,
    )


def _inputs(channel: Channel, record: type[Record] | None) -> tuple[Input, ...]:
    if record is None:
        return ()
    hints = typing.get_type_hints(record, include_extras=True)
    return tuple(
        Input(field.name, field.encode_name, channel, hints[field.name], field.required)
        for field in msgspec.structs.fields(record)
    )


def _failure(where: str, error: type[msgspec.Struct]) -> DeclaredFailure:
    config = error.__struct_config__
    if not isinstance(config.tag, str) or config.tag_field not in ("_tag", "name"):
        raise GenerationError(f"{where}: {error.__name__} has no literal _tag or name")
    return DeclaredFailure(config.tag, config.tag_field, getattr(error, "status"), error)  # noqa: B009 - a class variable


def _require_name(where: str, name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name != name.lower():
        raise GenerationError(f"{where}: {name!r} is no name for an operation, group or input")


def _require_path(endpoint: Endpoint, params: set[str]) -> None:
    if any(not name.isidentifier() for name in _PLACEHOLDER.findall(endpoint.path)):
        raise GenerationError(f"{endpoint.operation}: no client fills in a wildcard inside a path")
    if endpoint.path.endswith("/*") and "*" not in endpoint.path[:-1] and params == {"path"}:
        return
    if "*" in endpoint.path:
        raise GenerationError(f"{endpoint.operation}: a wildcard takes the one parameter `path`, at the end")
    if set(_PLACEHOLDER.findall(endpoint.path)) != params:
        raise GenerationError(f"{endpoint.operation}: the path and its parameters differ")
