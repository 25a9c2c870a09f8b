"""JSON with comments: what is allowed, what is not, and where a problem is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.config.jsonc import DEPTH_LIMIT, InvalidJson, decode, line_numbers, to_json


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
    [
        ('{"a": 1', 1),
        ('{\n"a": 1,,}', 2),
        ("[1 2]", 1),
        ('{"a": /* unclosed }', 1),
        ('{"a": 1} /* unclosed', 1),
        ('{"a": 1} /*/', 1),
        ('{"a": NaN}', None),
        ('{"a": 1e400}', None),
        ('{"a": ' + "1" * 5_000 + "}", None),
        ('{"a": 18446744073709551616}', None),
        ('{"a": "\\ud800"}', None),
        ('{"\\udfff": 1}', None),
    ],
)
def test_invalid_json_is_refused_with_its_position(text: str, line: int | None) -> None:
    """CAT-026, CAT-027: forgiving about commas and comments, and about nothing else; it says where."""
    with pytest.raises(InvalidJson) as caught:
        decode(text)
    assert caught.value.line == line


def test_endless_nesting_is_an_error_like_any_other() -> None:
    """CAT-026: not a crash."""
    with pytest.raises(InvalidJson):
        decode("[" * 200_000)


def test_json_nested_too_deeply_is_refused_by_the_reader() -> None:
    """CAT-026: substitution, validation and merging recurse; none of them may be the first to notice."""
    nested = "[" * (DEPTH_LIMIT - 1) + "]" * (DEPTH_LIMIT - 1)
    assert decode(nested).value != 1
    with pytest.raises(InvalidJson, match="nested"):
        decode(f'{{"a": {nested}}}')


def test_repeated_keys_are_noticed() -> None:
    """CAT-027: the last one counts, and that is said, once."""
    assert decode('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}') == ({"a": 3, "b": {"c": 2}}, ("c", "a"))
    assert decode('{"b": {"c": 1, "c": 2}, }').repeated == ("c",)


def test_pairs_of_escapes_are_one_character() -> None:
    """CAT-026: a character beyond the first plane, as most programs write it."""
    assert decode('{"a": "\\ud83d\\ude00"}').value == {"a": "\U0001f600"}


def test_nothing_moves_to_another_line() -> None:
    """CAT-027: so that a problem can be found where it is said to be."""
    text = '{\n // one\n /* two\n three */ "a": 1,\n}\n'
    assert [len(line) for line in to_json(text).split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    ("path", "line"),
    [(("a",), 2), (("b", "d"), 6), (("b", "e", 1), 8), (("b", "e", 1, "f"), 9), (("x",), None), (("b", "x"), None)],
)
def test_the_line_of_a_value_is_found_by_its_path(path: tuple[str | int, ...], line: int | None) -> None:
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
    assert line_numbers(text, [path, ()]).get(path) == line


@pytest.mark.parametrize(
    "between",
    ["/" * 120, "// " + "//" * 60, "/* c */ " * 60, "/" + "*" * 200 + "/", "//x\n" * 200],
    ids=["ruler", "slashes", "many comments", "stars", "many lines"],
)
def test_decoration_after_a_comma_costs_nothing(between: str) -> None:
    """CAT-020: rulers of slashes and rows of comments are common; reading them must not take exponential time."""
    assert _decoded_elsewhere('{"a": 1,\n' + between + '\n"b": 2}') == "{'a': 1, 'b': 2}"


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 1_000_000,
        "/* " * 1_000_000,
        "{" + ",".join(f'"{number}":1' for number in range(200_000)) + ',"1":2,}',
    ],
    ids=["a string without an end", "a comment without an end", "many names and one of them twice"],
)
def test_a_hostile_text_takes_linear_time(text: str) -> None:
    """CAT-026: a project's file is read before anybody has looked at it; its size is bounded, so must its cost be."""
    assert _decoded_elsewhere(text)


def _decoded_elsewhere(text: str) -> str:
    """In a process that can be ended: a pattern that backtracks does not hear a signal."""
    program = """import sys
from holdfast.core.config.jsonc import InvalidJson, decode
try:
    print(str(decode(sys.stdin.read()).value)[:100])
except InvalidJson as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout.strip()
