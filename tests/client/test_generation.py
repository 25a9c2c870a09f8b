"""Generated code follows the protocol, and generation refuses what it cannot express."""

from __future__ import annotations

import inspect
import sys
import typing
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.client import generate
from holdfast.client.call import Operation
from holdfast.client.codegen.contract import GenerationError, compile_contract
from holdfast.client.codegen.python import emit_python
from holdfast.client.codegen.typescript import emit_typescript
from holdfast.client.codegen.writer import MANIFEST, GeneratedFiles, RefusedPath, drift, write
from holdfast.client.generated import async_client, guards, operations, sync_client
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.schema.record import Record
from holdfast.server.routes import Routes


class Name(Record):
    name: str


class Text(Record):
    name: str | None = None


class PathOnly(Record):
    path: str


class Reserved(Record):
    options: str


class Untagged(Record):
    message: str


def endpoint(path: str = "/api/thing", **more: Any) -> Endpoint:
    known = {
        "role": "read",
        "group": "things",
        "name": "get",
        "operation": "v2.thing.get",
        "method": "POST",
        "summary": "One.",
    }
    return Endpoint(**{**known, "path": path, "envelope": Envelope.VOID, **more})


def test_the_committed_clients_are_what_the_protocol_gives() -> None:
    """API-300, API-301, API-306, API-316: all three, twice in a row, from the very data that the server routes."""
    for output in generate.outputs():
        assert drift(output) == []
    assert generate.outputs() == generate.outputs()
    routed = Routes(API)
    for group in generate.contract().groups.values():
        for operation in group:
            path = operation.path.replace("{", "").replace("}", "")
            found, _, _ = routed.find(operation.method, path.encode())
            assert (found.group, found.name, found.path) == (operation.group, operation.name, operation.path)


def test_every_endpoint_is_in_both_python_clients_and_in_the_typescript_one() -> None:
    """API-300, API-301, API-302, API-430: the same surface everywhere, nothing forgotten."""
    script = emit_typescript(generate.contract())
    for endpoint in API:
        for module, client in ((async_client, "AsyncClient"), (sync_client, "Client")):
            assert client in vars(module)
            group = getattr(module, "".join(word.capitalize() for word in endpoint.group.split("_")) + "Group", None)
            assert hasattr(group, endpoint.name), endpoint.operation
        path = f'path: "{endpoint.path}"'
        lines = [line for line in script["client.js"].splitlines() if path in line]
        assert any(f'method: "{endpoint.method}"' in line for line in lines), endpoint.operation


def test_both_python_clients_take_and_give_the_same() -> None:
    """API-301: an argument or a result that only one of them has would be drift."""
    for name, group in vars(async_client).items():
        if not name.endswith("Group"):
            continue
        twin = vars(sync_client)[name]
        for method, function in inspect.getmembers(group, inspect.isfunction):
            ours, theirs = inspect.signature(function), inspect.signature(getattr(twin, method))
            if method == "__init__":
                continue
            assert list(ours.parameters.values()) == list(theirs.parameters.values())
            same = str(theirs.return_annotation).replace("SyncStream", "Stream").replace("SyncPty", "Pty")
            assert same == ours.return_annotation
            assert not inspect.iscoroutinefunction(getattr(twin, method))


def test_the_check_fails_on_drift_in_any_generated_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """API-306: what CI runs fails on any difference, writes nothing, and generation repairs it."""
    monkeypatch.setattr(generate, "PACKAGE", tmp_path / "client")
    monkeypatch.setattr(generate, "REPOSITORY", tmp_path)
    places = [tmp_path / "client" / "generated", tmp_path / "clients" / "typescript"]

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["generate", *arguments])
        return generate.main()

    assert run("--check") == 1
    assert "make generate" in capsys.readouterr().err
    assert not any(place.exists() for place in places)
    assert (run(), run("--check")) == (0, 0)
    for name in ("generated/sync_client.py", "generated/async_client.py", "generated/guards.py"):
        (tmp_path / "client" / name).write_text("changed", encoding="utf-8")
        assert (run("--check"), run(), run("--check")) == (1, 0, 0)
    for name in ("client.js", "client.d.ts"):
        (places[1] / name).unlink()
        assert (run("--check"), run(), run("--check")) == (1, 0, 0)


