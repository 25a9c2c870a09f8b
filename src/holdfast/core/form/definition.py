"""Checks the definition of a form, whoever wrote it: a client, a plugin or an MCP server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.core.form.answer import is_number, value_problem
from holdfast.core.form.errors import InvalidForm
from holdfast.llm.bounded_pattern import PatternError, bounded_pattern
from holdfast.schema.codec import encode
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.schema.form import FormCondition, FormField, FormOption

MOST_FIELDS = 100
MOST_OPTIONS = 500
MOST_CONDITIONS = 20
KEY_CHARACTERS = 200
TITLE_CHARACTERS = 500
TEXT_CHARACTERS = 4_000
URL_CHARACTERS = 4_000
METADATA_BYTES = 64 * 1024
ID_CHARACTERS = 100

_ID = re.compile(rf"frm_[A-Za-z0-9_-]{{1,{ID_CHARACTERS}}}")


def check_form(title: str, fields: Sequence[FormField], metadata: Mapping[str, Any] | None = None) -> None:
    """Raises InvalidForm."""
    if not title.strip() or len(title) > TITLE_CHARACTERS:
        raise InvalidForm(f"a title has 1 to {TITLE_CHARACTERS} characters", field="title")
    if metadata is not None and len(encode(metadata)) > METADATA_BYTES:
        raise InvalidForm(f"metadata has at most {METADATA_BYTES} bytes as JSON", field="metadata")
    if not 1 <= len(fields) <= MOST_FIELDS:
        raise InvalidForm(f"it has {len(fields)} fields; 1 to {MOST_FIELDS} are allowed")
    earlier: dict[str, FormField] = {}
    for field in fields:
        problem = _problem(field, earlier)
        if problem is not None:
            raise InvalidForm(f"field {field.key[:KEY_CHARACTERS]!r}: {problem}")
        earlier[field.key] = field


def check_id(id: str) -> None:
    """An id that a caller chose is a part of addresses. Raises InvalidForm."""
    if not _ID.fullmatch(id):
        raise InvalidForm(f"its id is not `frm_` with 1 to {ID_CHARACTERS} letters, digits, `_` or `-`", field="id")


def _problem(field: FormField, earlier: Mapping[str, FormField]) -> str | None:
    if not field.key or len(field.key) > KEY_CHARACTERS:
        return f"a key has 1 to {KEY_CHARACTERS} characters"
    if field.key in earlier:
        return "another field has the same key"
    if any(len(text) > TEXT_CHARACTERS for text in (field.title, field.description) if text is not None):
        return f"a text has at most {TEXT_CHARACTERS} characters"
    conditions = field.when or ()
    if len(conditions) > MOST_CONDITIONS:
        return f"it has more than {MOST_CONDITIONS} conditions"
    problems = (_condition_problem(condition, earlier) for condition in conditions)
    return next((found for found in problems if found), None) or _own_problem(field)


def _condition_problem(condition: FormCondition, earlier: Mapping[str, FormField]) -> str | None:
    target, value = earlier.get(condition.key), condition.value
    name = condition.key[:KEY_CHARACTERS]
    match target:
        case None:
            return f"its condition names {name!r}, which is not an earlier field"
        case BooleanField() | ExternalField():
            return None if isinstance(value, bool) else f"its condition on {name!r} needs a boolean"
        case NumberField() | IntegerField():
            return None if is_number(value) else f"its condition on {name!r} needs a number"
    if not isinstance(value, str):
        return f"its condition on {name!r} needs a string"
    if target.options is not None and not target.custom and value not in {option.value for option in target.options}:
        return f"its condition on {name!r} needs one of the options"
    return None


def _own_problem(field: FormField) -> str | None:
    match field:
        case StringField():
            found = _string_problem(field)
        case MultiselectField():
            found = _options_problem(field.options) or _range_problem(field.min_items, field.max_items, "minItems")
        case NumberField() | IntegerField():
            found = _range_problem(field.minimum, field.maximum, "minimum")
        case ExternalField():
            return _url_problem(field.url)
        case BooleanField():
            return None
    if found is None and field.default is not None and (problem := value_problem(field, field.default)) is not None:
        return f"its default does not fit: {problem}"
    return found


def _string_problem(field: StringField) -> str | None:
    if field.placeholder is not None and len(field.placeholder) > TEXT_CHARACTERS:
        return f"a text has at most {TEXT_CHARACTERS} characters"
    if field.pattern is not None:
        try:
            bounded_pattern(field.pattern)
        except PatternError as error:
            return f"its pattern cannot be used: {error}"
    if field.options is not None and (problem := _options_problem(field.options)) is not None:
        return problem
    return _range_problem(field.min_length, field.max_length, "minLength")


def _options_problem(options: Sequence[FormOption]) -> str | None:
    if not 1 <= len(options) <= MOST_OPTIONS:
        return f"it has {len(options)} options; 1 to {MOST_OPTIONS} are allowed"
    if len({option.value for option in options}) != len(options):
        return "two options have the same value"
    texts = (text for option in options for text in (option.value, option.label, option.description) if text)
    return f"a text has at most {TEXT_CHARACTERS} characters" if any(len(t) > TEXT_CHARACTERS for t in texts) else None


def _range_problem(least: float | None, most: float | None, name: str) -> str | None:
    if any(bound is not None and not is_number(bound) for bound in (least, most)):
        return "a limit is not a finite number"
    return (
        f"its {name} is greater than its greatest" if least is not None and most is not None and least > most else None
    )


def _url_problem(url: str) -> str | None:
    """An address of this server, or one that a browser opens and that cannot run anything in the client."""
    if len(url) > URL_CHARACTERS or not url.isprintable() or " " in url or "\\" in url:
        return "its url is not valid"
    if url.startswith("/") and not url.startswith("//"):
        return None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        valid = False
    return None if valid else "its url is neither http nor https"
