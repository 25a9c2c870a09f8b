"""`.ci/sbom.py`: the bill of materials names what is locked, and is the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def bill() -> str:
    command = [sys.executable, str(ROOT / ".ci" / "sbom.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_locked_package_is_in_the_bill_of_materials() -> None:
    made = json.loads(bill())
    lines = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    locked = [f"pkg:pypi/{line.split()[0].replace('==', '@')}" for line in lines if "==" in line]
    assert (made["bomFormat"], made["specVersion"], made["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "holdfast-runtime",
    )
    assert [component["purl"] for component in made["components"]] == locked
    assert set(made["dependencies"][0]["dependsOn"]) <= set(locked)


def test_the_bill_of_materials_is_the_same_every_time() -> None:
    assert bill() == bill()
