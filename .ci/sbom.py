"""Prints a software bill of materials (CycloneDX 1.6, JSON) of the locked runtime dependencies.

Made offline from the lock file and the metadata of installed packages. The same lock gives the same bytes: no time and
no serial number is in it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: *; *(?P<marker>[^\\]+?))? *\\?")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    components = [component(found) for line in lock_lines() if (found := LOCKED.fullmatch(line))]
    references = {entry["name"]: entry["bom-ref"] for entry in components}
    direct = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in project["dependencies"]]
    root = {
        "type": "library",
        "bom-ref": project["name"],
        "name": project["name"],
        "version": metadata(project["name"])["Version"],
        "licenses": [{"expression": project["license"]}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": [{"ref": project["name"], "dependsOn": sorted(references[name] for name in direct)}],
    }
    json.dump(bill, sys.stdout, indent=2, sort_keys=True)
    print()


def lock_lines() -> list[str]:
    return (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()


def component(found: re.Match[str]) -> dict[str, Any]:
    name, version, marker = found["name"], found["version"], found["marker"]
    reference = f"pkg:pypi/{name}@{version}"
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
    }
    if licences := licences_of(name):
        entry["licenses"] = licences
    if marker:
        entry["properties"] = [{"name": "holdfast:marker", "value": marker.strip()}]
    return entry


def licences_of(name: str) -> list[dict[str, Any]]:
    """Empty for a package of another platform, which is not installed here."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return []
    if "License-Expression" in about:
        return [{"expression": about["License-Expression"]}]
    classifiers = [line for line in about.get_all("Classifier") or () if line.startswith("License :: OSI Approved")]
    names = [about["License"]] if "License" in about else [line.rpartition(" :: ")[2] for line in classifiers]
    return [{"license": {"name": name}} for name in names]


if __name__ == "__main__":
    main()
