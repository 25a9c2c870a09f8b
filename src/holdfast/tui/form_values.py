"""Reads the values of a form from lines that a person types. The server checks them; here they are only read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)

if TYPE_CHECKING:
    from holdfast.schema.form import FormField, FormValue

YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
NUMBER_CHARACTERS = 9
"""Of the number of an option."""


class NotAValue(Exception):
    """A line that is no value of its field; the text says what is expected."""


def read_value(field: FormField, line: str) -> FormValue | None:
    """What a line means; None for no answer. An empty line means the default. Raises NotAValue."""
    if not line:
        default = None if isinstance(field, ExternalField) else field.default
        if default is None and field.required:
            raise NotAValue(expected(field))
        return default
    match field:
        case StringField():
            return _option(field, line) if field.options else line
        case IntegerField() | NumberField():
            return _number(field, line)
        case BooleanField() | ExternalField():
            if line.lower() not in YES:
                raise NotAValue(expected(field))
            said = YES[line.lower()]
            return None if isinstance(field, ExternalField) and not said else said
        case MultiselectField():
            parts = [part.strip() for part in line.split(",") if part.strip()]
            return tuple(dict.fromkeys(_option(field, part) for part in parts))


def shown_value(value: FormValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def expected(field: FormField) -> str:
    """What a line for this field is, in words."""
    match field:
        case StringField(options=None):
            return f"a text of the format {field.format}" if field.format else "a text"
        case StringField():
            return "a number of the list or an answer of your own" if field.custom else "a number of the list"
        case MultiselectField():
            own = " or answers of your own" if field.custom else ""
            return f"numbers of the list{own}, with commas between them"
        case IntegerField():
            return "a whole number"
        case NumberField():
            return "a number"
        case BooleanField():
            return "y or n"
        case ExternalField():
            return "y once you have visited the page"


def _number(field: IntegerField | NumberField, line: str) -> int | float:
    try:
        whole = isinstance(field, IntegerField) or line.lstrip("+-").isdecimal()
        found: int | float = int(line) if whole else float(line)
        if math.isfinite(found):
            return found
    except (ValueError, OverflowError):
        pass
    raise NotAValue(expected(field))


def _option(field: StringField | MultiselectField, line: str) -> str:
    options = field.options or ()
    if line.isdecimal() and len(line) <= NUMBER_CHARACTERS and 1 <= int(line) <= len(options):
        return options[int(line) - 1].value
    for option in options:
        if line.lower() in (option.label.lower(), option.value.lower()):
            return option.value
    if field.custom:
        return line
    raise NotAValue(expected(field))
