"""Addresses of databases: what is shown of them, and when two are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.database import opening
from holdfast.core.database.errors import InvalidAddress, StorageError
from holdfast.core.database.opening import DriverMissing, open_database
from holdfast.core.database.place import check_address, has_password, place_identity, public_place

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://u:{SECRET}@h:5432/db?sslmode=require", "postgresql://u@h:5432/db?sslmode=require"),
        (f"postgres://u:{SECRET}:x@h1:1,[::1]:2/db", "postgresql://u@h1:1,[::1]:2/db"),
        (f"postgresql:///db?host=/run/pg&password={SECRET}", "postgresql:///db?host=/run/pg&password=***"),
        ("postgresql://h", "postgresql://h/"),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str) -> None:
    """STO-063."""
    assert public_place(check_address(address, "here")) == shown
    assert has_password(address) == (SECRET in address)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{SECRET}/x@h/db",
        f"postgresql://u:{SECRET}@x@h/db",
        f"postgresql://u:{SECRET}?x@h/db",
        f"postgresql://u:{SECRET}",
        f"postgresql://u:x {SECRET}@h/db",
        f"mysql://u:{SECRET}@h/db",
        f"u:{SECRET}@h/db",
        f"postgresql:u:{SECRET}@h/db",
    ],
)
def test_a_malformed_address_is_refused_without_its_password(address: str) -> None:
    """STO-062, STO-063."""
    with pytest.raises(InvalidAddress, match=r"HOLDFAST_DATABASE: .* is no address of a database") as refused:
        check_address(address, "HOLDFAST_DATABASE")
    assert SECRET not in str(refused.value)
    assert SECRET not in public_place(address)


def test_a_path_is_no_address_and_has_no_identity() -> None:
    """STO-062, STO-066."""
    with pytest.raises(InvalidAddress, match=r"'/srv/holdfast\.db' is no address"):
        check_address("/srv/holdfast.db", "HOLDFAST_DATABASE")
    assert place_identity(Path("/srv/holdfast.db"), {}) == ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://u:a@h/db", "postgresql://u:b@h/db", True),
        ("postgresql://u:a@h/db", "postgres://u@h/db", True),
        ("postgresql://u@h/db", "postgresql:///db?host=h&user=u", True),
        ("postgresql://u@h/db", "postgresql://u@h/other", False),
        ("postgresql://u@h/db", "postgresql://u@h:5433/db", False),
        ("postgresql://u@h/db", "postgresql://v@h/db", False),
        ("postgresql://u@h/db", "postgresql://u@h/db?schema=x", False),
    ],
)
def test_the_identity_tells_databases_apart(one: str, other: str, same: bool) -> None:
    """STO-066."""
    assert (place_identity(one, {}) == place_identity(other, {})) == same


def test_the_identity_counts_what_the_environment_adds() -> None:
    """STO-066: only where the address says nothing."""
    there = {"PGHOST": "there", "PGDATABASE": "x", "PGPASSWORD": SECRET}
    assert place_identity("postgresql:///db", there) != place_identity("postgresql:///db", {})
    assert place_identity("postgresql:///db", there) == place_identity("postgresql://there/db", {"PGPASSWORD": "y"})
    assert place_identity("postgresql://h/db", there) == place_identity("postgresql://h/db", {})


def test_without_the_driver_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-065."""
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with pytest.raises(DriverMissing, match=r"pip install 'holdfast-runtime\[postgres\]'"):
        open_database("postgresql://h/db")


def test_a_driver_that_cannot_be_loaded_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-065."""

    def fail(name: str) -> None:
        raise ImportError("no pq wrapper available")

    monkeypatch.setattr(opening, "import_module", fail)
    with pytest.raises(StorageError, match="PostgreSQL cannot be used: no pq wrapper available"):
        open_database("postgresql://h/db")
