"""Traces of OpenTelemetry, made from the logs of Sessions alone: the same log always gives the same bytes."""
