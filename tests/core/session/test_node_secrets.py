"""Tokens with which nodes identify themselves to each other."""

from __future__ import annotations

import pytest
from tests.core.conftest import Pair, tables

from holdfast.core.session import node_secrets
from holdfast.core.session.node_secrets import ACCEPTED, LIFETIME, SETTLED, NodeSecrets

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