def test_only_own_files_are_ever_deleted(tmp_path: Path) -> None:
    """API-306: what the manifest lists and generation no longer makes goes; a neighbour stays."""
    write(GeneratedFiles(tmp_path, {"a.py": "a", "b.py": "b"}))
    (tmp_path / "mine.py").write_text("mine", encoding="utf-8")
    now = GeneratedFiles(tmp_path, {"a.py": "a"})
    assert drift(now) == ["b.py", MANIFEST]
    write(now)

    assert drift(now) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", MANIFEST, "mine.py"]


@pytest.mark.parametrize("name", ["../a.py", "/etc/a", "x/a.py", "..", "", MANIFEST])
@pytest.mark.parametrize("listed", [False, True])
def test_generation_stays_in_its_folder(tmp_path: Path, name: str, listed: bool) -> None:
    """API-306: neither a file to write nor one that a manifest lists may lead elsewhere."""
    folder = tmp_path / "generated"
    folder.mkdir()
    if listed:
        (folder / MANIFEST).write_text(f"{name}\n" if name else "\n", encoding="utf-8")
    with pytest.raises(RefusedPath):
        write(GeneratedFiles(folder, {} if listed else {name: "x"}))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["generated"]


def test_generation_writes_through_no_symbolic_link(tmp_path: Path) -> None:
    """API-306: not through a file, not through the folder."""
    victim = tmp_path / "victim.py"
    victim.write_text("precious", encoding="utf-8")
    folder = tmp_path / "generated"
    folder.mkdir()
    (folder / "a.py").symlink_to(victim)
    (tmp_path / "linked").symlink_to(folder)
    for place, name in ((folder, "a.py"), (tmp_path / "linked", "b.py")):
        with pytest.raises(RefusedPath):
            write(GeneratedFiles(place, {name: "x"}))

    assert victim.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("endpoints", "reason"),
    [
        ((endpoint("/api/one"), endpoint("/api/other")), r"two operations are called things\.get"),
        ((endpoint(group="Things"),), "'Things' is no name"),
        ((endpoint(name="import"),), "'import' is no name"),
        ((endpoint(name="a-b"),), "'a-b' is no name"),
        ((endpoint(group="tools"),), "a member tools of its own"),
        ((endpoint("/api/thing/*"),), "wildcard takes the one parameter"),
        ((endpoint("/api/*/thing", params=PathOnly),), "wildcard takes the one parameter"),
        ((endpoint("/api/thing/*", params=Name),), "wildcard takes the one parameter"),
        ((endpoint("/api/thing/{rest...}"),), "wildcard"),
        ((endpoint("/api/thing/{name}"),), "differ"),
        ((endpoint("/api/thing", params=Name),), "differ"),
        ((endpoint(errors=(Untagged,)),), "Untagged has no literal _tag"),
        ((endpoint("/api/{name}", params=Name, query=Text),), "two channels"),
        ((endpoint("/api/{name}", params=Name, payload=Text),), "two channels"),
        ((endpoint(query=Name, payload=Text),), "two channels"),
        ((endpoint(payload=Reserved),), "called options"),
    ],
)
def test_generation_refuses_by_name_what_no_client_can_express(endpoints: tuple[Endpoint, ...], reason: str) -> None:
    """API-303, API-305: generation fails, and says where and why."""
    with pytest.raises(GenerationError, match=reason):
        compile_contract(endpoints)


def test_a_type_that_has_no_wire_form_is_refused() -> None:
    """API-305: a transformation that the light emitter cannot reproduce; the rich one imports the type."""
    contract = compile_contract((endpoint(envelope=Envelope.DATA, success=Fraction),))

    assert "from fractions import Fraction" in emit_python(contract)["operations.py"]
    with pytest.raises(GenerationError, match="CustomType"):
        emit_typescript(contract)


def test_two_records_of_one_name_keep_apart() -> None:
    """API-301, API-320: the failure has the name of its tag, the record gets its module's in front."""
    declarations = emit_typescript(generate.contract())["client.d.ts"]

    assert "export interface UnknownError extends Error {" in declarations
    assert "export interface SessionMessageUnknownError {" in declarations
    assert declarations.count("export type Event =") == 1


