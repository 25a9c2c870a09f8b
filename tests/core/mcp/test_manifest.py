"""Manifests of MCP servers: canonical, bounded."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.mcp import manifest
from holdfast.core.mcp.manifest import Lists, MadeManifest, canonical, make_manifest
from holdfast.core.mcp.seam import Manifest
from holdfast.mcp.catalog import Listing, Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolAnnotations

OBJECT: dict[str, Any] = {"type": "object"}


def made(
    *tools: Tool,
    instructions: str | None = None,
    prompts: tuple[Prompt, ...] = (),
    resources: tuple[Resource, ...] = (),
    templates: tuple[ResourceTemplate, ...] = (),
) -> MadeManifest:
    return make_manifest(Lists(instructions, Listing(tools), Listing(prompts), Listing(resources), Listing(templates)))


def test_the_order_of_the_server_does_not_matter() -> None:
    """MCP-165: equal lists have equal bytes, whatever the order of entries and keys."""
    first = made(
        Tool(name="b", input_schema={"type": "object", "properties": {"x": {}, "a": {}}}),
        Tool(name="a", input_schema=OBJECT),
        resources=(Resource(uri="z:", name="z"), Resource(uri="a:", name="a")),
    )
    second = made(
        Tool(name="a", input_schema=OBJECT),
        Tool(name="b", input_schema={"properties": {"a": {}, "x": {}}, "type": "object"}),
        resources=(Resource(uri="a:", name="a"), Resource(uri="z:", name="z")),
    )
    assert (first.hash, first.data) == (second.hash, second.data)
    assert [tool.name for tool in first.manifest.tools] == ["a", "b"]
    assert made(Tool(name="a", input_schema=OBJECT)).hash != first.hash


def test_texts_in_a_schema_have_no_characters_that_are_not_seen() -> None:
    """MCP-213: names and values are sent as they are."""
    hidden = "a\u202eb\U000e0041\u200b"
    schema = {
        "type": "object",
        "title": hidden,
        "properties": {
            "default": {"description": hidden, "enum": [hidden], "anyOf": [{"$comment": hidden}]},
            hidden: {"type": "string", "default": hidden},
        },
    }
    (tool,) = made(Tool(name="a", input_schema=schema)).manifest.tools
    assert tool.input_schema == {
        "type": "object",
        "title": "ab",
        "properties": {
            "default": {"description": "ab", "enum": [hidden], "anyOf": [{"$comment": "ab"}]},
            hidden: {"type": "string", "default": hidden},
        },
    }


def test_what_is_stored_is_what_was_made() -> None:
    """MCP-165."""
    found = made(
        Tool(
            name="a",
            input_schema=OBJECT,
            title="A",
            description="does",
            output_schema=OBJECT,
            annotations=ToolAnnotations(read_only_hint=True, title="not this one"),
        ),
        instructions="hi",
        prompts=(Prompt(name="p", arguments=[PromptArgument(name="x", required=True)]),),
        resources=(Resource(uri="a:", name="a", size=-1, mime_type="text/plain"),),
        templates=(ResourceTemplate(uri_template="a:{x}", name="t"),),
    )
    again = msgspec.json.decode(found.data, type=Manifest)
    assert again == found.manifest
    assert canonical(again) == found.data
    assert (again.tools[0].title, again.tools[0].annotations) == ("A", {"readOnlyHint": True})
    assert again.resources[0].size is None
    assert not found.problems


def test_texts_are_bounded() -> None:
    """MCP-167."""
    found = made(
        Tool(name="a", input_schema=OBJECT, description="ü" * 5000, title="t" * 500), instructions="i" * 20_000
    ).manifest
    assert len(str(found.tools[0].description).encode()) <= manifest.DESCRIPTION_BYTES
    assert str(found.tools[0].description).endswith("ü…")
    assert len(str(found.tools[0].title)) == manifest.NAME_CHARACTERS
    assert len(str(found.instructions)) <= manifest.INSTRUCTIONS_BYTES


def test_all_tools_together_are_bounded() -> None:
    """MCP-167: many large ones are cut at 4 MiB, and that is told."""
    large = {"type": "object", "description": "x" * 60_000}
    found = made(*(Tool(name=f"t{number:03}", input_schema=large) for number in range(100)))
    assert len(found.data) <= manifest.TOOLS_BYTES
    assert 60 < len(found.manifest.tools) < 100
    assert found.problems == (
        f"the list of tools is cut after {len(found.manifest.tools)}: all together have more than 4194304 bytes",
    )


def test_names_that_cannot_be_shown_are_left_out() -> None:
    """MCP-167."""
    found = made(
        *(Tool(name=name, input_schema=OBJECT) for name in ("", "x" * 201, "a\u202eb", "ok")),
        prompts=(Prompt(name="p\n"),),
        resources=(Resource(uri="x" * 3000, name="r"),),
    )
    assert [tool.name for tool in found.manifest.tools] == ["ok"]
    assert (found.manifest.prompts, found.manifest.resources) == ((), ())
    assert len(found.problems) == 5
    assert all(problem.isprintable() for problem in found.problems)


def test_problems_are_bounded() -> None:
    """MCP-167."""
    found = made(*(Tool(name=f"t{number}", input_schema={"type": "string"}) for number in range(100)))
    assert len(found.problems) == manifest.MOST_PROBLEMS + 1
    assert found.problems[-1] == "and 80 more"


def test_an_output_schema_that_cannot_be_used_is_left_away() -> None:
    """MCP-168."""
    found = made(Tool(name="a", input_schema=OBJECT, output_schema={"$ref": "#/nowhere"}))
    assert found.manifest.tools[0].output_schema is None
    assert "the output schema of the tool a is not used" in found.problems[0]
