"""JSON with comments: what is allowed, what is not, and where a problem is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.config.jsonc import InvalidJson, decode, lines_of, to_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1} // end', {"a": 1}),
        ('{/* one */ "a" /* two */: /* three */ 1 /* four */}', {"a": 1}),
        ('{"a": [1, 2, /* last */ ], // comma\n}', {"a": [1, 2]}),
        ('{"a": 1,\n // "b": 2,\n}', {"a": 1}),
        ('{"u": "https://x/y", "g": "/* no */", "c": "a, }",}', {"u": "https://x/y", "g": "/* no */", "c": "a, }"}),
        ('{"quote": "\\"// no\\"", "end": "\\\\"} // yes', {"quote": '"// no"', "end": "\\"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": "/* unclosed"}', {"a": "/* unclosed"}),
        ('{"a": 1, /* * / ** */ "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, // see {x} and [y]\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, /* } */ "b": 2}', {"a": 1, "b": 2}),
    ],
)
def test_comments_and_trailing_commas(text: str, value: object) -> None:
    """CAT-020: allowed anywhere between tokens; strings keep what looks like them."""
    assert decode(text).value == value


@pytest.mark.parametrize(
    ("text", "line"),
    [('{"a": 1', 1), ('{\n"a": 1,,}', 2), ("[1 2]", 1), ('{"a": /* unclosed }', 1), ('{"a": NaN}', None)],
)
def test_what_is_wrong_stays_wrong(text: str, line: int | None) -> None:
    """CAT-026, CAT-027: forgiving about commas and comments, and about nothing else; it says where."""
    with pytest.raises(InvalidJson) as caught:
        decode(text)
    assert caught.value.line == line


def test_endless_nesting_is_an_error_like_any_other() -> None:
    """CAT-026: not a crash."""
    with pytest.raises(InvalidJson):
        decode("[" * 200_000)


def test_repeated_keys_are_noticed() -> None:
    """CAT-027: the last one counts, and that is said."""
    assert decode('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}') == ({"a": 3, "b": {"c": 2}}, ("c", "a"))


def test_nothing_moves_to_another_line() -> None:
    """CAT-027: so that a problem can be found where it is said to be."""
    text = '{\n // one\n /* two\n three */ "a": 1,\n}\n'
    assert [len(line) for line in to_json(text).split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    ("path", "line"),
    [(("a",), 2), (("b", "d"), 6), (("b", "e", 1), 8), (("b", "e", 1, "f"), 9), (("x",), None), (("b", "x"), None)],
)
def test_where_a_value_stands(path: tuple[str | int, ...], line: int | None) -> None:
    """CAT-027: by its path, past comments, nested values and strings that look like structure."""
    text = """{
      "a": "} , ] {",
      // "b": 1
      "b": {
        "c": [1, [2, 3], {"d": 0}],
        "d": true,
        "e": [0,
          {
            "f": 1}]
      }
    }"""
    assert lines_of(text, [path, ()]).get(path) == line


@pytest.mark.parametrize(
    "between",
    ["/" * 120, "// " + "//" * 60, "/* c */ " * 60, "/" + "*" * 200 + "/", "//x\n" * 200],
    ids=["ruler", "slashes", "many comments", "stars", "many lines"],
)
def test_decoration_after_a_comma_costs_nothing(between: str) -> None:
    """CAT-020: rulers of slashes and rows of comments are common; reading them must not take exponential time."""
    text = '{"a": 1,\n' + between + '\n"b": 2}'
    program = "import sys; from holdfast.core.config.jsonc import decode; print(decode(sys.stdin.read()).value)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=10, check=True
    )
    assert done.stdout.strip() == "{'a': 1, 'b': 2}"
