"""Prepares the documentation for the site generator: `python .ci/site.py build` fills `build/` for `zensical build`.

Pages of `docs/` and of the root of the repository are copied, and the pictures. Links between pages are adapted to
their new places, links to other files of the repository become plain text, and a link to a file that does not exist is
an error. The navigation follows from the folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How-to guides",
    "reference": "Reference",
    "explanation": "Explanation",
    "spec": "Specification",
    "adr": "Decisions",
    "project": "Project",
}
FROM_ROOT = {
    "CONTEXT.md": "explanation/glossary.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
PICTURES = "docs/pictures/"
# Code is matched first, so that what looks like a link inside it is left alone.
CODE = r"(?P<code>^```.*?^```$|`[^`\n]+`)"
LINK = re.compile(CODE + r"|(?P<text>\[[^\]\n]*\])\((?P<target>[^)\s]+)\)", re.MULTILINE | re.DOTALL)
DEFINITION = re.compile(r"^\[(?P<label>[^\]\n]+)\]: (?P<target>\S+)$\n?", re.MULTILINE)
FENCE_OPTIONS = re.compile(r"^(```\w+) [^\n]*$", re.MULTILINE)


class BrokenLink(Exception):
    def __init__(self, page: str, target: str) -> None:
        super().__init__(f"{page}: no file {target}")


def main(folder: Path) -> int:
    pages = site_pages(ROOT)
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    for origin, place in pages.items():
        text = (ROOT / origin).read_text(encoding="utf-8")
        path = source / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(site_text(text, origin, pages), encoding="utf-8")
    shutil.copytree(ROOT / PICTURES, source / "pictures")
    (folder / "zensical.toml").write_text(configuration(pages), encoding="utf-8")
    return 0


def site_pages(root: Path) -> dict[str, str]:
    """Where each Markdown file of the repository, by its path, is in the site."""
    docs = sorted(path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md"))
    pages = {f"docs/{path}": path for path in docs} | FROM_ROOT
    for origin, place in pages.items():
        # Of two pages that want to be the first of a folder, README.md is; GitHub shows it too.
        if place.endswith("/index.md") and origin.replace("index.md", "README.md") in pages:
            pages[origin] = place.replace("index.md", "contents.md")
    return pages


def site_text(text: str, origin: str, pages: dict[str, str]) -> str:
    """The text of a page for its place in the site. Raises BrokenLink."""
    text = FENCE_OPTIONS.sub(r"\1", text)
    text = _adapt_definitions(text, origin, pages)

    def adapted(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        target = _in_site(found["target"], origin, pages)
        return f"{found['text']}({target})" if target else found["text"][1:-1]

    return LINK.sub(adapted, text)


def _adapt_definitions(text: str, origin: str, pages: dict[str, str]) -> str:
    """The same for reference links; those to files outside the site become code."""
    outside = set()

    def adapted(found: re.Match[str]) -> str:
        target = _in_site(found["target"], origin, pages)
        if target is None:
            outside.add(found["label"])
        return f"[{found['label']}]: {target}\n" if target else ""

    text = DEFINITION.sub(adapted, text)
    return re.sub(r"\[([^\]\n]+)\](?!\()", lambda found: f"`{found[1]}`" if found[1] in outside else found[0], text)


def _in_site(target: str, origin: str, pages: dict[str, str]) -> str | None:
    """The same link from the page's place in the site; None when it leads to a file that is not part of it."""
    if re.match(r"[a-z]+:|#", target):
        return target
    path, hash, anchor = target.partition("#")
    found = os.path.normpath(os.path.join(os.path.dirname(origin), path))
    if not (ROOT / found).exists():
        raise BrokenLink(origin, target)
    if (ROOT / found).is_dir():
        found = f"{found}/README.md"
    place = found.removeprefix("docs/") if found.startswith(PICTURES) else pages.get(found)
    if place is None:
        return None
    return os.path.relpath(place, os.path.dirname(pages[origin]) or ".") + hash + anchor


def configuration(pages: dict[str, str]) -> str:
    navigation: list[object] = ["README.md"]
    for folder, title in SECTIONS.items():
        inside = [place for place in pages.values() if place.startswith(f"{folder}/")]
        navigation.append({title: sorted(inside, key=lambda place: (not place.endswith("README.md"), place))})
    lines = [
        "[project]",
        'site_name = "Holdfast"',
        'docs_dir = "source"',
        'site_dir = "site"',
        "use_directory_urls = false",
        f"nav = {_toml(navigation)}",
        "[project.theme]",
        "font = false",
        'features = ["content.code.copy", "navigation.indexes", "navigation.sections", "toc.follow"]',
    ]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    match value:
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(key)} = {_toml(inside)}' for key, inside in value.items())}}}"
        case _:
            return json.dumps(value)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
