"""The stored form of the Context Snapshot."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.context.conftest import Fact, seen

from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.system_context import initialize


def test_one_object_by_key_with_value_and_removal() -> None:
    """CTX-060, CTX-061: `removed` only for sources that can be removed."""
    stored = initialize(seen(Fact("core/a", {"n": [1, None]}), Fact("core/b", removable=False))).snapshot.encode()
    assert msgspec.json.decode(stored) == {
        "core/a": {"value": {"n": [1, None]}, "removed": "Removed a"},
        "core/b": {"value": "v0"},
    }
    assert Snapshot.decode(stored).encode() == stored


@pytest.mark.parametrize(
    "stored",
    [
        '{"date":{"value":1}}',
        '{"core/x\\n":{"value":1}}',
        '{"core/x":{"value":1,"removed":""}}',
        '{"core/x":{}}',
        '{"core/x":1}',
        "[]",
        "{",
        "",
    ],
)
def test_a_damaged_envelope_does_not_decode(stored: str) -> None:
    """CTX-061: an un-namespaced key, an empty removal, or no such object at all."""
    with pytest.raises(msgspec.DecodeError):
        Snapshot.decode(stored)
