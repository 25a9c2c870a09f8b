"""Where traces are sent: `holdfast.telemetry` of the user's configuration, or OpenTelemetry's own variables. A project
cannot say it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.core.config.user_settings import UnusableSetting, user_section
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "telemetry"
TRACES_PATH = "/v1/traces"
ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS, TRACES_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SERVICE = "OTEL_SERVICE_NAME"
SERVICE_NAME = "holdfast"

log = logging.getLogger(__name__)


class TraceSettings(Frozen):
    endpoint: str
    """The whole address that spans are sent to."""
    headers: dict[str, str]
    service: str = SERVICE_NAME


def configured_traces(environment: Mapping[str, str]) -> TraceSettings | None:
    """None if no traces are wanted. The user's configuration comes before the environment. Raises UnusableSetting for
    a configuration that cannot be used. Variables may be meant for other programs: unusable ones are only told."""
    service = environment.get(SERVICE) or SERVICE_NAME
    found = user_section(environment, SECTION)
    if (endpoint := found.get("traces")) is not None:
        try:
            return TraceSettings(traces_address(endpoint), dict(found.get("headers") or {}), service)
        except ValueError as error:
            raise UnusableSetting("configuration", f"holdfast.{SECTION}.traces", str(error)) from None
    whole, base = environment.get(TRACES_ENDPOINT), environment.get(ENDPOINT)
    if not (whole or base) or _is_off(environment):
        return None
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        log.warning("no traces are sent: %s is not supported, only http/protobuf", protocol[:50])
        return None
    try:
        address = _checked(whole) if whole else f"{_checked(base or '').rstrip('/')}{TRACES_PATH}"
    except ValueError as error:
        log.warning("no traces are sent to the endpoint of the environment: %s", error)
        return None
    return TraceSettings(address, _headers(environment.get(TRACES_HEADERS) or environment.get(HEADERS) or ""), service)


def traces_address(given: str) -> str:
    """The address of a collector with the path for traces. Raises ValueError."""
    base = _checked(given).rstrip("/")
    return base if base.endswith(TRACES_PATH) else f"{base}{TRACES_PATH}"


def _checked(given: str) -> str:
    from holdfast.http.url import parse  # most processes export nothing

    try:
        parse(given)
    except ValueError as error:
        raise ValueError(f"expected an address such as http://127.0.0.1:4318: {error}") from None
    return given


def _is_off(environment: Mapping[str, str]) -> bool:
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return disabled or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"


def _headers(text: str) -> dict[str, str]:
    """`name=value` separated by commas, encoded as in an address."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs if name.strip()}
