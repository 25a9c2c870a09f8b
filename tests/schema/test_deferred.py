"""Modules that are imported on first use."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import holdfast
from holdfast.embedded.serve import load_deferred
from holdfast.schema import deferred as module
from holdfast.schema.deferred import deferred, load_next

SOURCES = Path(holdfast.__file__).parent
FIRST, SECOND = "deferred_first", "deferred_second"


@pytest.fixture
def two_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules on the path; the first defers the second."""
    (tmp_path / f"{FIRST}.py").write_text(
        f"from holdfast.schema.deferred import deferred\nother = deferred({SECOND!r})\n"
    )
    (tmp_path / f"{SECOND}.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_WAITING", {})
    for name in (FIRST, SECOND):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("two_modules")
def test_the_first_use_imports() -> None:
    """Naming a module does not import it; a module in use is not waited for any more."""
    first = deferred(FIRST)
    assert FIRST not in sys.modules

    other = first.other
    assert FIRST in sys.modules
    assert SECOND not in sys.modules

    assert (other.answer, other.answer) == (42, 42)
    assert not load_next()


@pytest.mark.usefixtures("two_modules")
def test_a_changed_attribute_is_seen() -> None:
    """As of a module that was imported in the ordinary way."""
    second = deferred(SECOND)
    assert second.answer == 42

    sys.modules[SECOND].answer = 43  # type: ignore[attr-defined]

    assert second.answer == 43


def test_a_module_that_does_not_exist_fails_at_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING", {})
    missing = deferred("holdfast.no_such_module")

    with pytest.raises(ModuleNotFoundError):
        _ = missing.anything


@pytest.mark.anyio
@pytest.mark.usefixtures("two_modules")
async def test_a_server_imports_all_of_them() -> None:
    """Also those that a deferred module defers itself."""
    deferred(FIRST)

    await load_deferred()

    assert {FIRST, SECOND} <= sys.modules.keys()


def test_every_deferred_module_exists_and_is_imported_for_the_type_checker() -> None:
    """Checks of types and layers see the imports under TYPE_CHECKING only."""
    found = 0
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        for name in re.findall(r"^    \w+ = deferred\(\"(.*)\"\)$", text, re.MULTILINE):
            package, _, leaf = name.rpartition(".")
            found += 1
            assert find_spec(name) is not None, (path, name)
            expected = rf"    from {package} import (.*, )?{leaf}\b" if package else rf"    import {leaf}\b"
            assert re.search(expected, text.partition("\nelse:\n")[0]), (path, name)
    assert found > 20
