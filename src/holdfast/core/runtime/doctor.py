"""A check of the whole store, of what is around it, and of the server's own configuration, with what a person can do
about each finding."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.core.location.report import report_of
from holdfast.schema.exceptions import Conflict
from holdfast.schema.overview import DoctorFinding, DoctorReport

if TYPE_CHECKING:
    from holdfast.core.event.log import EventLog
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.environment_checks import EnvironmentChecks
    from holdfast.schema.configuration import ConfigProblem
    from holdfast.schema.location import Location

MOST_FINDINGS = 200
REBUILD = "`holdfast doctor --rebuild` makes these rows anew from the event log"


class Doctor:
    """One check at a time: it reads everything that is stored."""

    def __init__(
        self,
        log: EventLog,
        environment: EnvironmentChecks,
        locations: ServiceMap[LocationServices],
        location: Location,
    ) -> None:
        self._log = log
        self._environment = environment
        self._locations = locations
        self._location = location
        self._examining = False

    async def examine(self) -> DoctorReport:
        """Raises Conflict while another check runs. May be cancelled at any time; it writes nothing."""
        if self._examining:
            raise Conflict(
                "A check is under way. Its caller gets the report; ask again when it has ended.", resource="doctor"
            )
        self._examining = True
        began = time.monotonic()
        try:
            aggregates = await self._log.aggregates()
            findings = await self._differing_rows(aggregates)
            async with self._locations.use(self._location) as services:
                findings += [_configuration(problem) for problem in (await report_of(services)).problems]
            findings += await self._environment.findings()
        finally:
            self._examining = False
        return DoctorReport(
            sessions=len(aggregates),
            milliseconds=round((time.monotonic() - began) * 1000),
            findings=tuple(_bounded(findings)),
        )

    async def _differing_rows(self, aggregates: list[str]) -> list[DoctorFinding]:
        found: Counter[tuple[str, str]] = Counter()
        async with aclosing(self._log.verify(aggregates)) as mismatches:
            async for mismatch in mismatches:
                found[mismatch.aggregate_id, mismatch.table] += 1
        return [
            DoctorFinding(
                check="rows",
                level="error",
                what=f"{aggregate_id}: {_rows(count, table)} from the event log",
                fix=REBUILD,
            )
            for (aggregate_id, table), count in found.items()
        ]


def _configuration(problem: ConfigProblem) -> DoctorFinding:
    place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
    change = f"write {problem.suggestion} instead" if problem.suggestion else "correct or remove it"
    return DoctorFinding(
        check="configuration",
        level=problem.severity,
        what=f"{place}: {problem.message}",
        fix=f"{change}, in {problem.path}",
    )


def _rows(count: int, table: str) -> str:
    return f"1 row of {table} differs" if count == 1 else f"{count} rows of {table} differ"


def _bounded(findings: list[DoctorFinding]) -> list[DoctorFinding]:
    """Errors first."""
    ordered = sorted(findings, key=lambda finding: finding.level)
    if len(ordered) <= MOST_FINDINGS:
        return ordered
    more = len(ordered) - MOST_FINDINGS
    what = "1 finding is not told" if more == 1 else f"{more} findings are not told"
    rest = DoctorFinding(check="rows", level="warning", what=what, fix="`holdfast doctor` counts all of them")
    return [*ordered[:MOST_FINDINGS], rest]
