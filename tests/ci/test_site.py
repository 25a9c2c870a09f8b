"""`.ci/site.py`: pages keep their links when they become part of the site."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "docs/README.md": "README.md",
    "docs/spec/README.md": "spec/README.md",
    "docs/how-to/trust.md": "how-to/trust.md",
    "SECURITY.md": "project/security.md",
}


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = spec_from_file_location("site_pages", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("origin", "text", "expected"),
    [
        ("SECURITY.md", "[trust](docs/how-to/trust.md#keys)", "[trust](../how-to/trust.md#keys)"),
        ("docs/how-to/trust.md", "[us](../../SECURITY.md)", "[us](../project/security.md)"),
        ("docs/README.md", "[rules](spec)", "[rules](spec/README.md)"),
        ("docs/README.md", "[the licence](../LICENSE)", "the licence"),
        ("docs/how-to/trust.md", "![a page](../pictures/session.png)", "![a page](../pictures/session.png)"),
        ("docs/README.md", "[away](https://example.com) [here](#top)", "[away](https://example.com) [here](#top)"),
        ("docs/README.md", "`[not](a/link)`", "`[not](a/link)`"),
        ("docs/README.md", "```sh fails\n[not](a/link)\n```\n", "```sh\n[not](a/link)\n```\n"),
        (
            "docs/README.md",
            "see [a] and [b]\n\n[a]: ../LICENSE\n[b]: spec\n",
            "see `a` and [b]\n\n[b]: spec/README.md\n",
        ),
    ],
)
def test_a_link_is_adapted_to_the_place_of_its_page(site: ModuleType, origin: str, text: str, expected: str) -> None:
    assert site.site_text(text, origin, PAGES) == expected


def test_a_link_to_a_missing_file_is_an_error(site: ModuleType) -> None:
    with pytest.raises(site.BrokenLink, match=r"docs/README\.md: no file absent\.md"):
        site.site_text("[gone](absent.md)", "docs/README.md", PAGES)


def test_every_page_is_in_the_navigation_once(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / ".ci" / "site.py", tmp_path], check=True)
    made = tomllib.loads((tmp_path / "zensical.toml").read_text(encoding="utf-8"))
    home, *sections = made["project"]["nav"]
    listed = [home, *(page for section in sections for pages in section.values() for page in pages)]
    source = tmp_path / "source"
    assert sorted(listed) == sorted(str(path.relative_to(source)) for path in source.rglob("*.md"))
