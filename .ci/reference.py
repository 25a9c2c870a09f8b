"""Writes the reference pages `docs/reference/*.md` from the code: `python .ci/reference.py [--check]`.

With `--check` it writes nothing and fails when a page differs from what the code says."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click
import msgspec

import holdfast
import holdfast.testing
from holdfast.cli.main import cli
from holdfast.core.config import holdfast_schema
from holdfast.core.config import schema as config_schema
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.schema.session_message import SessionMessage
from holdfast.schema.typed_event import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by `make generate`; do not edit. -->\n"
HELP_COLUMNS = 100


def main() -> int:
    pages = {
        "cli.md": cli_page(),
        "http.md": http_page(),
        "python.md": python_page(),
        "configuration.md": configuration_page(),
    }
    stale = [name for name, text in pages.items() if not _is_current(FOLDER / name, text)]
    if "--check" in sys.argv:
        if stale:
            sys.stderr.write(f"docs/reference: {', '.join(stale)} not up to date; run `make generate`\n")
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(pages[name], encoding="utf-8")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def cli_page() -> str:
    lines = ["# Command line", NOTE, "`python -m holdfast` is the same program as `holdfast`.", ""]
    for name, command, context in _commands(cli, click.Context(cli, info_name="holdfast", **_HELP)):
        lines += [f"## {name}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return _page(lines)


_HELP: dict[str, Any] = {"max_content_width": HELP_COLUMNS, "terminal_width": HELP_COLUMNS}


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, click.Context(found, parent=context, info_name=name, **_HELP))


ENVELOPES = {
    Envelope.BARE: "{}",
    Envelope.DATA: "{{data: {}}}",
    Envelope.LOCATION: "{{location, data: {}}}",
    Envelope.PAGE: "{{data: list[{}], cursor: {{previous, next}}}}",
    Envelope.HISTORY: "{{data: list[{}], hasMore}}",
    Envelope.VOID: "204, no body",
    Envelope.STREAM: "server-sent events, each a {}",
    Envelope.RAW: "bytes",
}


def http_page() -> str:
    lines = [
        "# HTTP API",
        NOTE,
        "Every operation, under the name that clients use: `sessions.prompt` is `client.sessions.prompt(...)` in",
        "Python and TypeScript. A running server describes them with all schemas in `GET /openapi.json`.",
        "An *extension* is an operation that OpenCode's API does not have. Every operation can also fail with",
        "`InvalidRequestError` and `UnauthorizedError`.",
        "",
    ]
    for group, endpoints in groupby(sorted(API, key=lambda endpoint: endpoint.group), key=lambda each: each.group):
        lines += [f"## {group}", ""]
        for endpoint in endpoints:
            lines += _operation(endpoint)
    return _page(lines)


def _operation(endpoint: Endpoint) -> list[str]:
    lines = [
        f"### {endpoint.group}.{endpoint.name}",
        "",
        f"`{endpoint.method} {endpoint.path}`"
        + (" (extension)" if endpoint.extension else "")
        + f", role `{endpoint.role}`",
        "",
        endpoint.summary,
        "",
    ]
    for title, record in (("path", endpoint.params), ("query", endpoint.query), ("body", endpoint.payload)):
        if record is not None and (fields := msgspec.structs.fields(record)):
            lines += [f"- {title}: {', '.join(map(_field, fields))}"]
    lines += [f"- answer: `{ENVELOPES[endpoint.envelope].format(_type_name(endpoint.success))}`"]
    if endpoint.errors:
        lines += [f"- fails with: {', '.join(f'`{error.__name__}`' for error in endpoint.errors)}"]
    return [*lines, ""]


def _field(field: msgspec.structs.FieldInfo) -> str:
    return f"`{field.encode_name}`" + ("" if field.required else " (optional)")


def _type_name(kind: Any) -> str:
    if get_origin(kind) is None:
        return getattr(kind, "__name__", str(kind))
    text = _without_modules(kind)
    for name, union in {"SessionMessage": SessionMessage, "Event": Event}.items():
        text = text.replace(_without_modules(union), name)
    return text


def _without_modules(kind: Any) -> str:
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", str(kind))


def python_page() -> str:
    lines = [
        "# Python API",
        NOTE,
        "What `holdfast` and `holdfast.testing` export. The operations, such as `hf.sessions.prompt`, are listed",
        "in the [HTTP API](http.md).",
        "",
    ]
    for name in sorted(holdfast.__all__, key=str.lower):
        lines += _exported(name, getattr(holdfast, name))
    for name in sorted(holdfast.testing.__all__):
        lines += _exported(f"testing.{name}", getattr(holdfast.testing, name))
    return _page(lines)


def _exported(name: str, thing: Any) -> list[str]:
    if inspect.isclass(thing):
        return _class(name, thing)
    if inspect.isfunction(thing):
        return [f"## {name}", "", *_function(_source(thing)), *_documented(thing)]
    return [f"## {name}", "", f"`{thing!r}`", ""] if name != "__version__" else []


def _class(name: str, kind: type) -> list[str]:
    lines = [f"## {name}", "", *_documented(kind)]
    source = _source(kind)
    assert isinstance(source, ast.ClassDef)
    notes = _field_notes(source)
    fields = [node for node in source.body if isinstance(node, ast.AnnAssign) and not _is_tag(node)]
    public = {ast.unparse(field.target): ast.unparse(field) for field in fields}
    if public:
        lines += [f"- `{text}`" + _sentence(notes.get(key)) for key, text in public.items() if key[0] != "_"] + [""]
    for node in source.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if _is_property(node):
            lines += [f"- `{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}`"]
            lines[-1] += _sentence(" ".join((ast.get_docstring(node) or "").split()) or None)
            lines += [""]
        elif node.name == "__init__" or not node.name.startswith("_"):
            lines += [*_function(node, owner=name), *_documented(getattr(kind, node.name))]
    return lines


def _is_tag(field: ast.AnnAssign) -> bool:
    """Whether the field only repeats what kind of record it is."""
    return ast.unparse(field.annotation).startswith("ClassVar[Literal[")


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(name, ast.Name) and name.id == "property" for name in node.decorator_list)


def _field_notes(source: ast.ClassDef) -> dict[str, str]:
    """The string below each field, which says what it means."""
    notes = {}
    for node, following in pairwise(source.body):
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                notes[name] = " ".join(text.split())
    return notes


def _sentence(note: str | None) -> str:
    return f": {note}" if note else ""


def _source(thing: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _function(node: ast.stmt, *, owner: str | None = None) -> list[str]:
    """The signature as it is written, one parameter a line when it is long."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = list(_parameters(node.args, skip_first=owner is not None and not node.decorator_list))
    name = owner if node.name == "__init__" else f"{owner}.{node.name}" if owner else node.name
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) and not _yields(node) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    signature = f"{prefix}{name}({', '.join(parameters)}){returns}"
    if len(signature) > HELP_COLUMNS:
        signature = "\n".join([f"{prefix}{name}(", *(f"    {parameter}," for parameter in parameters), f"){returns}"])
    return ["```text", signature, "```", ""]


