"""Tokens with which nodes identify themselves to each other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.core.conftest import Pair, tables

from holdfast.core.session import node_secrets
from holdfast.core.session.node_secrets import ACCEPTED, LIFETIME, SETTLED, SIGNED_SECONDS, NodeSecrets
from holdfast.core.session.secret_file import SecretFile

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_secrets, "REFRESH_SECONDS", 0.0)


def grow_older(pair: Pair, milliseconds: float) -> None:
    with tables(pair.a) as sql:
        sql(f"update node_secret set time_created = time_created - {int(milliseconds)}")


def count(pair: Pair) -> int:
    with tables(pair.a) as sql:
        return int(sql("select count(*) from node_secret")[0][0])


async def refreshed(*secrets: NodeSecrets) -> None:
    for each in secrets:
        await each.refresh()


async def test_a_token_admits_to_the_node_it_was_made_for(pair: Pair) -> None:
    """STO-105: both nodes know the secret; neither a token for another node nor anything else is admitted."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    assert not a.admits("", "own_a")
    await refreshed(a, b)
    assert count(pair) == 1
    token = a.token("own_b")
    assert b.admits(token, "own_b")
    for wrong in ("", token[:-1], token.upper(), "é", a.token("own_a")):
        assert not b.admits(wrong, "own_b")


async def test_secrets_are_rotated_without_a_moment_of_refusal(pair: Pair) -> None:
    """STO-105: a new one is used when everybody has read it, and the former is accepted for a day."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    await refreshed(a, b)
    first = a.token("own_b")
    grow_older(pair, LIFETIME + 1)
    await refreshed(a)
    assert count(pair) == 2
    assert a.token("own_b") == first  # B may not have read the new one
    assert b.admits(a.token("own_b"), "own_b")
    grow_older(pair, SETTLED + 1)
    await refreshed(b, a)
    assert a.token("own_b") != first
    assert b.admits(a.token("own_b"), "own_b")
    assert b.admits(first, "own_b")
    grow_older(pair, LIFETIME)
    await refreshed(a, b)
    assert not b.admits(first, "own_b")
    grow_older(pair, ACCEPTED + 1)
    await refreshed(a)
    assert count(pair) == 1


async def test_a_signature_is_for_one_request_to_one_node(pair: Pair) -> None:
    """STO-211: not for another node, method or target, and not a second time."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    assert not a.verifies("", "own_a", "GET", "/x")
    await refreshed(a, b)
    signature = a.sign("own_b", "GET", "/x")
    assert not b.verifies(signature, "own_a", "GET", "/x")
    assert not b.verifies(signature, "own_b", "PUT", "/x")
    assert not b.verifies(signature, "own_b", "GET", "/y")
    id, age, nonce, code = signature.split()
    for wrong in (
        f"{id} {int(age) + 1} {nonce} {code}",
        f"{id} {age} 0 {code}",
        f"{id} é {nonce} {code}",
        "a b c",
        "é",
    ):
        assert not b.verifies(wrong, "own_b", "GET", "/x")
    assert b.verifies(signature, "own_b", "GET", "/x")
    assert not b.verifies(signature, "own_b", "GET", "/x")


async def test_a_signature_ends_after_a_minute_of_the_databases_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-211: what it remembers of those that were used ends later."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    await refreshed(a, b)
    signature, used = a.sign("own_b", "GET", "/x"), a.sign("own_b", "GET", "/x")
    assert b.verifies(used, "own_b", "GET", "/x")
    grow_older(pair, (SIGNED_SECONDS + 2) * 1000)
    await refreshed(b)
    assert not b.verifies(signature, "own_b", "GET", "/x")
    await refreshed(a)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3 * SIGNED_SECONDS)
    again = a.sign("own_b", "GET", "/x")
    assert b.verifies(again, "own_b", "GET", "/x")
    assert len(b._seen) == 1


async def test_a_seal_shows_that_a_node_made_it(pair: Pair) -> None:
    """STO-211: a process that knows no secret makes none."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    assert a.seal("text") == ""
    assert not a.sealed("text", "")
    await refreshed(a, b)
    assert b.sealed("text", a.seal("text"))
    assert not b.sealed("other", a.seal("text"))
    assert not b.sealed("text", a.token("text"))


async def test_a_configured_secret_is_needed_besides_that_of_the_database(pair: Pair, tmp_path: Path) -> None:
    """STO-214: the first line signs, all are accepted; a file that is gone changes nothing."""
    a, b = pair.a.node_secrets, pair.b.node_secrets
    await refreshed(a, b)
    file = tmp_path / "secret"
    file.write_text("a secret of many characters\n\n", encoding="utf-8")
    a.file = SecretFile(file)
    assert not b.verifies(a.sign("own_b", "GET", "/x"), "own_b", "GET", "/x")
    assert not b.admits(a.token("own_b"), "own_b")
    b.file = SecretFile(file)
    assert b.verifies(a.sign("own_b", "GET", "/x"), "own_b", "GET", "/x")
    file.write_text("another one with many characters\na secret of many characters", encoding="utf-8")
    await refreshed(a)
    assert not b.verifies(a.sign("own_b", "GET", "/x"), "own_b", "GET", "/x")
    await refreshed(b)
    assert b.verifies(a.sign("own_b", "GET", "/x"), "own_b", "GET", "/x")
    file.unlink()
    await refreshed(a, b)
    assert b.admits(a.token("own_b"), "own_b")
