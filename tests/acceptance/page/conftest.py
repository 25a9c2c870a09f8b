"""Chromium, real servers, and pages that fail a test for any error in the console or violation of the policy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, StorageState, expect, sync_playwright
from tests.acceptance.page.machine import PASSWORD, Machine
from tests.acceptance.page.provider import Provider

CHROMIUM = Path(os.environ.get("CHROMIUM") or "/usr/bin/chromium")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) =>
    console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
PATIENCE = 10_000
"""Milliseconds after which something is not slow but missing."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: as long as there is one, this thread has a running loop."""
    if not CHROMIUM.exists():
        assert not os.environ.get("CI"), f"{CHROMIUM} is missing"
        pytest.skip(f"{CHROMIUM} is not installed; `make acceptance` installs it where it can")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    provider = Provider()
    with provider.serving():
        yield provider


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Machine]:
    """A running server for tests that make Sessions of their own on it."""
    machine = Machine(tmp_path_factory.mktemp("machine"), provider.url)
    machine.start()
    yield machine
    machine.close()


@pytest.fixture
def own_machine(tmp_path: Path, provider: Provider) -> Iterator[Machine]:
    """A server for a test that kills it."""
    machine = Machine(tmp_path, provider.url)
    machine.start()
    yield machine
    machine.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Machine]:
    """A server with the Sessions of `holdfast demo`: there is something in every view."""
    machine = Machine(tmp_path_factory.mktemp("demo"), provider.url)
    machine.run("demo")
    machine.start()
    yield machine
    machine.close()


class Pages:
    """Opens pages and keeps what they complain about. `allowed` are patterns of complaints that a test expects."""

    def __init__(self, browser: Browser, states: dict[str, StorageState]) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._states = states
        self.complaints: list[str] = []
        self.allowed: list[str] = []

    def open(
        self,
        machine: Machine,
        path: str = "",
        *,
        signed_in: bool = True,
        width: int = 1440,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        clock: bool = False,
        script: str = "",
        **options: Any,
    ) -> Page:
        """With `clock` the test can let the time of the page pass. `script` runs before those of the page."""
        state = self._state(machine) if signed_in else None
        context = self.context(width=width, height=height, scheme=scheme, storage_state=state, **options)
        if clock:
            context.clock.install()
        if script:
            context.add_init_script(script)
        return self.tab(context, machine.url + path)

    def context(self, *, width: int, height: int, scheme: Literal["light", "dark"], **options: Any) -> BrowserContext:
        viewport = {"width": width, "height": height}
        context = self._browser.new_context(viewport=viewport, color_scheme=scheme, **options)  # type: ignore[arg-type]
        context.add_init_script(REPORT_VIOLATIONS)
        self._contexts.append(context)
        return context

    def tab(self, context: BrowserContext, url: str) -> Page:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        page.goto(url)
        return page

    def close(self) -> list[str]:
        """Returns the complaints that nobody expected."""
        self._picture()
        for context in self._contexts:
            context.close()
        return [it for it in self.complaints if not any(re.search(pattern, it) for pattern in self.allowed)]

    def _picture(self) -> None:
        """What the pages show at the end of a test, for a person who looks for a mistake: HOLDFAST_PICTURES=folder."""
        if folder := os.environ.get("HOLDFAST_PICTURES"):
            open_pages = [page for context in self._contexts for page in context.pages]
            for number, page in enumerate(open_pages):
                page.screenshot(path=Path(folder) / f"{number}.png")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _state(self, machine: Machine) -> StorageState:
        """Both halves of a sign-in, made once for each machine."""
        if machine.url not in self._states:
            page = self.open(machine, signed_in=False)
            sign_in(page)
            self._states[machine.url] = page.context.storage_state()
        return self._states[machine.url]


def sign_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Password")).to_have_count(0)


@pytest.fixture(scope="session")
def states() -> dict[str, StorageState]:
    """The sign-ins so far, by the address of the server."""
    return {}


@pytest.fixture
def pages(browser: Browser, states: dict[str, StorageState]) -> Iterator[Pages]:
    pages = Pages(browser, states)
    yield pages
    assert pages.close() == []
