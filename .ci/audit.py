"""Asks the package index for known vulnerabilities of the locked runtime dependencies, through pip-audit.

Fails if there is one. If the service cannot be reached, or does not know the packages, it says so and does not fail: a
build must not depend on it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

LOCK = "requirements/runtime.txt"
OPTIONS = ["--requirement", LOCK, "--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
SECONDS = 120


def main(pip_audit: list[str]) -> int:
    try:
        ran = subprocess.run([*pip_audit, *OPTIONS], capture_output=True, text=True, timeout=SECONDS, check=False)
        packages = json.loads(ran.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired) as error:
        return not_checked(str(error))
    except (ValueError, KeyError, TypeError):
        return not_checked(ran.stderr.strip().rpartition("\n")[2])
    return report(packages)


def report(packages: list[dict[str, Any]]) -> int:
    checked = [package for package in packages if "skip_reason" not in package]
    if not checked:
        return not_checked(packages[0]["skip_reason"] if packages else f"{LOCK} names no package")
    print(f"audit: {len(checked)} of {len(packages)} packages checked")
    for package in packages:
        if "skip_reason" in package:
            print(f"audit: NOT CHECKED {package['name']}: {package['skip_reason']}")
    found = [(package, problem) for package in checked for problem in package["vulns"]]
    for package, problem in found:
        fixed = ", ".join(problem["fix_versions"]) or "no version"
        print(f"audit: VULNERABLE {package['name']} {package['version']}: {problem['id']} (fixed in {fixed})")
    return 1 if found else 0


def not_checked(reason: str) -> int:
    print(f"audit: NOT CHECKED, the vulnerability service gave no answer: {reason or 'no reason given'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