def parameters(function: object) -> dict[str, bool]:
    """Names of the arguments, and whether each may be left out."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return {
        name: parameter.default is not inspect.Parameter.empty
        for name, parameter in signature.parameters.items()
        if name != "self"
    }


def test_inputs_are_flat_and_required_only_when_they_must_be() -> None:
    """API-303, API-308: no fields, no argument; options are apart."""
    sessions = async_client.SessionsGroup
    optional = dict.fromkeys(("id", "agent", "model", "location", "budget", "options"), True)

    assert parameters(async_client.HealthGroup.get) == {"options": True}
    assert parameters(sessions.get) == {"session_id": False, "options": True}
    assert parameters(sessions.create) == optional
    assert parameters(sessions.command) == {
        "session_id": False,
        "command": False,
        **dict.fromkeys(("id", "arguments", "agent", "model", "files", "agents", "skills"), True),
        **dict.fromkeys(("resolve", "delivery", "resume", "options"), True),
    }


def test_results_are_what_the_envelope_promises() -> None:
    """API-304, API-225: `{data}` is unwrapped, the others stay, 204 is None, a stream comes without awaiting."""
    sessions = async_client.SessionsGroup
    returned = {
        name: inspect.signature(getattr(sessions, name)).return_annotation
        for name in ("get", "list", "history", "wait", "events", "active")
    }

    assert returned == {
        "get": "Session",
        "list": "Page[Session]",
        "history": "History",
        "wait": "None",
        "events": "Stream[Event]",
        "active": "builtins.dict[str, SessionActive]",
    }
    assert inspect.signature(async_client.AgentsGroup.list).return_annotation == "Located[builtins.list[Agent]]"
    assert not inspect.iscoroutinefunction(sessions.events)
    assert inspect.iscoroutinefunction(sessions.get)


GROUPS = (
    *("health", "location", "agents", "sessions", "models", "providers", "integrations", "credentials", "permissions"),
    *("files", "commands", "skills", "events", "ptys", "questions", "references", "project_copies"),
)


def test_groups_have_their_consumer_names() -> None:
    """API-302: declared, plural, and messages belong to sessions."""
    groups = set(generate.contract().groups)

    assert groups >= set(GROUPS)
    assert {"messages", "message"} <= {operation.name for operation in generate.contract().groups["sessions"]}
    assert "projectCopies: {" in emit_typescript(generate.contract())["client.js"]


def test_every_declared_failure_has_a_guard() -> None:
    """API-310: by code; the class does not count."""

    class Foreign(Exception):
        code = "SessionNotFoundError"

    named = {failure.tag for failure in generate.contract().failures}
    assert named >= {"SessionNotFoundError", "ProjectCopyError", "UnauthorizedError"}
    assert guards.is_session_not_found(Foreign())
    assert not guards.is_message_not_found(Foreign())
    assert not guards.is_session_not_found(KeyError("SessionNotFoundError"))


def records(kind: Any, found: set[type[msgspec.Struct]]) -> set[type[msgspec.Struct]]:
    """Every record that a type is made of."""
    for argument in typing.get_args(kind):
        records(argument, found)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.add(kind)
        for hint in typing.get_type_hints(kind).values():
            records(hint, found)
    return found


def test_public_records_are_plain_immutable_data() -> None:
    """API-320: fields and values read from them only, frozen, compared by value."""
    public: set[type[msgspec.Struct]] = set()
    for operation in vars(operations).values():
        if isinstance(operation, Operation):
            records(operation.kind, public)
    assert len(public) > 40
    for kind in public:
        config = kind.__struct_config__
        assert (config.frozen, config.eq) == (True, True), kind
        own = {name for name in vars(kind) if not name.startswith("_")}
        assert own <= {*kind.__struct_fields__, "status", "durable", "type", "text"}, kind


def test_inputs_of_a_call_are_typed_by_their_channel() -> None:
    """API-300: each input knows where it goes."""
    (list_files,) = [one for one in generate.contract().groups["files"] if one.name == "find"]
    channels = {given.wire: given.channel for given in list_files.inputs}

    assert (channels["location"], channels["query"]) == ("query", "query")
    (reply,) = [one for one in generate.contract().groups["permissions"] if one.name == "reply"]
    assert [(given.wire, given.channel, given.required) for given in reply.inputs[:3]] == [
        ("sessionID", "params", True),
        ("requestID", "params", True),
        ("reply", "payload", True),
    ]
