"""The composition root: whatever fails while it closes, everything else is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.database.errors import StorageError
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.llm.offline import ScriptedTransport

pytestmark = pytest.mark.anyio


class Unclosable(ScriptedTransport):
    async def close(self) -> None:
        raise RuntimeError("the connection is stuck")


def runtime(folder: Path, transport: ScriptedTransport) -> Runtime:
    return Runtime(
        paths=Paths(folder / "data"), directory=folder, environment={"HOME": str(folder)}, transport=transport
    )


async def test_a_part_that_cannot_be_closed_leaves_nothing_else_open(tmp_path: Path) -> None:
    """The error is raised once the database and everything before it are closed."""
    host = runtime(tmp_path, Unclosable())
    await host.__aenter__()
    async with host.locations.use(host.location):
        pass
    with pytest.raises(RuntimeError, match="stuck"):
        await host.__aexit__(None, None, None)
    with pytest.raises(StorageError):
        await host.database.fetch("session.get", {"id": "ses_1"})
    assert host.locations.opened() == ()
    assert host.execution.closed


async def test_what_was_opened_before_a_failed_start_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Counting(ScriptedTransport):
        async def close(self) -> None:
            closed.append("transport")

    host = runtime(tmp_path, Counting())
    monkeypatch.setattr(host, "_host_settings", lambda here: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await host.__aenter__()
    assert closed == ["transport"]
