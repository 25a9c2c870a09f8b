"""Tools whose parameters or results use pydantic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from holdfast.core.scope import Scope
from holdfast.core.tool.pydantic_types import uses_pydantic
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.core.tool.typed import tool

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Item(pydantic.BaseModel):
    name: str
    count: int = 1


@dataclass
class Plain:
    name: str


class Struct(msgspec.Struct):
    name: str


def schema_of(made: Tool[Any, Any]) -> dict[str, Any]:
    registry = ToolRegistry()
    registry.register({"made": made}, Scope())
    (definition,) = registry.materialize(()).definitions
    return definition.input_schema


async def called(made: Tool[Any, Any], **given: Any) -> Any:
    registry = ToolRegistry()
    registry.register({"made": made}, Scope())
    return (await registry.materialize(()).execute("made", given, CONTEXT)).structured


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Item, True),
        (list[Item], True),
        (dict[str, list[Item]] | None, True),
        (Annotated[int, pydantic.Field(ge=1)], True),
        (pydantic.Field(default=1), True),
        (Plain, False),
        (Struct, False),
        (Annotated[int, msgspec.Meta(ge=1)], False),
        (list[int], False),
        (("home",), False),
    ],
)
def test_whether_a_type_needs_pydantic(kind: Any, expected: bool) -> None:
    """API-509."""
    assert uses_pydantic(kind) == expected


async def test_a_field_as_a_default_describes_and_limits() -> None:
    """API-509: pydantic's own way to declare a parameter; msgspec's constraints count beside it."""

    @tool
    async def pick(
        item: Item | None = None,
        number: int = pydantic.Field(default=2, description="How many.", le=5),
        weight: Annotated[float, msgspec.Meta(gt=0, description="In kilograms.")] = 1.0,
        labels: tuple[str, ...] = ("home",),
    ) -> dict[str, Any]:
        """Pick an item."""
        return {"item": item, "number": number, "weight": weight, "labels": list(labels)}

    properties = schema_of(pick)["properties"]
    assert (properties["number"]["description"], properties["number"]["maximum"]) == ("How many.", 5)
    assert (properties["weight"]["description"], properties["weight"]["exclusiveMinimum"]) == ("In kilograms.", 0)
    assert "required" not in schema_of(pick)
    assert await called(pick) == {"item": None, "number": 2, "weight": 1.0, "labels": ["home"]}
    assert (await called(pick, item={"name": "x"}))["item"] == {"name": "x", "count": 1}
    for wrong in ({"number": 6}, {"weight": 0}, {"item": {"name": 1}}, {"number": "2"}):
        with pytest.raises(ToolFailure, match="Invalid tool input"):
            await called(pick, **wrong)


async def test_results_may_contain_models() -> None:
    """API-509: checked against the annotation, as any other result."""

    @tool
    async def items(wrong: bool = False) -> list[Item]:
        """List the items."""
        return [{"name": 1}] if wrong else [Item(name="x")]  # type: ignore[list-item]

    assert await called(items) == {"value": [{"name": "x", "count": 1}]}
    with pytest.raises(ToolFailure, match="Invalid tool output"):
        await called(items, wrong=True)


def test_types_that_pydantic_cannot_read_are_refused_at_once() -> None:
    """API-509, TOL-002: with the name of the tool."""

    async def mixed(item: Item, struct: Struct) -> None:
        """Mix both."""

    async def fine(item: Item, plain: Plain) -> None:
        """A dataclass is known to both."""

    assert tool(fine).input is not None
    with pytest.raises(TypeError, match="mixed: a parameter uses pydantic"):
        tool(mixed)
