"""Checks the answer to a form. A field whose conditions do not hold is not part of the form, and takes no answer."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.core.form.errors import InvalidFormAnswer
from holdfast.llm.bounded_pattern import MatchTooLong, PatternError, Steps, bounded_pattern
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
    condition_holds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.schema.form import Form, FormAnswer, FormField, FormOption, FormValue

ANSWER_CHARACTERS = 16_000
MOST_CHOSEN = 500
PATTERN_STEPS = 1_000_000
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def check_answer(form: Form, answer: FormAnswer) -> None:
    """Raises InvalidFormAnswer, which names the first field that is wrong."""
    known = {field.key for field in form.fields}
    for key in answer:
        if key not in known:
            raise InvalidFormAnswer(form.id, "the form has no such field", field=key[:200])
    for field in form.fields:
        problem = _problem(field, answer)
        if problem is not None:
            raise InvalidFormAnswer(form.id, problem, field=field.key)


def is_active(field: FormField, answer: Mapping[str, FormValue]) -> bool:
    """Whether a field is part of the form, given the answers so far."""
    return all(condition_holds(condition, answer.get(condition.key)) for condition in field.when or ())


def value_problem(field: FormField, value: Any) -> str | None:
    """Why a value does not fit a field."""
    match field:
        case StringField():
            return _string_problem(field, value)
        case NumberField() | IntegerField():
            return _number_problem(field, value)
        case BooleanField():
            return None if isinstance(value, bool) else "it needs true or false"
        case MultiselectField():
            return _chosen_problem(field, value)
        case ExternalField():
            return None if value is True else "it takes only true, once the page was visited"


def is_number(value: Any) -> bool:
    """Whether it is a number that every client can hold: JSON has integers that are greater than any float."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _problem(field: FormField, answer: Mapping[str, FormValue]) -> str | None:
    active = is_active(field, answer)
    value = answer.get(field.key)
    if value is None:
        return "it needs an answer" if active and field.required else None
    if not active:
        return "its conditions do not hold, so it takes no answer"
    if field.required and value in ("", ()):
        return "it needs an answer"
    return value_problem(field, value)


def _string_problem(field: StringField, value: Any) -> str | None:
    if not isinstance(value, str):
        return "it needs a text"
    most = min(field.max_length if field.max_length is not None else ANSWER_CHARACTERS, ANSWER_CHARACTERS)
    if len(value) > most:
        return f"it has more than {most} characters"
    if field.min_length is not None and len(value) < field.min_length:
        return f"it has fewer than {field.min_length} characters"
    if field.options is not None and not field.custom and not _offered(field.options, (value,)):
        return "it is none of the options"
    if field.pattern is not None and not _matches(field.pattern, value):
        return f"it does not match the pattern {field.pattern}"
    if field.format is not None and not _FORMATS[field.format](value):
        return f"it is no {field.format}"
    return None


def _number_problem(field: NumberField | IntegerField, value: Any) -> str | None:
    if not is_number(value):
        return "it needs a number"
    if isinstance(field, IntegerField) and value != int(value):
        return "it needs a whole number"
    if field.minimum is not None and value < field.minimum:
        return f"it is less than {field.minimum}"
    if field.maximum is not None and value > field.maximum:
        return f"it is greater than {field.maximum}"
    return None


def _chosen_problem(field: MultiselectField, value: Any) -> str | None:
    if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
        return "it needs a list of texts"
    most = min(field.max_items if field.max_items is not None else MOST_CHOSEN, MOST_CHOSEN)
    if len(value) > most:
        return f"more than {most} are chosen"
    if field.min_items is not None and len(value) < field.min_items:
        return f"fewer than {field.min_items} are chosen"
    if len(set(value)) != len(value):
        return "one is chosen twice"
    if any(len(item) > ANSWER_CHARACTERS for item in value):
        return f"a text has more than {ANSWER_CHARACTERS} characters"
    return None if field.custom or _offered(field.options, value) else "one of them is none of the options"


def _offered(options: Sequence[FormOption], chosen: Sequence[str]) -> bool:
    return {option.value for option in options}.issuperset(chosen)


def _matches(pattern: str, value: str) -> bool:
    """A pattern that takes too long is not matched."""
    try:
        return bounded_pattern(pattern).search(value, Steps(PATTERN_STEPS))
    except (MatchTooLong, PatternError):
        return False


def _is_uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not re.search(r"\s", value)


def _is_date(value: str) -> bool:
    try:
        return bool(_DATE.fullmatch(value)) and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _is_moment(value: str) -> bool:
    try:
        return bool(_DATE.match(value)) and len(value) > len("2000-01-01") and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


_FORMATS = {
    "email": lambda value: bool(_EMAIL.fullmatch(value)),
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_moment,
}
