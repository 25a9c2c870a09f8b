"""The modules of the page as they are shipped: what the first view loads, and where markup can enter the document."""

from __future__ import annotations

import re
from importlib.resources import files

ASSETS = {
    file.name: file.read_text(encoding="utf-8")
    for file in (files("holdfast.server.web") / "assets").iterdir()
    if file.name.endswith((".js", ".css", ".html"))
}
MODULES = {name: text for name, text in ASSETS.items() if name.endswith(".js")}


def _imports(name: str) -> set[str]:
    return set(re.findall(r"^(?:import|export)\b[^;]*?from '\./([\w.-]+)';", MODULES[name], re.MULTILINE))


def test_the_first_view_loads_six_files() -> None:
    """WEB-400."""
    loaded: set[str] = set()
    waiting = {"app.js"}
    while waiting:
        name = waiting.pop()
        loaded.add(name)
        waiting |= _imports(name) - loaded
    named = set(re.findall(r'(?:src|href)="([\w.-]+\.\w+)"', ASSETS["index.html"]))
    assert loaded | named | {"index.html"} == {"index.html", "app.css", "app.js", "dom.js", "data.js"}
    for first in ("home.js", "sign-in.js"):  # one of them is the sixth
        assert _imports(first) <= loaded


def test_modules_import_only_modules_of_the_page() -> None:
    """WEB-400."""
    for name, text in MODULES.items():
        named = re.findall(r"""(?:from|import\() ?'([^']+)'""", text)
        assert {f"./{module}" for module in MODULES}.issuperset(named), name


def test_markup_enters_the_document_in_one_place() -> None:
    """WEB-401."""
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setHTMLUnsafe|srcdoc"
    assert {name for name, text in MODULES.items() if re.search(sinks, text)} == {"dom.js"}
    assert MODULES["dom.js"].count("innerHTML") == 1
    assert not [
        name for name, text in MODULES.items() if re.search(r"\beval\(|new Function\(|setAttribute\('style'", text)
    ]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", ASSETS["index.html"])


def test_nothing_is_loaded_from_elsewhere() -> None:
    """WEB-400."""
    for name, text in ASSETS.items():
        addresses = set(re.findall(r"https?://[\w./-]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
