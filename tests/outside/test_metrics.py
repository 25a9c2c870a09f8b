"""`/metrics`, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.conftest import Machine, Server
from tests.outside.test_clients import Serve
from tests.outside.test_docs import ROOT
from tests.outside.wire import Wire, serving

TURNS = (
    {
        "calls": [{"tool": "glob", "input": {"pattern": "*.txt"}}],
        "usage": {"input": 100, "cached": 60, "output": 7, "reasoning": 2},
    },
    {"text": "done", "usage": {"input": 200, "cached": 150, "output": 5}},
    {"fail": 400},
)


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with serving(tmp_path, "--no-auth", HOLDFAST_SCRIPT=str(tmp_path / "script.json")) as wire:
        wire.machine.script(*TURNS)
        yield wire


def scrape(http: httpx2.Client) -> dict[str, float]:
    """Values by name and labels, after the official parser has read them."""
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation and family.type != "unknown" for family in families)
    assert "ses_" not in answer.text
    return {
        " ".join([sample.name, *(sample.labels[name] for name in sorted(sample.labels))]): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_scrape_has_what_was_done_and_what_is_so_now(wire: Wire) -> None:
    """OPS-220, OPS-221: turns, tokens by kind, calls, errors by reason, requests by route; and what goes on now."""
    session = wire.create(model={"id": "scripted", "providerID": "demo"})
    wire.ask(session, "one")
    wire.ask(session, "two")

    found = scrape(wire.http)
    assert found["holdfast_sessions_created_total"] == 1
    assert found["holdfast_inputs_admitted_total"] == 2
    assert found["holdfast_turns_total scripted ended demo"] == 2
    assert found["holdfast_turns_total scripted failed demo"] == 1
    tokens = {kind: found[f"holdfast_tokens_total {kind} scripted demo turn"] for kind in ("input", "cache_read")}
    assert tokens == {"input": 90, "cache_read": 210}
    assert found["holdfast_tool_calls_total success glob"] == 1
    assert found["holdfast_errors_total InvalidRequest"] == 1
    assert found["holdfast_http_requests_total POST /api/session/{sessionID}/prompt 200"] == 2
    assert found["holdfast_commit_seconds_count"] == found["holdfast_commit_seconds_bucket +Inf"] > 0
    assert found["holdfast_turn_seconds_count"] == 3
    assert found["holdfast_sessions running"] == found["holdfast_executing"] == found["holdfast_commit_queue"] == 0
    assert found["holdfast_storage_up"] == 1
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert len([name for name in found if name.startswith("holdfast_build_info ")]) == 1


def test_what_waits_and_who_follows_is_seen_while_it_does(wire: Wire) -> None:
    """OPS-221: Sessions by state, waits by cause, followers."""
    session = wire.create(model={"id": "scripted", "providerID": "demo"})
    (wire.machine.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    wire.machine.script({"calls": [{"tool": "read", "input": {"path": ".env"}}]}, {"text": "done"})
    with wire.http.stream("GET", "/api/event") as stream:
        lines = stream.iter_lines()
        next(lines)  # it is connected
        wire.post(f"{session}/prompt", {"prompt": {"text": "go"}})
        for line in lines:
            if "permission.v2.asked" in line:
                break
        found = scrape(wire.http)
    assert found["holdfast_followers"] == 1
    assert found["holdfast_sessions waiting"] == found["holdfast_waiting permission"] == 1


def test_metrics_need_the_password(holdfast: Machine, serve: Serve) -> None:
    """OPS-220: and the host name of the server."""
    server: Server = serve(OPENCODE_SERVER_PASSWORD="pass")
    with httpx2.Client(base_url=server.url, trust_env=False) as http:
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", auth=("opencode", "pass")).status_code == 200
        assert http.get("/metrics", auth=("opencode", "pass"), headers={"host": "other.example"}).status_code == 403


def test_the_guide_names_every_metric(wire: Wire) -> None:
    """OPS-222: and no other."""
    families = {family.name for family in text_string_to_metric_families(wire.get("/metrics").text)}
    page = (ROOT / "docs" / "how-to" / "observability.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1].removesuffix("_total") for line in page.splitlines() if line.startswith("| `")}
    assert rows == families
