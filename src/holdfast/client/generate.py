"""Writes the client from the protocol: `python -m holdfast.client.generate [--check]`.

The protocol compiles once into a small description (operations with flat inputs); the emitter reads only that."""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.inputs import LocationInput, ModelInput
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record, wire_name
from holdfast.schema.session_message import SessionMessage

TARGET = Path(__file__).parent / "generated" / "async_client.py"
# What callers pass where the payload has a stricter twin.
CALLER_TYPES: dict[Any, Any] = {ModelInput: ModelRef, LocationInput: Location}
ALIASES: dict[Any, str] = {SessionMessage: "SessionMessage"}


class Field(NamedTuple):
    name: str
    wire: str
    channel: str
    annotation: str
    required: bool


class Operation(NamedTuple):
    group: str
    name: str
    endpoint: Endpoint
    fields: tuple[Field, ...]
    returns: str
    statuses: tuple[int, ...]


def compile_api(api: tuple[Endpoint, ...]) -> list[Operation]:
    operations = [_operation(endpoint) for endpoint in api]
    names = [(operation.group, operation.name) for operation in operations]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two operations are called {'.'.join(duplicate)}")
    return operations


def _operation(endpoint: Endpoint) -> Operation:
    fields: list[Field] = []
    for channel, record in (("params", endpoint.params), ("query", endpoint.query), ("payload", endpoint.payload)):
        fields += _fields(channel, record)
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise ValueError(f"{endpoint.operation}: one input name in two channels")
    statuses = tuple(sorted({error.status for error in endpoint.declared_errors}))
    fields.sort(key=lambda field: not field.required)
    return Operation(endpoint.group, endpoint.name, endpoint, tuple(fields), _returns(endpoint), statuses)


def _fields(channel: str, record: type[Record] | None) -> list[Field]:
    if record is None:
        return []
    hints = typing.get_type_hints(record)
    return [
        Field(field.name, wire_name(field.name), channel, annotation(hints[field.name]), field.required)
        for field in msgspec.structs.fields(record)
    ]


def annotation(kind: Any) -> str:
    """Python source for a type; constraints of the wire do not show."""
    kind = CALLER_TYPES.get(kind, kind)
    if kind in ALIASES:
        return ALIASES[kind]
    if kind is type(None):
        return "None"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return annotation(arguments[0])
    if origin is typing.Literal:
        return f"Literal[{', '.join(repr(item) for item in arguments)}]".replace("'", '"')
    if origin in (typing.Union, types.UnionType):
        return " | ".join(annotation(item) for item in arguments)
    if origin is not None:
        # Qualified, since an operation may be called `list` too.
        return f"builtins.{origin.__name__}[{', '.join(annotation(item) for item in arguments)}]"
    return str(kind.__name__)


def _returns(endpoint: Endpoint) -> str:
    match endpoint.envelope:
        case Envelope.VOID:
            return "None"
        case Envelope.PAGE:
            return f"Page[{annotation(endpoint.success)}]"
        case Envelope.HISTORY:
            return "History"
        case _:
            return annotation(endpoint.success)


def emit(operations: list[Operation]) -> str:
    groups: dict[str, list[Operation]] = {}
    for operation in operations:
        groups.setdefault(operation.group, []).append(operation)
    classes = "\n\n".join(_emit_group(name, members) for name, members in groups.items())
    attributes = "\n".join(f"        self.{name} = {_class_name(name)}(core)" for name in groups)
    return HEADER + classes + CLIENT.format(attributes=attributes)


def _emit_group(group: str, operations: list[Operation]) -> str:
    methods = "\n".join(_emit_method(operation) for operation in operations)
    constructor = "    def __init__(self, core: ClientCore) -> None:\n        self._core = core\n"
    return f"class {_class_name(group)}:\n{constructor}{methods}"


def _emit_method(operation: Operation) -> str:
    endpoint = operation.endpoint
    streams = endpoint.envelope is Envelope.STREAM
    arguments = [
        f"{field.name}: {field.annotation}" + ("" if field.required else " = None") for field in operation.fields
    ]
    positional = [arguments.pop(0)] if operation.fields and operation.fields[0].channel == "params" else []
    signature = ", ".join(["self", *positional, "*", *arguments, "options: Options | None = None"])
    returns = f"Stream[{operation.returns}]" if streams else operation.returns
    call = {
        Envelope.BARE: f"self._core.value({operation.returns}, ",
        Envelope.DATA: f"self._core.data({operation.returns}, ",
        Envelope.PAGE: f"self._core.page({operation.returns[5:-1]}, ",
        Envelope.HISTORY: "self._core.history(",
        Envelope.VOID: "self._core.void(",
        Envelope.STREAM: f"self._core.stream({operation.returns}, ",
    }[endpoint.envelope]
    errors = ", ".join(str(status) for status in operation.statuses)
    parts = [f'Operation("{endpoint.method}", "{endpoint.path}", frozenset({{{errors}}}))']
    for channel in ("params", "query", "payload"):
        chosen = [f'"{field.wire}": {field.name}' for field in operation.fields if field.channel == channel]
        if chosen or (channel == "payload" and endpoint.payload is not None):
            parts.append(f"{channel}={{{', '.join(chosen)}}}")
    parts.append("options=options")
    body = "".join(f"            {part},\n" for part in parts)
    kind = "def" if streams else "async def"
    result = "return " if streams else "await " if endpoint.envelope is Envelope.VOID else "return await "
    opening, first = call.split("(", 1)
    lead = f"            {first.rstrip(', ')},\n" if first else ""
    ignore = (
        "" if streams or endpoint.envelope in (Envelope.VOID, Envelope.HISTORY) else "  # type: ignore[no-any-return]"
    )
    return (
        f"\n    {kind} {operation.name}({signature}) -> {returns}:\n"
        f'        """{endpoint.summary}"""\n'
        f"        {result}{opening}({ignore}\n{lead}{body}        )\n"
    )


def _class_name(group: str) -> str:
    return group.capitalize() + "Group"


HEADER = '''\
# Generated by `make generate` from holdfast.protocol; not edited by hand.
# fmt: off
# ruff: noqa
"""The asynchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Literal

from holdfast.client.core import ClientCore, History, Operation, Options, Page, Stream
from holdfast.client.transport import AsyncTransport
from holdfast.protocol.instance import Health
from holdfast.schema.event import Event
from holdfast.schema.location import Location, LocationInfo
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Admission, PromptInput
from holdfast.schema.session import Session, SessionActive
from holdfast.schema.session_message import SessionMessage


'''
CLIENT = '''

class AsyncClient:
    """Construction does no I/O; the transport is the caller's."""

    def __init__(self, transport: AsyncTransport, *, headers: Mapping[str, str] | None = None) -> None:
        core = ClientCore(transport, headers)
{attributes}
'''


def main() -> int:
    source = emit(compile_api(API))
    if "--check" in sys.argv:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if current == source:
            return 0
        sys.stderr.write(f"{TARGET.name} does not match the protocol; run `make generate`\n")
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(source, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
