"""One value is changed in the text of a file; the rest stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.edit import EditRefused, remove_value, set_value
from holdfast.core.config.jsonc import InvalidJson, decode

COMMENTED = """\
{
  // mine
  "model": "a/b", /* x, y */
  "mcp": {
    "docs": { "type": "remote" }, // trailing, comment
  },
}
"""


def test_comments_and_indentation_stay() -> None:
    """API-599."""
    added = set_value(COMMENTED, ("mcp", "fs"), {"command": ["x"]})
    assert added == COMMENTED.replace(
        "comment\n", 'comment\n    "fs": {\n      "command": [\n        "x"\n      ]\n    },\n'
    )
    assert remove_value(added, ("mcp", "fs")) == COMMENTED
    assert "// mine" in remove_value(COMMENTED, ("mcp", "docs"))
    replaced = set_value(COMMENTED, ("mcp", "docs"), 1)
    assert replaced == COMMENTED.replace('{ "type": "remote" }', "1")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{\n\t"x": 1 // c\n}', '{\n\t"x": 1, // c\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ("\ufeff{ // c\n}", '\ufeff{ // c\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"a": {"b": 2}}', '{"a": {"b": 1}}'),
    ],
)
def test_missing_objects_are_added(before: str, after: str) -> None:
    """API-599."""
    assert set_value(before, ("a", "b"), 1) == after


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', '"x"'])
def test_another_shape_is_refused(text: str) -> None:
    """API-599."""
    with pytest.raises(EditRefused):
        set_value(text, ("a", "b"), 1)


def test_a_broken_file_is_refused() -> None:
    with pytest.raises(InvalidJson):
        set_value('{"a": ', ("a", "b"), 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON), st.sampled_from([None, 0, 2, "\t"]), JSON)
def test_any_document_is_as_expected_afterwards(document: dict[str, Any], indent: Any, value: Any) -> None:
    """API-599."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    added = set_value(text, ("n",), value)
    assert decode(added).value == {**document, "n": value}
    assert decode(remove_value(added, ("n",))).value == document