def _parameters(arguments: ast.arguments, *, skip_first: bool) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    yield from list(map(_parameter, positional, defaults))[1 if skip_first else 0 :]
    if arguments.kwonlyargs:
        yield "*"
        yield from map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def _yields(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Yield) for child in ast.walk(node))


def _documented(thing: Any) -> list[str]:
    text = inspect.getdoc(thing) if getattr(thing, "__doc__", None) else None
    return [text, ""] if text else []


def configuration_page() -> str:
    schema = holdfast.Holdfast.config_schema()
    parts: dict[str, Any] = schema["$defs"]
    lines = [
        "# Configuration",
        NOTE,
        "The keys of `opencode.json` and `opencode.jsonc`, in your own folder (`~/.config/opencode`) and in a project.",
        "Every key may be left out. `holdfast config schema` prints the same as a JSON Schema, for an editor;",
        "`holdfast config check` names what has no effect. Files in OpenCode's older format are read too.",
        "",
    ]
    for name in ["ConfigFile", *sorted(set(parts) - {"ConfigFile"})]:
        part = parts[name]
        lines += ["## The file" if name == "ConfigFile" else f"## {name}", ""]
        lines += [part["description"], ""] if "description" in part and name != "ConfigFile" else []
        source = _source(getattr(config_schema if hasattr(config_schema, name) else holdfast_schema, name))
        assert isinstance(source, ast.ClassDef)
        notes = _field_notes(source)
        lines += ["| key | type | |", "| --- | --- | --- |"]
        for key, value in part.get("properties", {}).items():
            lines += [f"| `{key}` | {_json_type(value)} | {notes.get(key, '')} |"]
        lines += [""]
    return _page(lines)


def _json_type(schema: dict[str, Any]) -> str:
    match schema:
        case {"anyOf": choices}:
            return " or ".join(_json_type(choice) for choice in choices if choice != {"type": "null"})
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_json_type(items)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"object of {_json_type(values)}" if values else "object"
        case {"type": kind}:
            return str(kind)
        case _:
            return "any"


def _page(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
