"""Every package that an installation brings with it has a permissive licence. Read offline from installed metadata."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PERMISSIVE = frozenset(
    """
    0BSD any-OSI Apache-2.0 BSD-2-Clause BSD-3-Clause HPND ISC MIT MIT-0 MIT-CMU PSF-2.0 Python-2.0 Unlicense Zlib
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
# Spellings of metadata written before SPDX expressions.
SPELLINGS = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
# For other platforms only, so never installed here.
ABSENT = {"tzdata"}


def test_every_runtime_dependency_has_a_permissive_licence() -> None:
    refused = {name: licence for name in locked() if (licence := refused_licence(name)) is not None}
    assert not refused


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-or-later", False),
        ("LGPL-2.1-only", False),
        ("MPL-2.0", False),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("", False),
    ],
)
def test_a_licence_expression_is_permissive_if_one_of_its_choices_is(expression: str, allowed: bool) -> None:
    assert permissive(expression) is allowed


def locked() -> list[str]:
    lines = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition("==")[0] for line in lines if "==" in line]


def refused_licence(name: str) -> str | None:
    """What the package is licensed under, if it may not be used."""
    try:
        expression = licence(distribution(name))
    except PackageNotFoundError:
        return None if name in ABSENT else "not installed"
    return None if permissive(expression) else expression or "no licence given"


def licence(package: Distribution) -> str:
    """An SPDX expression: as given, else from the short licence field, else from the classifiers."""
    metadata = package.metadata
    given = next((metadata[field] for field in ("License-Expression", "License") if field in metadata), "")
    if not given or "\n" in given:
        classifiers = (line.rpartition(" :: ") for line in metadata.get_all("Classifier") or ())
        given = " AND ".join(SPELLINGS.get(name, name) for kind, _, name in classifiers if kind.startswith("License"))
    return SPELLINGS.get(given, given)


def permissive(expression: str) -> bool:
    """Replaces each name by its verdict and evaluates the operators, parentheses innermost first."""
    verdicts = re.sub(r"[^\s()]+", lambda found: _verdict(found[0]), expression)
    while "(" in verdicts:
        verdicts, changed = re.subn(r"\(([^()]*)\)", lambda found: str(_any_choice(found[1])), verdicts)
        if not changed:
            return False
    return _any_choice(verdicts)


def _verdict(word: str) -> str:
    return word if word in ("AND", "OR") else str(word in PERMISSIVE)


def _any_choice(verdicts: str) -> bool:
    return any(all(word.strip() == "True" for word in choice.split("AND")) for choice in verdicts.split("OR"))
