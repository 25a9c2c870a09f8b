"""Makes a manifest of the lists of a server: sorted, bounded, with the same bytes for the same lists.

Everything in it is text of a stranger. What is too long is shortened, what cannot be used is left out and named."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.mcp.seam import (
    Manifest,
    ManifestArgument,
    ManifestPrompt,
    ManifestResource,
    ManifestTemplate,
    ManifestTool,
)
from holdfast.core.mcp.stranger_text import printable
from holdfast.llm.schema_check import SchemaProblem, check_structure
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.mcp.catalog import Listing, Prompt, Resource, ResourceTemplate, Tool

MOST_TOOLS = 1000
MOST_PROMPTS = 500
MOST_RESOURCES = 1000
MOST_ARGUMENTS = 50
NAME_CHARACTERS = 200
ADDRESS_CHARACTERS = 2000
DESCRIPTION_BYTES = 4096
INSTRUCTIONS_BYTES = 16 * 1024
TOOLS_BYTES = 4 * 1024 * 1024
"""Of all tools together."""
MOST_PROBLEMS = 20
SHOWN_CHARACTERS = 200

TEXTS = frozenset(("$comment", "description", "title"))
VALUES = frozenset(("const", "default", "enum", "examples"))
NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Keywords of a schema: with text, with values, and with schemas by name."""

_DECODER = msgspec.json.Decoder(Manifest)


class Lists(Frozen):
    """What a server said it offers, as it was read."""

    instructions: str | None
    tools: Listing[Tool]
    prompts: Listing[Prompt]
    resources: Listing[Resource]
    templates: Listing[ResourceTemplate]


class MadeManifest(Frozen):
    manifest: Manifest
    hash: str
    data: bytes
    problems: tuple[str, ...]
    """What was left out or shortened, for a person."""


def make_manifest(lists: Lists) -> MadeManifest:
    problems = _Problems()
    problems.of_listings(tools=lists.tools, prompts=lists.prompts, resources=lists.resources, templates=lists.templates)
    manifest = Manifest(
        instructions=_shortened(lists.instructions, INSTRUCTIONS_BYTES),
        tools=_tools(lists.tools.items, problems),
        prompts=tuple(
            sorted(
                map(_prompt, _named(lists.prompts.items, "prompts", MOST_PROMPTS, problems)),
                key=lambda prompt: prompt.name,
            )
        ),
        resources=tuple(
            sorted(
                map(_resource, _addressed(lists.resources.items, "resources", problems)),
                key=lambda resource: resource.uri,
            )
        ),
        templates=tuple(
            sorted(
                map(_template, _addressed(lists.templates.items, "templates", problems)),
                key=lambda template: template.uri_template,
            )
        ),
    )
    data = canonical(manifest)
    # Read back, so that schemas have the order of the stored bytes: another process offers the same bytes to a model.
    return MadeManifest(_DECODER.decode(data), hashlib.sha256(data).hexdigest(), data, problems.listed())


def canonical(manifest: Manifest) -> bytes:
    """Equal manifests have equal bytes."""
    return msgspec.json.encode(manifest, order="sorted")


class _Problems:
    def __init__(self) -> None:
        self._found: list[str] = []
        self._more = 0

    def add(self, problem: str) -> None:
        if len(self._found) < MOST_PROBLEMS:
            self._found.append(problem)
        else:
            self._more += 1

    def left_out(self, what: str, name: str, why: str) -> None:
        self.add(f"the {what} {_shown(name)} is left out: {_shown(why)}")

    def of_listings(self, **listings: Listing[Any]) -> None:
        for kind, listing in listings.items():
            if listing.incomplete is not None:
                self.add(f"the list of {kind} is not complete: {_shown(listing.incomplete)}")
            for rejected in listing.rejected:
                self.left_out(kind.removesuffix("s"), rejected.name or "without a name", rejected.reason)

    def listed(self) -> tuple[str, ...]:
        return (*self._found, f"and {self._more} more") if self._more else tuple(self._found)


def _tools(tools: Iterable[Tool], problems: _Problems) -> tuple[ManifestTool, ...]:
    found: list[ManifestTool] = []
    left = TOOLS_BYTES
    for tool in _named(tools, "tools", MOST_TOOLS, problems):
        made = _tool(tool, problems)
        if made is None:
            continue
        left -= len(msgspec.json.encode(made))
        if left < 0:
            problems.add(
                f"the list of tools is cut after {len(found)}: all together have more than {TOOLS_BYTES} bytes"
            )
            break
        found.append(made)
    return tuple(sorted(found, key=lambda tool: tool.name))


