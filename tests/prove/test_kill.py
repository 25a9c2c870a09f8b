"""`kill -9` at any moment: what was promised is there, the log is whole, the projections agree."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.stored_sessions import SessionFilter
from holdfast.schema.event import SerializedEvent

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(900)]

KILLS = 200
HOLDFAST = Path(sys.executable).with_name("holdfast")
SCRIPT = [
    {"text": "Let me look. " * 20, "calls": [{"tool": "read", "input": {"path": "a.txt"}}]},
    {"calls": [{"tool": "read", "input": {"path": "b.txt"}}, {"tool": "read", "input": {"path": "missing.txt"}}]},
    {"text": "Both say something. " * 20},
]


async def test_no_kill_loses_a_receipt_or_breaks_the_log(tmp_path: Path) -> None:
    """EVT-010, EVT-012, EVT-017, EVT-044, SES-034, SES-046, SES-078: 200 kills at random points, each followed by
    another process at once. In the end every receipt is in the log, sequences have no gap, each receipt is at most one
    user message, and every projection equals its rebuild row for row."""
    chance = random.Random(11)
    environment = _environment(tmp_path)
    receipts: list[dict[str, Any]] = []
    longest = _length_of_a_run(tmp_path, environment)
    moments = {"before the receipt": 0, "after it": 0, "not in time": 0}
    known: list[str] = []
    for _ in range(KILLS):
        continued = chance.choice(known) if known and chance.random() < 0.5 else None
        lines, killed = _run_and_kill(tmp_path, environment, continued, chance.uniform(0, longest))
        given = [line["admission"] for line in lines if line["type"] == "admission"]
        receipts += given
        known += [line["session"]["id"] for line in lines if line["type"] == "session" and continued is None]
        moments["not in time" if not killed else "after it" if given else "before the receipt"] += 1
    assert min(moments["before the receipt"], moments["after it"]) > KILLS // 10, moments
    await _check(tmp_path, receipts)


async def _check(folder: Path, receipts: list[dict[str, Any]]) -> None:
    async with Runtime(paths=Paths(folder / "data" / "holdfast"), directory=folder / "project") as runtime:
        for receipt in receipts:
            stored = await runtime.store.admission(receipt["id"])
            assert stored is not None, f"lost {receipt}"
            assert (stored.session_id, stored.admitted_seq) == (receipt["sessionID"], receipt["admittedSeq"])
        for aggregate in await runtime.log.aggregates():
            events: list[SerializedEvent] = []
            while page := await runtime.log.serialized(aggregate, after=len(events) - 1):
                events += page
            assert [event.seq for event in events] == list(range(len(events)))
            promoted = [event for event in events if event.type == "session.next.prompted.1"]
            ids = [json.loads(bytes(event.data))["messageID"] for event in promoted]
            assert len(ids) == len(set(ids))
        assert await runtime.verify() == []
        assert await runtime.sessions.page(SessionFilter(), order="desc", limit=1)


def _run_and_kill(
    folder: Path, environment: dict[str, str], session: str | None, after: float
) -> tuple[list[dict[str, Any]], bool]:
    chosen = ["--session", session] if session else ["--model", "demo/scripted"]
    process = subprocess.Popen(
        [HOLDFAST, "run", "--json", *chosen, "look"],
        cwd=folder / "project",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    timer = threading.Timer(after, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    out, err = process.communicate(timeout=60)
    timer.cancel()
    assert process.returncode in (0, -signal.SIGKILL), err.decode()
    whole = [line for line in out.decode().splitlines() if line.endswith("}")]
    lines = [document for line in whole if (document := _parse(line)) is not None]
    return lines, process.returncode != 0


def _parse(line: str) -> dict[str, Any] | None:
    try:
        parsed: dict[str, Any] = json.loads(line)
    except ValueError:
        return None  # cut in the middle by the kill
    return parsed


def _length_of_a_run(folder: Path, environment: dict[str, str]) -> float:
    started = time.monotonic()
    lines, _ = _run_and_kill(folder, environment, None, 60)
    assert lines[-1]["type"] == "result", lines[-1]
    return time.monotonic() - started


def _environment(folder: Path) -> dict[str, str]:
    project = folder / "project"
    project.mkdir()
    (project / "a.txt").write_text("a\n", encoding="utf-8")
    (project / "b.txt").write_text("b\n" * 2000, encoding="utf-8")
    (folder / "script.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "HOLDFAST_SCRIPT": str(folder / "script.json"),
    }
