"""The file of credentials: its owner's alone, replaced as a whole, never written over by mistake."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from tests.conftest import ManualClock

from holdfast.core.clock import Ids
from holdfast.core.credential.errors import CredentialsUnreadable
from holdfast.core.credential.store import LOCKS, Credential, CredentialStore, CredentialValue, KeyValue, OAuthValue

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "credentials.json"


@pytest.fixture
def store(path: Path, ids: Ids, clock: ManualClock) -> CredentialStore:
    return CredentialStore(path, ids, clock)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_credential_replaces_all_of_its_integration(store: CredentialStore, path: Path) -> None:
    """CAT-132: and nobody else's; labelled `default` unless it has a name."""
    first = await store.create("a", KeyValue(key="1"))
    other = await store.create("b", KeyValue(key="2"), "work")
    second = await store.create("a", KeyValue(key="3", metadata={"x": 1}))
    assert store.all("a") == (second,)
    assert store.all("b") == (other,)
    assert (first.label, other.label, first.id[:5]) == ("default", "work", "cred_")
    assert store.get(first.id) is None
    reopened = CredentialStore(path, store._ids, store._clock)
    assert reopened.all("a") == (second,)


async def test_only_the_owner_can_read_the_credential_file(
    store: CredentialStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-135: from the first byte, and again if somebody opened it up."""
    old = os.umask(0)
    try:
        await store.create("a", KeyValue(key="secret-1"))
    finally:
        os.umask(old)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [mode(found) for found in path.parent.iterdir()] == [0o600] * 2
    path.chmod(0o644)
    assert len(store.all("a")) == 1
    assert mode(path) == 0o600
    assert "secret-1" not in caplog.text


async def test_credentials_are_listed_newest_first(path: Path, ids: Ids, clock: ManualClock) -> None:
    """CAT-131: also when a file holds several of one integration."""
    values = [
        {"id": f"cred_{n}", "integrationID": "a", "label": "x", "created": n, "value": {"type": "key", "key": "k"}}
        for n in (1, 3, 2)
    ]
    path.parent.mkdir()
    path.write_text(json.dumps({"version": 1, "credentials": values}))
    assert [found.created for found in CredentialStore(path, ids, clock).all("a")] == [3, 2, 1]


async def test_an_update_without_changes_does_not_write_the_file(store: CredentialStore, path: Path) -> None:
    """CAT-132: neither label nor value changes nothing, not even the file."""
    made = await store.create("a", KeyValue(key="1"))
    before = path.stat().st_mtime_ns
    told: list[str] = []
    end = store.on_change(told.append)
    await store.update(made.id)
    await store.update("cred_unknown", label="x")
    assert told == []
    await store.update(made.id, label="new")
    await store.update(made.id, value=KeyValue(key="2"))
    found = store.get(made.id)
    assert found is not None
    assert (found.label, found.value, found.created) == ("new", KeyValue(key="2"), made.created)
    assert path.stat().st_mtime_ns != before
    await store.remove(made.id)
    await store.remove(made.id)
    assert (store.all("a"), told) == ((), ["a", "a", "a"])
    end()
    await store.create("a", KeyValue(key="1"))
    assert len(told) == 3


async def test_a_change_can_be_read_when_it_is_told(store: CredentialStore) -> None:
    """CAT-135, trap 15."""
    seen: list[int] = []
    store.on_change(lambda id: seen.append(len(store.all(id))))
    made = await store.create("a", KeyValue(key="1"))
    await store.remove(made.id)
    assert seen == [1, 0]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1, "credentials": [{"id": 3}]}', "[" * 100_000])
async def test_a_damaged_file_is_not_written_over(
    store: CredentialStore, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-132: reading goes on without it, with a word in the log; writing is refused."""
    path.parent.mkdir()
    path.write_text(damage)
    assert store.all("a") == ()
    assert str(path) in caplog.text
    with pytest.raises(CredentialsUnreadable, match="move it away"):
        await store.create("a", KeyValue(key="1"))
    with pytest.raises(CredentialsUnreadable, match="move it away"):
        await store.remove("cred_1")
    assert path.read_text() == damage
    told = len(caplog.records)
    assert [store.all(id) for id in "abc"] == [()] * 3
    assert len(caplog.records) == told


async def test_a_file_whose_folder_is_none_is_unreadable(tmp_path: Path, ids: Ids, clock: ManualClock) -> None:
    """CAT-132: reading goes on without it."""
    (tmp_path / "data").write_text("")
    store = CredentialStore(tmp_path / "data" / "credentials.json", ids, clock)
    assert store.all("a") == ()


def test_locks_do_not_pile_up(store: CredentialStore, ids: Ids) -> None:
    """CAT-133: a credential that is gone leaves no file of its own behind."""
    assert len({store.lock_path(ids.of("cred")) for _ in range(1_000)}) <= LOCKS


async def test_writers_at_once_lose_nothing(path: Path, ids: Ids, clock: ManualClock) -> None:
    """CAT-132: one transaction each, also of two stores, and when whoever asked goes away."""
    stores = [CredentialStore(path, ids, clock) for _ in range(2)]
    work = [asyncio.create_task(stores[n % 2].create(f"i{n}", KeyValue(key=str(n)))) for n in range(20)]
    await asyncio.sleep(0)
    work[7].cancel()
    await asyncio.gather(*work, return_exceptions=True)
    kept = {n for n in range(20) if stores[0].all(f"i{n}")}
    assert kept >= set(range(20)) - {7}
    assert sorted(found.name for found in path.parent.iterdir()) == [path.name, path.name + ".lock"]


def test_no_secret_in_a_repr() -> None:
    """CAT-135."""
    values: list[CredentialValue] = [
        KeyValue(key="s-1", metadata={"a": "s-2"}),
        OAuthValue(method_id="m", access="s-3", refresh="s-4", expires=1),
    ]
    for value in values:
        whole = Credential(id="c", integration_id="i", label="l", created=1, value=value)
        assert "s-" not in f"{value!r} {value} {whole!r} {[value]!r} {list(value.__rich_repr__())}"
