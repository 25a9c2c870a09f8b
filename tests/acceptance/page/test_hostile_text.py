"""Text that wants to be more than text: of a model, of a command, of a file name."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.page.actions import conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

MARKUP = """\
<script>window.taken = 1</script>
<img src=x onerror="window.taken = 2"><svg onload="window.taken = 3"></svg>
<iframe srcdoc="<script>parent.taken = 4</script>"></iframe>
[click me](javascript:window.taken=5) <a href="javascript:window.taken=6">and me</a>
![remote](https://evil.example/pixel.png) <style>body { display: none }</style>
<form action="https://evil.example"><input name=password></form>
<div style="position:fixed;inset:0">cover</div> <base href="https://evil.example/">
```html
<script>window.taken = 7</script>
```
"""
TERMINAL = (
    r"printf '\033[31mred\033[0m \033]0;owned\007 \033[2J\033[1;1H after \342\200\256 txet "
    r"\033]8;;javascript:alert(1)\033\\link\033]8;;\033\\\n'"
)
LINE = 5_000_000


@pytest.fixture
def requests() -> list[str]:
    return []


def watch(page: Page, machine: Machine, requests: list[str]) -> None:
    """Keep every request that goes elsewhere."""
    page.on(
        "request",
        lambda it: requests.append(it.url) if not it.url.startswith((machine.url, "blob:", "data:")) else None,
    )


def inert(page: Page, requests: list[str]) -> None:
    assert page.evaluate("window.taken") is None
    assert requests == []
    log = conversation(page)
    assert (
        log.locator("script, iframe, form, style, base, object, embed, [onerror], [onload], [style*=fixed]").count()
        == 0
    )
    assert log.locator("a[href^='javascript']").count() == 0
    assert log.locator("img").count() == 0
    expect(message_box(page)).to_be_visible()


def test_markup_of_a_model_is_text(pages: Pages, machine: Machine, provider: Provider, requests: list[str]) -> None:
    """WEB-501: while it is written, when it is complete, as reasoning, as a prompt and as a title."""
    provider.on(
        "be hostile", Reply(text=[*(piece + "\n" for piece in MARKUP.split("\n")), "the end"], reasoning=MARKUP)
    )
    session = machine.create(title="<img src=x onerror=window.taken=8>")
    page = pages.open(machine, f"/#/s/{session}")
    watch(page, machine, requests)
    send(page, f"be hostile {MARKUP}")
    expect(conversation(page)).to_contain_text("the end")
    is_idle(page)
    inert(page, requests)
    for link in conversation(page).get_by_role("link", name="click me").all():
        link.click()
    page.reload()
    expect(conversation(page)).to_contain_text("the end")
    inert(page, requests)
    page.goto(f"{machine.url}/#/")
    expect(page.get_by_role("main")).to_contain_text("<img src=x onerror=window.taken=8>")
    assert page.evaluate("window.taken") is None


def test_a_terminal_is_shown_without_its_control(
    pages: Pages, machine: Machine, provider: Provider, requests: list[str]
) -> None:
    """WEB-501: colours stay; what moves, renames, hides or turns the direction of text is gone."""
    provider.on("run it", calling("bash", command=TERMINAL), Reply("it ran"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    watch(page, machine, requests)
    title = page.title()
    send(page, "run it")
    expect(conversation(page)).to_contain_text("it ran")
    conversation(page).locator("details.call summary").first.click()
    body = conversation(page).locator("details.call")
    expect(body).to_contain_text("red")
    shown = body.inner_text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    inert(page, requests)
    assert "owned" not in page.title()
    assert title


def test_a_line_of_five_megabytes(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-501: as an answer and as the output of a command; the page stays usable."""
    provider.on("a long line", calling("bash", command=f"head -c {LINE} /dev/zero | tr '\\0' x"), Reply("y" * LINE))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "a long line")
    expect(conversation(page).get_by_role("article", name="Summary")).to_be_visible()
    is_idle(page)
    conversation(page).evaluate("(log) => (log.scrollTop = 0)")
    conversation(page).locator("details.call summary").first.click()
    expect(conversation(page).locator("details.call")).to_contain_text("xxxxx")
    send(page, "still there?")
    expect(conversation(page)).to_contain_text("done")
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