def _tool(tool: Tool, problems: _Problems) -> ManifestTool | None:
    schema = tool.input_schema
    try:
        if schema.get("type", "object") != "object":
            raise SchemaProblem("$.type", "the arguments are no object")
        check_structure(schema)
    except (SchemaProblem, RecursionError) as problem:
        problems.left_out("tool", tool.name, f"its schema cannot be used: {problem}")
        return None
    output = tool.output_schema
    if output is not None:
        try:
            check_structure(output)
        except (SchemaProblem, RecursionError) as problem:
            problems.add(f"the output schema of the tool {_shown(tool.name)} is not used: {_shown(str(problem))}")
            output = None
    annotations = tool.annotations
    return ManifestTool(
        name=tool.name,
        input_schema=_readable(schema),
        title=_title(tool.title or (annotations.title if annotations is not None else None)),
        description=_shortened(tool.description, DESCRIPTION_BYTES),
        output_schema=output,
        annotations=_hints(annotations),
    )


def _readable(schema: Any) -> Any:
    """The texts in a schema without characters that are not seen. Names and values stay as they are sent."""
    if isinstance(schema, list):
        return [_readable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {keyword: _readable_value(keyword, value) for keyword, value in schema.items()}


def _readable_value(keyword: str, value: Any) -> Any:
    if keyword in VALUES:
        return value
    if keyword in TEXTS and isinstance(value, str):
        return printable(value)
    if keyword in NAMED and isinstance(value, dict):
        return {name: _readable(schema) for name, schema in value.items()}
    return _readable(value)


def _hints(annotations: Any) -> dict[str, Any] | None:
    found = {key: value for key, value in msgspec.to_builtins(annotations or {}).items() if isinstance(value, bool)}
    return found or None


def _prompt(prompt: Prompt) -> ManifestPrompt:
    return ManifestPrompt(
        name=prompt.name,
        title=_title(prompt.title),
        description=_shortened(prompt.description, DESCRIPTION_BYTES),
        arguments=tuple(
            ManifestArgument(
                name=argument.name[:NAME_CHARACTERS],
                title=_title(argument.title),
                description=_shortened(argument.description, DESCRIPTION_BYTES),
                required=bool(argument.required),
            )
            for argument in (prompt.arguments or [])[:MOST_ARGUMENTS]
        ),
    )


def _resource(resource: Resource) -> ManifestResource:
    return ManifestResource(
        uri=resource.uri,
        name=resource.name[:NAME_CHARACTERS],
        title=_title(resource.title),
        description=_shortened(resource.description, DESCRIPTION_BYTES),
        mime_type=resource.mime_type[:NAME_CHARACTERS] if resource.mime_type else None,
        size=resource.size if resource.size is not None and 0 <= resource.size < 2**53 else None,
    )


def _template(template: ResourceTemplate) -> ManifestTemplate:
    return ManifestTemplate(
        uri_template=template.uri_template,
        name=template.name[:NAME_CHARACTERS],
        title=_title(template.title),
        description=_shortened(template.description, DESCRIPTION_BYTES),
        mime_type=template.mime_type[:NAME_CHARACTERS] if template.mime_type else None,
    )


def _named(entries: Iterable[Any], kind: str, most: int, problems: _Problems) -> list[Any]:
    """Those whose name can be shown and sent back as it is, up to a number."""
    found: list[Any] = []
    for entry in entries:
        if not entry.name or len(entry.name) > NAME_CHARACTERS or not entry.name.isprintable():
            problems.left_out(kind.removesuffix("s"), entry.name, "its name is empty, too long or not printable")
        elif len(found) == most:
            problems.add(f"the list of {kind} is cut after {most}")
            break
        else:
            found.append(entry)
    return found


def _addressed(entries: Iterable[Any], kind: str, problems: _Problems) -> list[Any]:
    found: list[Any] = []
    for entry in entries:
        address = entry.uri if kind == "resources" else entry.uri_template
        if not address or len(address) > ADDRESS_CHARACTERS or not address.isprintable():
            problems.left_out(kind.removesuffix("s"), address, "its address is empty, too long or not printable")
        elif len(found) == MOST_RESOURCES:
            problems.add(f"the list of {kind} is cut after {MOST_RESOURCES}")
            break
        else:
            found.append(entry)
    return found


def _title(text: str | None) -> str | None:
    return text[:NAME_CHARACTERS] if text else None


def _shortened(text: str | None, limit: int) -> str | None:
    if not text:
        return None
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return f"{data[: limit - 3].decode('utf-8', 'ignore')}…"


def _shown(text: str) -> str:
    short = "".join(c if c.isprintable() else " " for c in text[:SHOWN_CHARACTERS])
    return f"{short}…" if len(text) > SHOWN_CHARACTERS else short
