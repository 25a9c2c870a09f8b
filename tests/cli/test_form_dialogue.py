"""Lines that a person types into a form, as values."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    FormField,
    FormOption,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)
from holdfast.tui.form_values import NotAValue, read_value

OPTIONS = (FormOption(value="r", label="Red"), FormOption(value="2", label="Green"))


@pytest.mark.parametrize(
    ("field", "line", "value"),
    [
        (StringField(key="k"), "text", "text"),
        (StringField(key="k"), "", None),
        (StringField(key="k", required=True, default="d"), "", "d"),
        (StringField(key="k", options=OPTIONS), "1", "r"),
        (StringField(key="k", options=OPTIONS), "red", "r"),
        (StringField(key="k", options=OPTIONS), "2", "2"),
        (StringField(key="k", options=OPTIONS, custom=True), "pink", "pink"),
        (NumberField(key="k"), "2.5", 2.5),
        (NumberField(key="k"), "-3", -3),
        (IntegerField(key="k"), "12", 12),
        (BooleanField(key="k"), "Yes", True),
        (BooleanField(key="k", default=True), "n", False),
        (MultiselectField(key="k", options=OPTIONS), "2, red, 1", ("2", "r")),
        (MultiselectField(key="k", options=OPTIONS), "", None),
        (ExternalField(key="k", url="https://a.example"), "y", True),
        (ExternalField(key="k", url="https://a.example"), "n", None),
    ],
)
def test_a_line_is_a_value_of_its_field(field: FormField, line: str, value: Any) -> None:
    """API-621"""
    assert read_value(field, line) == value


@pytest.mark.parametrize(
    ("field", "line", "expected"),
    [
        (StringField(key="k", required=True), "", "a text"),
        (StringField(key="k", options=OPTIONS), "pink", "a number of the list"),
        (NumberField(key="k"), "two", "a number"),
        *((NumberField(key="k"), line, "a number") for line in ("nan", "inf", "-inf", "1e999", "9" * 400)),
        *((IntegerField(key="k"), line, "a whole number") for line in ("9" * 400, "9" * 5000)),
        (StringField(key="k", options=OPTIONS), "9" * 5000, "a number of the list"),
        (IntegerField(key="k"), "2.5", "a whole number"),
        (BooleanField(key="k"), "perhaps", "y or n"),
        (MultiselectField(key="k", options=OPTIONS), "1,7", "numbers of the list, with commas between them"),
        (ExternalField(key="k", url="https://a.example", required=True), "", "y once you have visited the page"),
    ],
)
def test_a_line_that_is_no_value_is_asked_for_again(field: FormField, line: str, expected: str) -> None:
    """API-621, API-630"""
    with pytest.raises(NotAValue, match=expected):
        read_value(field, line)
