"""Names that stand for ids."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schema.ids import is_name, name_of_id

SAFE = string.ascii_letters + string.digits + "_-."


@given(st.text(), st.text())
def test_a_name_is_no_path_and_belongs_to_one_id(one: str, other: str) -> None:
    """SES-488."""
    name = name_of_id(one)
    assert 1 <= len(name) <= 100
    assert set(name) <= set(SAFE)
    assert not name.startswith(".")
    assert (name == name_of_id(other)) == (one == other)


@pytest.mark.parametrize("id", ["ses_1", "msg_a-B_9", "x" * 100])
def test_an_id_of_the_common_form_is_its_own_name(id: str) -> None:
    """SES-488."""
    assert is_name(id)
    assert name_of_id(id) == id
