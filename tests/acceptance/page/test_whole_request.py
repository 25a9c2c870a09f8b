"""A person sees the whole of what would be allowed before it can be allowed, and nothing in it is hidden."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.actions import ask_cards, conversation, is_idle, press, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

BIDI = "\u202e"
TO_END = "(view) => (view.scrollTop = view.scrollHeight)"


def asking(pages: Pages, machine: Machine, provider: Provider, prompt: str, *replies: Reply) -> Page:
    """A page of a Session whose model waits for an approval."""
    provider.on(prompt, *replies)
    session = machine.create(prompt)
    page = pages.open(machine, f"/#/s/{session}")
    send(page, prompt)
    expect(ask_cards(page)).to_have_count(1)
    return page


def allow(page: Page) -> Locator:
    return ask_cards(page).get_by_role("button", name="Allow once")


def deny(page: Page) -> None:
    ask_cards(page).get_by_role("button", name="Deny").click()
    press(page.get_by_role("button", name="Deny", exact=True))
    is_idle(page)


@pytest.mark.parametrize(
    "command",
    [
        "cd . && FOO=1 mkdir -p build > /dev/null  # and a comment",
        "for i in 1 2; do\n\tmkdir -p made-$i\ndone",
        "mkdir -p 'unfinished",
    ],
)
def test_a_card_shows_the_command_as_it_was_written(
    pages: Pages, machine: Machine, provider: Provider, command: str
) -> None:
    """WEB-510: not the parts of it that rules are about, which only explain it; with the directory in which it runs."""
    (machine.project / "below").mkdir(exist_ok=True)
    page = asking(pages, machine, provider, f"run {len(command)}", calling("bash", command=command, workdir="below"))
    card = ask_cards(page)
    expect(card.locator(".ask-view .ask-code")).to_have_count(1)
    assert card.locator(".ask-view .ask-code").text_content() == command
    expect(card.locator(".ask-place")).to_contain_text(str(machine.project / "below"))
    assert "opaque:" not in card.inner_text()
    deny(page)


def test_a_long_command_is_allowed_only_after_its_end_was_on_the_screen(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-511: the card says why not yet, and denying works at once."""
    command = "\n".join(f"echo step {number}" for number in range(90)) + "\nmkdir -p important-end"
    page = asking(pages, machine, provider, "run it all", calling("bash", command=command), Reply("ran"))
    card = ask_cards(page)
    page.wait_for_timeout(700)
    expect(allow(page)).to_be_disabled()
    expect(card).to_contain_text("Read it to its end to allow it.")
    card.focus()
    page.keyboard.press("a")
    card.get_by_role("button", name="Always").click()
    expect(page.get_by_role("button", name="Always allow")).to_be_disabled()
    page.get_by_role("button", name="Back").click()
    card.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("button", name="Deny", exact=True)).to_be_enabled()
    page.get_by_role("button", name="Back").click()
    view = card.locator(".ask-view")
    assert view.evaluate("(view) => view.scrollHeight > 2 * view.clientHeight")
    card.get_by_role("button", name="Read on").click()
    assert view.evaluate("(view) => view.scrollTop") > 0
    expect(allow(page)).to_be_disabled()
    view.evaluate(TO_END)
    expect(allow(page)).to_be_enabled()
    press(allow(page))
    expect(conversation(page)).to_contain_text("ran")


