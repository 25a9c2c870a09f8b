"""Positions of the log as text that clients send back."""

from __future__ import annotations

import pytest

from holdfast.core.event.position import is_position

NUMBER, SNAPSHOT = "12", "730:735:731,733"


@pytest.mark.parametrize("given", ["0", "7", "9223372036854775807"])
def test_a_number_is_a_position_of_sqlite(given: str) -> None:
    """EVT-091"""
    assert is_position(given, NUMBER)
    assert not is_position(given, SNAPSHOT)


@pytest.mark.parametrize("given", ["1:1:", "10:20:", "10:20:10,14,19", SNAPSHOT, "734:735:"])
def test_a_snapshot_is_a_position_of_postgresql(given: str) -> None:
    """EVT-091"""
    assert is_position(given, SNAPSHOT)
    assert not is_position(given, NUMBER)


NUMBERS_OF_NO_STORE = ["", " 7", "7 ", "-1", "+7", "1e3", "\u0667", "9223372036854775808", "7\n", "7' or 1"]
SNAPSHOTS_OF_NO_STORE = [
    "0:5:",
    "5:3:",
    "10:20:20",
    "10:20:9",
    "10:20:12,11",
    "10:20:12,",
    "10:20",
    "1:9223372036854775808:",
    "10:736:",
]


@pytest.mark.parametrize("given", [*NUMBERS_OF_NO_STORE, *SNAPSHOTS_OF_NO_STORE, "1:2:" + "1," * 10_000 + "1"])
def test_anything_else_is_not(given: str) -> None:
    """EVT-091: what a statement could not read, or would read as something else, never reaches one."""
    assert not is_position(given, NUMBER)
    assert not is_position(given, SNAPSHOT)
