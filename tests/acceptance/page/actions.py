"""What people do on the page and what they see there, by the names that assistive technology uses."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def conversation(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def message_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def send(page: Page, text: str, *, delivery: str | None = None) -> None:
    if delivery is not None:
        page.get_by_role("group", name="Delivery").get_by_role("button", name=delivery).click()
    message_box(page).fill(text)
    page.get_by_role("button", name="Send").click()


def connection(page: Page) -> Locator:
    return page.get_by_role("status", name="Connection")


def ask_cards(page: Page) -> Locator:
    """Requests that wait for the person."""
    return page.get_by_role("main").locator("article").filter(has=page.get_by_role("button", name="Allow once"))


def press(button: Locator) -> None:
    """Answers with a button once it stands in view: one that has just been scrolled there answers nothing."""
    button.hover()  # scrolls as a click would
    button.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(button).to_be_enabled()
    button.click()


def look_away(page: Page) -> None:
    """Takes the pointer off the cards, which leave only then."""
    page.mouse.move(2, 2)


def is_idle(page: Page) -> None:
    """Nothing runs in the Session that is shown."""
    expect(page.get_by_role("button", name="Interrupt")).to_have_count(0)


def shown_text(page: Page) -> str:
    """The words of the conversation, without times and durations, which change by themselves."""
    script = """
    (log) => [...log.querySelectorAll('article')].map((article) => {
        const copy = article.cloneNode(true);
        copy.querySelectorAll('time, .since, .num, .d, button').forEach((el) => el.remove());
        return copy.textContent.replace(/\\s+/g, ' ').trim();
    }).filter(Boolean).join('\\n')
    """
    text: str = conversation(page).evaluate(script)
    return text
