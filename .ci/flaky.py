"""Runs pytest with the given arguments, then each test that failed once more, alone in a process of its own.

Those that pass then are printed as `FLAKY <node id>`. If all do, the run succeeds; they are to be fixed in the next
commit."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST_RERUN = 20
"""More failures than this have a common cause; running them again would only hide it behind noise."""


def main(arguments: list[str]) -> int:
    failures = Failures()
    code = int(pytest.main(arguments, plugins=[failures]))
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failures.tests) <= MOST_RERUN or failures.modules:
        return code
    print(f"running {len(failures.tests)} failed tests again, alone", flush=True)
    flaky = [test for test in failures.tests if passes_alone(test)]
    for test in flaky:
        print(f"FLAKY {test}", flush=True)
    return 0 if len(flaky) == len(failures.tests) else code


class Failures:
    """A pytest plugin that collects what failed: in the test itself, its fixtures, or while a module was imported."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.modules: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.tests:
            self.tests.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.modules.append(report.nodeid)


def passes_alone(test: str) -> bool:
    return subprocess.run([sys.executable, "-m", "pytest", "--quiet", test], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
