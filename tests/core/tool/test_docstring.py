"""What a tool's docstring says about it and about its parameters."""

from __future__ import annotations

import pytest

from holdfast.core.tool.docstring import Documentation, read_docstring

TEXT = "Find tickets.\n\nNewest first."
DESCRIBED = {"query": "What to look for, in any language.", "limit": "At most so many."}

GOOGLE = """Find tickets.

    Newest first.

    Args:
        query (str): What to look for,
            in any language.
        limit: At most so many.
    """
NUMPY = """Find tickets.

    Newest first.

    Parameters
    ----------
    query : str
        What to look for,
        in any language.
    limit : int, optional
        At most so many.
    """
SPHINX = """Find tickets.

    Newest first.

    :param query: What to look for,
        in any language.
    :type query: str
    :param int limit: At most so many.
    """
PLAIN = """Find tickets.

    query: What to look for, in any language.
    limit: At most so many.

    Newest first.
    """


def documented(text: str) -> Documentation:
    def function(query: str, limit: int) -> None: ...

    function.__doc__ = text
    return read_docstring(function, ("query", "limit"))


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, PLAIN], ids=["google", "numpy", "sphinx", "plain"])
def test_each_style_is_read(text: str) -> None:
    """API-509."""
    assert documented(text) == Documentation(TEXT, DESCRIBED)


def test_what_describes_no_parameter_stays_in_the_text() -> None:
    """API-509: other sections, examples, and an `Args:` that is about something else."""
    text = """query: the first line is never a parameter.

    Note: this is prose.
    Example:
        find(query: "x")

    Args:
        other: Not a parameter.
    limit: At most so many.
    Returns: the tickets.
    """
    found = documented(text)
    assert found.parameters == {"limit": "At most so many."}
    assert found.description.splitlines() == [
        "query: the first line is never a parameter.",
        "",
        "Note: this is prose.",
        "Example:",
        '    find(query: "x")',
        "",
        "Args:",
        "    other: Not a parameter.",
        "Returns: the tickets.",
    ]


@pytest.mark.parametrize("text", ["", "   \n\n  ", "Args:\n    query: x"])
def test_a_docstring_without_text_describes_nothing(text: str) -> None:
    """API-509: then the function is no tool (TOL-002)."""
    assert documented(text).description == ""
