"""What uses the disk, as `holdfast doctor --disk` explains it."""

from __future__ import annotations

import json

from tests.cli.conftest import Machine
from tests.stores.stores import on_postgres


def test_doctor_explains_what_uses_the_disk(holdfast: Machine) -> None:
    """OPS-120: the store, files, the largest sessions, and how each gets smaller."""
    small = holdfast("run", "--model", "demo/echo", "small").session
    large = holdfast("run", "--model", "demo/echo", "x" * 20_000).session
    (holdfast.data / "log").mkdir(parents=True, exist_ok=True)
    (holdfast.data / "log" / "server.log").write_bytes(bytes(5000))
    report = json.loads(holdfast("doctor", "--disk", "--json").out)
    uses = {use["name"]: use for use in report["uses"]}
    assert [each["id"] for each in report["largest"]] == [large, small]
    assert report["largest"][0]["bytes"] > 20_000
    assert uses["logs"]["bytes"] == 5000
    assert uses["database"]["bytes"] > 40_000
    assert all(use["how"] for use in report["uses"])
    if not on_postgres():
        assert report["free"] > 0
        assert uses["database"]["how"] == "`holdfast retention` gives free pages back"
    assert holdfast("sessions", "delete", large, "--yes").code == 0
    shown = holdfast("doctor", "--disk")
    assert shown.code == 0, shown.err
    assert "events of 1 deleted sessions" in shown.out
    assert "(deleted)" in shown.out
    assert "--disk changes nothing" in holdfast("doctor", "--disk", "--rebuild").complaint