def test_all_lines_of_a_large_change_can_be_read_before_it_is_allowed(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-511, API-642: six thousand lines leave and five thousand come, in a card and through a link."""
    (machine.project / "big.py").write_text(
        "".join(f"old line {n} {'x' * 30}\n" for n in range(6000)), encoding="utf-8"
    )
    content = "".join(f"new line {n} {'y' * 40}\n" for n in range(5000))
    page = asking(pages, machine, provider, "rewrite it", calling("write", path="big.py", content=content), Reply("ok"))
    link = machine.run("sessions", "link", page.url.rpartition("/")[2]).strip()
    phone = pages.tab(pages.context(width=360, height=740, scheme="light"), link)
    for shown, button in ((page, allow(page)), (phone, phone.get_by_role("button", name="Allow once"))):
        view = shown.locator(".ask-view")
        expect(view).to_contain_text("old line 0")
        shown.wait_for_timeout(600)
        expect(button).to_be_disabled()
        for _ in range(100):
            view.evaluate(TO_END)
            shown.wait_for_timeout(50)
            if button.is_enabled():
                break
        expect(button).to_be_enabled()
        expect(view).to_contain_text("new line 4999")
        assert view.locator("tr.add, tr.rem").count() == 11_000
        assert view.evaluate("(view) => view.scrollWidth <= view.clientWidth")  # nothing is beside what was read
    press(phone.get_by_role("button", name="Allow once"))
    expect(phone.get_by_role("heading", name="Allowed once")).to_be_visible()
    expect(conversation(page)).to_contain_text("ok")


def test_a_link_shows_the_command_once_with_its_directory(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-510: and says in words what is asked for."""
    page = asking(pages, machine, provider, "tag from afar", calling("bash", command="git tag afar  # from here"))
    link = machine.run("sessions", "link", page.url.rpartition("/")[2]).strip()
    phone = pages.tab(pages.context(width=360, height=740, scheme="light"), link)
    main = phone.get_by_role("main")
    expect(phone.get_by_role("heading", level=1)).to_have_text("build wants to run a command")
    expect(main).to_contain_text(f"in {machine.project}")
    assert main.inner_text().count("git tag afar  # from here") == 1
    deny(page)


def test_what_cannot_be_read_cannot_be_allowed(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-511: the card says so and tries again; denying works."""
    pages.allowed.append("status of 503")
    provider.on("hide it", calling("bash", command="git tag hidden"))
    session = machine.create("Hidden")
    page = pages.open(machine, f"/#/s/{session}")
    failure = {"_tag": "ServiceUnavailableError", "message": "The disk is full."}
    page.route("**/preview", lambda route: route.fulfill(status=503, json=failure))
    send(page, "hide it")
    card = ask_cards(page)
    expect(card).to_contain_text("cannot be allowed here. The disk is full.")
    expect(allow(page)).to_be_disabled()
    page.unroute("**/preview")
    card.get_by_role("button", name="Try again").click()
    expect(allow(page)).to_be_enabled()
    deny(page)


@pytest.mark.parametrize("width", [390, 1440])
def test_reading_back_the_card_is_one_line_that_opens_it(
    pages: Pages, machine: Machine, provider: Provider, width: int
) -> None:
    """WEB-514: no answer is offered beside a fragment; opening it moves nothing that is read."""
    provider.on("ask me later", calling("bash", command="git tag later"))
    session = machine.create("Reading back")
    machine.say(session, (f"Message {number}.\n\nwith a second line" for number in range(40)))
    machine.prompt(session, "ask me later")
    page = pages.open(machine, f"/#/s/{session}", width=width)
    expect(allow(page)).to_be_visible()
    conversation(page).evaluate("(log) => (log.scrollTop -= 1500)")
    shown = page.get_by_role("button", name=re.compile("1 request needs you"))
    expect(shown).to_be_visible()
    expect(page.get_by_role("button", name="Allow once")).to_have_count(0)
    read = conversation(page).get_by_role("article").filter(has_text="Message 3").first
    before = read.evaluate("(el) => el.getBoundingClientRect().top")
    shown.click()
    expect(allow(page)).to_be_enabled()
    assert abs(read.evaluate("(el) => el.getBoundingClientRect().top") - before) < 2
    deny(page)


def test_hidden_characters_are_visible_wherever_a_text_is(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-515: in the state of a Session, in lists and titles, on cards; by one table, the same as in terminals."""
    command = f"git tag {BIDI}gnp.exe\u200b\u00a0x"
    page = asking(pages, machine, provider, f"disguise{BIDI}esiugsid", calling("bash", command=command))
    expect(ask_cards(page).locator(".ask-code").first).to_have_text("git tag ⟨U+202E⟩gnp.exe⟨U+200B⟩⟨U+00A0⟩x")
    expect(page.locator(".s-state")).to_contain_text("U+202E")
    for place in ("", "#/", "#/inbox"):
        page.goto(f"{machine.url}/{place}" if place else page.url)
        expect(page.get_by_role("main")).to_contain_text("U+202E")
        everything = page.evaluate(
            """() => document.title + document.body.innerText
                + [...document.querySelectorAll('[title],[aria-label]')].map((el) => el.title + el.ariaLabel).join()"""
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", everything)
    page.goto(f"{machine.url}/#/inbox")
    press(ask_cards(page).filter(has_text="gnp.exe").get_by_role("button", name="Deny"))
    press(page.get_by_role("button", name="Deny", exact=True))


def test_the_page_and_terminals_have_one_table_of_hidden_characters(pages: Pages, machine: Machine) -> None:
    """WEB-515, TOL-318."""
    from holdfast.text.visible_text import visible

    page = pages.open(machine)
    script = """async () => {
        const { exact } = await import(`./web/assets/${document.documentElement.dataset.version}/dom.js`);
        const found = [];
        for (let code = 0; code <= 0x10ffff; code++) {
            if (exact(String.fromCodePoint(code)).includes('U+')) found.push(code);
        }
        return found;
    }"""
    expected = [code for code in range(0x110000) if visible(chr(code)) != chr(code)]
    assert page.evaluate(script) == expected
