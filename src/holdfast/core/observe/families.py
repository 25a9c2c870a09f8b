"""Counters, gauges and histograms with bounded labels: what a metric is, and what it counts up."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SERIES = 500
"""Series of one counter. What has other labels is counted with `other` in the place of each."""
OTHER = "other"

Sample = tuple[str, tuple[tuple[str, str], ...], float]
"""The name, the labels with their values, and the value."""


class Family(Frozen):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    def sample(self, value: float, *labels: str) -> Sample:
        return self.name, tuple(zip(self.labels, labels, strict=True)), value


class Counter:
    def __init__(self, family: Family) -> None:
        self.family = family
        self._values: dict[tuple[str, ...], float] = {}
        if not family.labels:
            self._values[()] = 0

    def add(self, value: float, *labels: str) -> None:
        values = self._values
        if labels not in values and len(values) >= SERIES:
            labels = (OTHER,) * len(labels)
        values[labels] = values.get(labels, 0) + value

    def samples(self) -> Iterator[Sample]:
        for labels, value in sorted(self._values.items()):
            yield self.family.sample(value, *labels)


class Histogram:
    def __init__(self, family: Family, bounds: Sequence[float]) -> None:
        self.family = family
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        name, total = self.family.name, 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            yield f"{name}_bucket", (("le", "+Inf" if bound == float("inf") else repr(bound)),), total
        yield f"{name}_sum", (), self._sum
        yield f"{name}_count", (), total


def rendered(families: Iterable[tuple[Family, Iterable[Sample]]]) -> str:
    """Prometheus text, version 0.0.4."""
    lines: list[str] = []
    for family, samples in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for name, labels, value in samples:
            shown = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels)
            lines.append(f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"').encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
