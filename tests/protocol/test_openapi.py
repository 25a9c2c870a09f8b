"""The document we publish, beside the contract's. Every difference stands in one table with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from tests.conftest import FIXTURES
from tests.contract import OPENCODE

from holdfast.protocol.api import API
from holdfast.protocol.endpoint import EndpointScope
from holdfast.protocol.openapi import EXTENSION, document

# Operation and place (globs), and why we differ there.
OF_THE_NEXT_GENERATION = {
    "v2.config.get",
    *(f"v2.session.{name}" for name in ("command", "skill", "shell", "synthetic", "fork", "generate", "background")),
    *(f"v2.mcp.{name}" for name in ("list", "resource.catalog", "add", "remove", "connect", "disconnect")),
    *(f"v2.session.inbox.{name}" for name in ("list", "cancel", "steer", "queue")),
    "v2.form.request.list",
    *(f"v2.session.form.{name}" for name in ("list", "create", "get", "state", "reply", "cancel")),
    *(f"v2.session.instructions.entry.{name}" for name in ("list", "put", "remove")),
}
"""Operations that the recorded contract does not have yet, under the names that OpenCode 2.0 gives them."""
DIFFERENCES: dict[tuple[str, str], str] = {
    # What the wire does and the contract's document does not say (its README lists these).
    ("v2.session.list", "200.cursor.*"): "API-005: an empty page has null cursors",
    ("v2.session.messages", "200.cursor.*"): "API-005: an empty page has null cursors",
    ("v2.session.events", "200*"): "API-200: a frame holds the bare event, not {id, event, data}",
    ("v2.integration.get", "200.data: *null*"): "API-140: an unknown integration is null",
    ("v2.projectCopy.*", "400*.forceRequired: *"): "API-021: always there, null when it does not apply",
    ("v2.projectCopy.*", "401: added"): "API-022: answered there too",
    ("v2.session.*", "200*.durable: required"): "API-201: there, exactly on persisted events",
    ("v2.event.subscribe", "200*.durable: required"): "API-201: there, exactly on persisted events",
    ("v2.event.subscribe", "200*.durable: missing"): "API-201: never on events that are not persisted",
    ("v2.session.history", "query.*: *number* instead of *string*"): "API-122: a number, spelled in digits",
    ("v2.fs.find", "query.limit: *number* instead of *string*"): "API-150: a number, spelled in digits",
    ("v2.session.events", "query.after: *number* instead of *string*"): "API-123: a number, spelled in digits",
    # Looser where our record is shared; what is sent fits the contract.
    ("v2.session.*", "200.data*.time.completed: added"): "API-127: one record of times; only assistants complete",
    ("v2.agent.list", "200.data*.color: *"): "CAT: any colour, not only the theme's names",
    ("v2.integration.attempt.status", "200.data*"): "API-141: one record; `message` comes with `failed` alone",
    ("v2.event.subscribe", "200*session.error*.error*"): "API-214: errors of any name, with the same two fields",
    ("v2.event.subscribe", "200*session.status*.action.*"): "API-214: the action of a retry is not spelled out",
    # Ours.
    ("v2.health.get", "200.storage: added"): "STO-191: why the database cannot be used, while that lasts",
    ("v2.health.get", "200.disk: added"): "OPS-324: that the disk has too little space, while that lasts",
    ("v2.agent.list", "200.data*.permissions*.effect: *"): "TOL-523: an effect that allows what changes nothing",
    ("v2.agent.list", "200.data[].fences: added"): "TOL-400: rules that only narrow",
    ("v2.session.list", "query.archived: added"): "SES-027: put away or not",
    ("v2.session.*", "200.data*.fork: added"): "SES-320: where a fork comes from, as in OpenCode 2.0",
    ("v2.session.list", "query.parentID: added"): "API-565: children or roots, as in OpenCode 2.0",
    ("v2.session.*", "200.data*.children: added"): "API-565: how many children a listed Session has",
    ("v2.session.interrupt", "query.background: added"): "API-568: subagents in the background too",
    ("v2.event.subscribe", "200<type=session.tree.connected>: added"): "EVT-091: only in the stream of a tree",
    ("v2.event.subscribe", "200<type=form.*>: added"): "API-616: forms, as in OpenCode 2.0",
    ("v2.event.subscribe", "200<type=mcp.*.changed>: added"): "API-595: as in OpenCode 2.0",
    ("v2.session.prompt", "payload.*: added"): "API-484: options of a prompt, and its flat shape",
    ("v2.session.prompt", "payload.prompt: optional"): "API-484: the flat shape has none",
    ("v2.*", "200*.prompt.*: added"): "SES-206: a prompt keeps its options",
    ("v2.session.*", "200.data*<type=user>.*: added"): "SES-206: and so does its message",
    ("v2.session.prompt", "payload.resolve: added"): "API-474: mentions on request",
    ("v2.*", "200*.ancestors: added"): "API-540: the Sessions above the one that asks",
    ("v2.session.create", "payload.budget: added"): "API-550: limits from the start",
    ("v2.session.prompt", "503: added"): "API-474: the wait for a permission may end with the server",
    ("v2.*", "200*.prompt.notes: added"): "SES-276: what could not be attached",
    ("v2.reference.list", "200.data[].problem: added"): "CAT-225: why it cannot be used",
    ("v2.*", "200*.structured: added"): "SES-311: the structured answer, and models that have a mode for it",
    ("v2.*", "200*.rejected: added"): "SES-313: why an answer did not have the form",
    ("v2.*", "200*.before: added"): "SES-489: a revert that takes its message back too",
    ("v2.session.compact", "payload*"): "CMP-040: what the summary should keep",
    ("v2.session.revert.stage", "payload.before: added"): "SES-489: as above",
    ("v2.*", "200*.partial: added"): "SES-472: the text so far of a block that is open",
    ("v2.*", "200*.brokenOff: added"): "SES-473: a text that ended with its process",
    ("v2.*", "403.role: added"): "OPS-303: the role that is needed",
    ("v2.*", "200*.time.pinned: added"): "OPS-112: what retention leaves alone",
    ("v2.*", "200*.saved: added"): "OPS-411: what the provider's cache saved",
    ("v2.*", "200*.error.code: added"): "API-494: the name of a failure",
    ("v2.*", "200*<type=session.next.step.failed>.data.cost: added"): "SES-314: a rejected answer was paid for",
    ("v2.*", "200*<type=session.next.step.failed>.data.tokens: added"): "SES-314: as above",
    ("v2.session.prompt", "200.data.type: added"): "SES-290: a receipt tells a synthetic input",
    ("v2.*", "200*<type=session.next.prompt.admitted>.data.type: added"): "SES-290: and so does its event",
    ("v2.*", "200*<type=session.next.synthetic>.data.*: added"): "SES-290: what clients show of it",
    ("v2.session.*", "200.data*<type=synthetic>.description: added"): "SES-290: and of its message",
    ("v2.*", "200*<type=session.next.shell.ended>.data.exit: added"): "SES-284: the status of a command",
    ("v2.session.*", "200.data*<type=shell>.exit: added"): "SES-284: and in its message",
    ("v2.*", "200<type=session.next.shell.delta>: added"): "SES-286: output while the command runs",
    ("v2.session.create", "409: added"): "SES-241: the id of a deleted Session is not given to another",
    ("v2.session.compact", "409: added"): "API-119: compaction works here, and there may be nothing to compact",
    ("v2.session.permission.create", "409: added"): "API-132: an id that is taken is a conflict, not a defect",
    ("v2.permission.saved.list", "query.location: added"): "API-131: the default is the location's project",
    ("v2.session.permission.reply", "payload.save: added"): "TOL: choose among the offered patterns",
    ("v2.fs.*", "404: added"): "API-026: a missing path is no defect",
    ("v2.fs.find", "503: added"): "API-150: the search engine may fail",
    ("v2.integration.*", "503: added"): "API-026: an unreadable credential file is no defect",
    ("v2.credential.*", "503: added"): "API-026: an unreadable credential file is no defect",
    ("v2.*", "200*<type=session.next.compaction.failed>: added"): "API-215: CMP-029",
    # Events of the first generation, and of subsystems that do not exist here.
    **{
        ("v2.event.subscribe", f"200<type={type}>: missing"): "API-214: not a live type of this generation"
        for type in (
            *("command.executed", "installation.*", "lsp.updated", "mcp.*", "message.*", "permission.asked"),
            *("permission.replied", "project.updated", "question.asked", "question.rejected", "question.replied"),
            *("session.created", "session.deleted", "session.diff", "session.updated", "tui.*", "vcs.*"),
            *("workspace.*", "worktree.*"),
        )
    },
    ("v2.event.subscribe", "200<type=file.watcher.updated>: missing"): "API-214: files are not watched here",
    ("v2.event.subscribe", "200<type=project.directories.updated>: missing"): "API-151: no project copies",
    ("v2.pty.create", "503: added"): "TOL: there is a most of terminals",
    ("v2.pty.connect", "query.location*"): "API-031: spelled as everywhere else",
    ("v2.pty.connect", "query.cursor: *number* instead of *string*"): "API-164: a number, spelled in digits",
    ("v2.session.events", "query.live: added"): "API-433: live events on request",
    ("v2.session.events", "query.replay: added"): "API-461: only new events on request",
}


class Document:
    def __init__(self, source: dict[str, Any]) -> None:
        self.schemas = source["components"]["schemas"]
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, methods in source["paths"].items()
            for method, operation in methods.items()
        }

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        return schema

    def options(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """The members of a union, nested ones included; a plain schema is a union of one."""
        schema = self.resolve(schema)
        if isinstance(schema.get("type"), list):
            return [{**schema, "type": kind} for kind in schema["type"]]
        parts = schema.get("anyOf") or schema.get("oneOf")
        return [option for part in parts for option in self.options(part)] if parts else [schema]


def kind_of(option: dict[str, Any]) -> str:
    if "enum" in option:
        return "literal"
    if "properties" in option or "additionalProperties" in option:
        return "object"
    kind = str(option.get("type", "any"))
    return "number" if kind == "integer" else kind


def tag_of(document: Document, option: dict[str, Any]) -> tuple[str, ...]:
    """What tells the objects of a union apart: their literals."""
    properties = option.get("properties", {})
    found = []
    for name in sorted(properties):
        choices = document.resolve(properties[name]).get("enum")
        if choices and len(choices) == 1 and isinstance(choices[0], str):
            found.append(f"{name}={choices[0]}")
    return tuple(found)


def literals(options: list[dict[str, Any]]) -> set[str]:
    """A number that may also be infinite is a number."""
    found = {str(value) for option in options for value in option.get("enum", ())}
    return found - {"NaN", "Infinity", "-Infinity"}


def compare(
    theirs: Document, contract: dict[str, Any], ours: Document, own: dict[str, Any], place: str, depth: int = 0
) -> Iterator[str]:
    expected, found = theirs.options(contract), ours.options(own)
    if depth > 12 or (expected == [{}] and found == [{}]):
        return
    if literals(expected) != literals(found):
        yield f"{place}: {sorted(literals(found))} instead of {sorted(literals(expected))}"
    kinds = {kind_of(option) for option in expected} - {"literal"}
    own_kinds = {kind_of(option) for option in found} - {"literal"}
    if kinds != own_kinds:
        yield f"{place}: {sorted(own_kinds)} instead of {sorted(kinds)}"
    for one, other in _arrays(expected, found):
        yield from compare(theirs, one["items"], ours, other["items"], f"{place}[]", depth + 1)
    objects = {tag_of(theirs, option): option for option in expected if kind_of(option) == "object"}
    own_objects = {tag_of(ours, option): option for option in found if kind_of(option) == "object"}
    if len(objects) == 1 and len(own_objects) == 1:
        objects, own_objects = {(): next(iter(objects.values()))}, {(): next(iter(own_objects.values()))}
    for tag in sorted({*objects, *own_objects}):
        name = f"{place}<{','.join(tag)}>" if tag else place
        if tag not in own_objects or tag not in objects:
            yield f"{name}: {'missing' if tag in objects else 'added'}"
        else:
            yield from _compare_objects(theirs, objects[tag], ours, own_objects[tag], name, depth)


def _arrays(expected: list[Any], found: list[Any]) -> Iterator[tuple[Any, Any]]:
    arrays = [option for option in expected if option.get("type") == "array" and "items" in option]
    own = [option for option in found if option.get("type") == "array" and "items" in option]
    yield from zip(arrays, own, strict=False)


def _compare_objects(
    theirs: Document, contract: dict[str, Any], ours: Document, own: dict[str, Any], place: str, depth: int
) -> Iterator[str]:
    expected, found = contract.get("properties", {}), own.get("properties", {})
    for name in sorted({*expected, *found}):
        at = f"{place}.{name}"
        if name not in found or name not in expected:
            yield f"{at}: {'missing' if name in expected else 'added'}"
            continue
        if (name in contract.get("required", ())) != (name in own.get("required", ())):
            yield f"{at}: {'required' if name in own.get('required', ()) else 'optional'}"
        yield from compare(theirs, expected[name], ours, found[name], at, depth + 1)


def differences(theirs: Document, ours: Document, operation: str) -> Iterator[str]:
    method, path, contract = theirs.operations[operation]
    if operation not in ours.operations:
        yield "operation: missing"
        return
    own_method, own_path, own = ours.operations[operation]
    if (method, path) != (own_method, own_path):
        yield f"path: {own_method} {own_path}"
    for place in ("path", "query"):
        expected = {item["name"]: item for item in contract.get("parameters", ()) if item["in"] == place}
        found = {item["name"]: item for item in own.get("parameters", ()) if item["in"] == place}
        for name in sorted({*expected, *found}):
            if name not in expected or name not in found:
                yield f"{place}.{name}: {'missing' if name in expected else 'added'}"
                continue
            shape = ("required", "style", "explode")
            if [expected[name].get(key, False) for key in shape] != [found[name].get(key, False) for key in shape]:
                yield f"{place}.{name}: other form"
            yield from compare(theirs, expected[name]["schema"], ours, found[name]["schema"], f"{place}.{name}")
    bodies = [item.get("requestBody", {}).get("content", {}) for item in (contract, own)]
    yield from _compare_content(theirs, bodies[0], ours, bodies[1], "payload")
    for status in sorted({*contract["responses"], *own["responses"]}):
        if status not in own["responses"] or status not in contract["responses"]:
            yield f"{status}: {'missing' if status in contract['responses'] else 'added'}"
            continue
        contents = [item["responses"][status].get("content", {}) for item in (contract, own)]
        yield from _compare_content(theirs, contents[0], ours, contents[1], status)


def _compare_content(
    theirs: Document, contract: dict[str, Any], ours: Document, own: dict[str, Any], place: str
) -> Iterator[str]:
    if set(contract) != set(own):
        yield f"{place}: {sorted(own)} instead of {sorted(contract)}"
    for kind in sorted({*contract} & {*own}):
        yield from compare(theirs, contract[kind]["schema"], ours, own[kind]["schema"], place)


def all_differences() -> list[tuple[str, str]]:
    theirs, ours = Document(json.loads(OPENCODE.read_text(encoding="utf-8"))), Document(document())
    return [(operation, text) for operation in theirs.operations for text in differences(theirs, ours, operation)]


def explained(operation: str, difference: str) -> bool:
    return any(fnmatchcase(operation, which) and fnmatchcase(difference, what) for which, what in DIFFERENCES)


def test_the_operations_of_the_contract_are_these() -> None:
    """API-001, API-022, API-321: names, methods, paths and statuses, as tests/fixtures lists them."""
    extensions = {endpoint.operation for endpoint in API if endpoint.extension}
    found = [
        f"{name} {method.upper()} {path} {' '.join(sorted(operation['responses']))}"
        for name, (method, path, operation) in sorted(Document(document()).operations.items())
        if name not in extensions
    ]

    assert found == (FIXTURES / "operations.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.recorded
def test_every_difference_from_the_contract_is_in_the_table() -> None:
    """API-001, API-020, API-022, API-023, API-215, API-321: methods, paths, parameters, payloads, envelopes, errors and
    events of every contract operation."""
    found = all_differences()

    assert [f"{operation} {text}" for operation, text in found if not explained(operation, text)] == []


@pytest.mark.recorded
def test_the_table_has_no_idle_entry() -> None:
    """API-321: what no longer differs leaves the table."""
    found = all_differences()

    idle = [
        entry
        for entry in DIFFERENCES
        if not any(fnmatchcase(operation, entry[0]) and fnmatchcase(text, entry[1]) for operation, text in found)
    ]
    assert idle == []


def test_extensions_are_marked_and_leave_the_contract_alone() -> None:
    """API-012: on paths of their own, in names of their own."""
    operations = Document(document()).operations
    marked = {name for name, (_, _, operation) in operations.items() if operation.get(EXTENSION)}

    assert marked == {endpoint.operation for endpoint in API if endpoint.extension}
    assert all(name.startswith("holdfast.") for name in marked - OF_THE_NEXT_GENERATION)
    assert marked >= OF_THE_NEXT_GENERATION
    assert all(name.startswith("v2.") for name in operations.keys() - marked)
    assert {"holdfast.session.pending", "holdfast.session.move", "holdfast.metrics.read"} <= marked


def test_the_location_is_one_deep_parameter() -> None:
    """API-031: `location[directory]` and `location[workspace]` are its parts; session routes have none (API-033),
    except those of forms, which may belong to no Session (API-617)."""
    for endpoint in API:
        _, _, operation = Document(document()).operations[endpoint.operation]
        found = [item for item in operation["parameters"] if item["name"] == "location"]
        assert len(found) == (endpoint.scope in (EndpointScope.LOCATION, EndpointScope.FORM))
        for parameter in found:
            schema = Document(document()).resolve(parameter["schema"])
            assert (parameter["style"], parameter["explode"], set(schema["properties"])) == (
                "deepObject",
                True,
                {"directory", "workspace"},
            )


def test_every_reference_leads_somewhere_and_names_no_module() -> None:
    """API-319: the document depends on no internal module path."""
    text = json.dumps(document())
    referenced = {part.split('"', 1)[0] for part in text.split("#/components/schemas/")[1:]}

    assert referenced <= set(document()["components"]["schemas"])
    assert "holdfast.schema" not in text
