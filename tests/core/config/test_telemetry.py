"""Where traces are sent, and how the log is written, by the user's configuration and the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.config.logs import LogSettings, configured_logs
from holdfast.core.config.telemetry import TraceSettings, configured_traces
from holdfast.core.config.user_settings import UnusableSetting

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318/"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def configure(environment: dict[str, str], own: dict[str, Any] | str) -> None:
    folder = Path(environment["XDG_CONFIG_HOME"]) / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    text = own if isinstance(own, str) else json.dumps({"holdfast": own})
    (folder / "opencode.json").write_text(text, encoding="utf-8")


def test_without_a_word_there_are_no_traces(environment: dict[str, str]) -> None:
    assert configured_traces(environment) is None
    assert configured_logs(environment) == LogSettings("warning", "text")


def test_the_configuration_comes_before_the_environment(environment: dict[str, str]) -> None:
    headers = {"authorization": "Bearer {env:TOKEN}"}
    configure(environment, {"telemetry": {"traces": "https://collector.example/otlp", "headers": headers}})
    found = configured_traces({**environment, **ENDPOINT, "TOKEN": "t0ken", "OTEL_SERVICE_NAME": "agents"})
    assert found == TraceSettings(
        "https://collector.example/otlp/v1/traces", {"authorization": "Bearer t0ken"}, "agents"
    )


def test_variables_name_a_base_or_the_whole_address(environment: dict[str, str]) -> None:
    base, whole = (
        configured_traces({**environment, **ENDPOINT, **more})
        for more in ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/x"})
    )
    assert base is not None
    assert whole is not None
    assert (base.endpoint, whole.endpoint) == ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:9/x")


@pytest.mark.parametrize(
    "more",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
    ],
)
def test_variables_for_other_programs_do_no_harm(environment: dict[str, str], more: dict[str, str]) -> None:
    assert configured_traces({**environment, **ENDPOINT, **more}) is None


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (
            {"telemetry": {"traces": "collector"}},
            "holdfast.telemetry.traces cannot be used: expected an address such as",
        ),
        ({"telemetry": {"traces": 5}}, "holdfast.telemetry.traces cannot be used"),
        ('{"holdfast": {"telemetry": ', "holdfast.telemetry cannot be used: the file mentions it, and"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(
    environment: dict[str, str], own: dict[str, Any] | str, reason: str
) -> None:
    configure(environment, own)
    with pytest.raises(UnusableSetting, match=reason):
        configured_traces(environment)
