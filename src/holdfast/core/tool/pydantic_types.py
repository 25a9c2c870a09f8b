"""Types of pydantic in tools. Pydantic is not a dependency: it is imported only if a tool uses it."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_args, get_origin

import msgspec

MODULE = "pydantic"
CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
"""What `msgspec.Meta` and pydantic's `Field` call by the same name."""


def uses_pydantic(kind: Any) -> bool:
    """Whether an annotation, or a default value, contains something that only pydantic reads: a model, or a `Field`."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return hasattr(kind, "model_validate_json") or hasattr(kind, "__pydantic_fields__")
    if type(kind).__module__.partition(".")[0] == MODULE:
        return True
    return any(map(uses_pydantic, get_args(kind)))


def pydantic_input(named: str, taken: dict[str, tuple[Any, Any]], described: dict[str, str]) -> type[Any]:
    """A model with these fields. Raises TypeError for a type that pydantic does not know."""
    from pydantic import create_model
    from pydantic.errors import PydanticSchemaGenerationError

    fields: dict[str, Any] = {
        name: _field(hint, default, described.get(name)) for name, (hint, default) in taken.items()
    }
    try:
        model: type[Any] = create_model(named, **fields)
    except PydanticSchemaGenerationError as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(f"{named}: a parameter uses pydantic, which cannot read another one: {reason}") from error
    return model


def _field(hint: Any, default: Any, description: str | None) -> tuple[Any, Any]:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    notes = hint.__metadata__ if get_origin(hint) is Annotated else ()
    given = [note for note in (*notes, default) if isinstance(note, FieldInfo)]
    for meta in (note for note in notes if isinstance(note, msgspec.Meta)):
        description = meta.description or description
        constraints = {name: value for name in CONSTRAINTS if (value := getattr(meta, name)) is not None}
        if constraints:
            hint = Annotated[hint, Field(**constraints)]
    if description is not None and not any(field.description for field in given):
        hint = Annotated[hint, Field(description=description)]
    if default is inspect.Parameter.empty:
        return hint, ...
    if isinstance(default, FieldInfo | type(None) | bool | int | float | str):
        return hint, default
    # A schema cannot show this default.
    return hint, Field(default_factory=lambda: default)
