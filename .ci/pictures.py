"""Makes the pictures of the page in docs/pictures: `holdfast demo` on a real server, seen with Chromium.

`python .ci/pictures.py [folder]`. They show a clock, so they differ with every run: they are made by hand when the page
changes, and no check compares them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx2
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
CHROMIUM = os.environ.get("CHROMIUM") or "/usr/bin/chromium"
DESKTOP = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=780)
MOST_BYTES = 150_000
MAIN = "Fix the lost cent"


class Picture(NamedTuple):
    name: str
    path: str
    """`{id}` is the Session of the story."""
    dark: bool = False
    phone: bool = False


PICTURES = (
    Picture("sessions", "#/"),
    Picture("session", "#/s/{id}"),
    Picture("session-dark", "#/s/{id}/timeline", dark=True),
    Picture("needs-you", "#/inbox"),
    Picture("needs-you-phone", "#/inbox", phone=True),
    Picture("session-phone-dark", "#/s/{id}", dark=True, phone=True),
    Picture("cache", "#/s/{id}/cache"),
    Picture("cost-dark", "#/s/{id}/cost", dark=True),
    Picture("changes", "#/s/{id}/changes"),
    Picture("events-past", "#/s/{id}/events?at=60"),
    Picture("system", "#/system"),
    Picture("new-session-dark", "#/new", dark=True),
)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        found = httpx2.get(f"{url}/api/session", params={"limit": 100}, trust_env=False).json()["data"]
        session = next(session["id"] for session in found if session["title"] == MAIN)
        for picture in PICTURES:
            size = save(
                take(browser, f"{url}/{picture.path.format(id=session)}", picture), folder / f"{picture.name}.png"
            )
            print(f"{picture.name}.png {size:,} bytes")
        browser.close()


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """A server on the demo's Sessions."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HOLDFAST_DATA": str(home / "data")}
    project = home / "projects" / "bill"
    project.parent.mkdir()
    subprocess.run([HOLDFAST, "demo", "--directory", str(project)], env=environment, check=True, capture_output=True)
    command = [HOLDFAST, "serve", "--no-auth", "--port", "0"]
    options = {"cwd": project, "env": environment, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as server:  # type: ignore[call-overload]
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def take(browser: Browser, url: str, picture: Picture) -> bytes:
    context = browser.new_context(
        viewport=PHONE if picture.phone else DESKTOP,
        color_scheme="dark" if picture.dark else "light",
        is_mobile=picture.phone,
        has_touch=picture.phone,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    wait(page, picture)
    taken = page.screenshot()
    context.close()
    return taken


def wait(page: Page, picture: Picture) -> None:
    """Until everything is loaded and the connection is live."""
    expect(page.get_by_role("status", name="Connection")).to_have_text("Live")
    if picture.path.startswith("#/s/"):
        expect(page.get_by_role("log").get_by_role("article").first).to_be_visible()
    if "?at=" in picture.path:
        expect(page.get_by_role("log")).not_to_contain_text("CHANGELOG.md")  # the newest prompt is not there yet
    if picture.path.count("/") == 3:
        expect(page.get_by_role("tabpanel").locator("h3, .stat, .evrow").first).to_be_visible()
    expect(page.get_by_role("img", name="Loading")).to_have_count(0)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def save(png: bytes, path: Path) -> int:
    """With at most 256 colours, which a page does not exceed to the eye."""
    image = Image.open(BytesIO(png)).convert("RGB").quantize(256)
    image.save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path} has {size} bytes"
    return size


if __name__ == "__main__":
    main()
