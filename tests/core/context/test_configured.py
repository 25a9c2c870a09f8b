"""Configured instructions: local entries of the configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.core.context.places import Place, baseline, forbidden, instructions, stored, told

from holdfast.core.context import configured as module
from holdfast.core.context.configured import ConfiguredEntry as Entry
from holdfast.core.context.configured import ConfiguredInstructions, is_remote
from holdfast.core.context.file_cache import Child
from holdfast.core.context.instructions import SET_TOO_LARGE

pytestmark = pytest.mark.anyio


def configured(place: Place, *entries: Entry) -> ConfiguredInstructions:
    return ConfiguredInstructions(entries, place.files(), place.cache, place.base / "home")


async def test_entries_are_resolved_from_their_document_and_said_in_order(place: Place) -> None:
    """CTX-142, CTX-143, CTX-144: document order, each file once, home, absolute, relative and patterns."""
    home = place.base / "home" / "mine.md"
    home.parent.mkdir()
    home.write_text("home", encoding="utf-8")
    absolute = place.base / "anywhere.md"
    absolute.write_text("absolute", encoding="utf-8")
    b, a = place.write("docs/b.md", "b"), place.write("docs/a.md", "a")
    service = configured(
        place,
        Entry("~/mine.md", place.config, "user"),
        Entry(str(absolute), place.config, "user"),
        Entry("docs/b.md", place.root, "untrusted"),
        Entry("./docs/*.md", place.root, "untrusted"),
        Entry("https://example.com/x.md", place.root, "untrusted"),
    )
    context = service.context()
    assert await baseline(context) == instructions((home, "home"), (absolute, "absolute"), (b, "b"), (a, "a"))
    assert list(await stored(context)) == [module.KEY] == ["core/instructions/configured"]
    assert module.CONTRIBUTION == "core/instructions-configured"
    assert service.urls() == ["https://example.com/x.md"]


def count_threads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that are made in a thread from now on."""
    called: list[Any] = []
    real = asyncio.to_thread

    async def to_thread(call: Any) -> Any:
        called.append(call)
        return await real(call)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    return called


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("https://x.org/a.md", True),
        ("HTTP://x.org", True),
        ("http:relative", False),
        ("file:///etc/passwd", False),
        ("docs/https://x", False),
        ("http://[broken", False),
    ],
)
def test_only_an_http_url_is_a_remote_instruction(text: str, remote: bool) -> None:
    """CTX-142: an http or https URL; everything else is a path."""
    assert is_remote(text) is remote


async def test_a_path_or_pattern_without_a_file_is_absence(place: Place) -> None:
    """CTX-145: confirmed; a file that goes later is said to be gone."""
    service = configured(place, Entry("no.md", place.root, "untrusted"), Entry("no/*.md", place.root, "untrusted"))
    assert await baseline(service.context()) == ""
    file = place.write("no/x.md", "x")
    snapshot = await stored(service.context())
    file.unlink()
    assert (await told(service.context(), snapshot))[0] == module.REMOVED


async def test_a_change_says_the_whole_set(place: Place) -> None:
    """CTX-144: with the update's own sentence."""
    a, b = place.write("a.md", "a"), place.write("b.md", "b")
    service = configured(place, Entry("{a,b}.md", place.root, "untrusted"))
    snapshot = await stored(service.context())
    b.write_text("B", encoding="utf-8")
    text, _ = await told(service.context(), snapshot)
    assert text == f"{module.UPDATE}\n\n{instructions((a, 'a'), (b, 'B'))}"


async def test_an_unreadable_match_makes_this_aggregate_unavailable_alone(place: Place) -> None:
    """CTX-145: the ambient one is not touched."""
    file, ambient = place.write("x.md", "x"), place.write("AGENTS.md", "ambient")
    service = configured(place, Entry("x.md", place.root, "untrusted"))
    with forbidden(file):
        assert await baseline(service.context()) is None
        assert await baseline(place.files().ambient()) == instructions((ambient, "ambient"))


async def test_a_project_may_not_point_outside_itself(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """CTX-146: by the real path, also through links and `..`; the user's own configuration may."""
    secret = place.base / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    (place.root / "link.md").symlink_to(secret)
    entries = [Entry(text, place.root, "untrusted") for text in ("../secret.md", str(secret), "link.md", "../s*.md")]
    assert await baseline(configured(place, *entries).context()) == ""
    assert "outside the project" in caplog.text
    trusted = configured(place, Entry(str(secret), place.config, "user"))
    assert await baseline(trusted.context()) == instructions((secret, "secret"))


async def test_project_entries_can_be_turned_off(place: Place) -> None:
    """CTX-146, CTX-137: the user's own entries stay, remote ones too."""
    mine, theirs = place.config / "mine.md", place.write("theirs.md", "theirs")
    mine.write_text("mine", encoding="utf-8")
    service = configured(
        place,
        Entry("mine.md", place.config, "user"),
        Entry("theirs.md", place.root, "untrusted"),
        Entry("https://a.example/", place.config, "user"),
        Entry("https://b.example/", place.root, "untrusted"),
    )
    assert await baseline(service.context()) == instructions((mine, "mine"), (theirs, "theirs"))
    place.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    assert await baseline(service.context()) == instructions((mine, "mine"))
    assert service.urls() == ["https://a.example/"]


async def test_a_configured_file_that_is_ambient_is_not_repeated(place: Place) -> None:
    """CTX-147: ambient comes first, by canonical identity."""
    ambient, other = place.write("AGENTS.md", "ambient"), place.write("other.md", "other")
    (place.root / "alias.md").symlink_to(ambient)
    service = configured(place, Entry("alias.md", place.root, "untrusted"), Entry("other.md", place.root, "untrusted"))
    assert await baseline(service.context()) == instructions((other, "other"))


async def test_a_removed_entry_is_told(place: Place) -> None:
    """CTX-152: after a reload of the configuration the source is gone, and says so."""
    place.write("x.md", "x")
    snapshot = await stored(configured(place, Entry("x.md", place.root, "untrusted")).context())
    assert (await told(configured(place).context(), snapshot))[0] == module.REMOVED


async def test_a_pattern_too_wide_is_left_out_and_diagnosed(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """CTX-143: the other entries stand."""
    x = place.write("x.md", "x")
    service = configured(place, Entry("{a,b}" * 12, place.root, "untrusted"), Entry("x.md", place.root, "untrusted"))
    assert await baseline(service.context()) == instructions((x, "x"))
    assert "too wide" in caplog.text


async def test_a_pattern_is_first_expanded_beside_the_loop(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTX-143: the first walk waits in a thread; a small one is then done directly."""
    place.write("x.md", "x")
    service = configured(place, Entry("*.md", place.root, "untrusted"))
    threads = count_threads(monkeypatch)
    for _ in range(2):
        await stored(service.context())
    assert len(threads) == 1


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\0*", "\ud800", "\ud800/*", "x" * 300, "x" * 300 + "/*", "y/" * 3000, "y/" * 3000 + "*", "**/" * 90],
)
async def test_a_configured_path_that_no_file_can_have_counts_as_absent(place: Place, text: str) -> None:
    """CTX-145: a project's configuration cannot keep a Session from starting."""
    x = place.write("x.md", "x")
    service = configured(place, Entry(text, place.root, "untrusted"), Entry("x.md", place.root, "untrusted"))
    assert await baseline(service.context()) == instructions((x, "x"))


@pytest.mark.parametrize(
    "text", ["/**/s*.md", "../*/s*.md", "../closed/*.md", "l*/**/s*.md", "link/*.md", "../closed/s.md", "link/s.md"]
)
async def test_a_project_is_not_even_searched_outside_itself(place: Place, text: str) -> None:
    """CTX-146: what may not be used is not listed either, so that nothing out there can be in the way."""
    closed = place.base / "closed"
    closed.mkdir()
    (closed / "secret.md").write_text("secret", encoding="utf-8")
    (place.root / "link").symlink_to(closed)
    listed: list[str] = []
    children = place.cache.children

    def watched(directory: str) -> tuple[Child, ...]:
        listed.append(directory)
        return children(directory)

    place.cache.children = watched  # type: ignore[method-assign]
    with forbidden(closed):
        assert await baseline(configured(place, Entry(text, place.root, "untrusted")).context()) == ""
    assert [directory for directory in listed if not Path(directory).resolve().is_relative_to(place.root)] == []


async def test_a_folder_on_the_way_that_may_not_be_listed_is_passed_over(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-145: a database's own folder in a project keeps no Session from starting; one that is named does."""
    x = place.write("docs/x.md", "x")
    closed = place.write("data/inner/y.md", "y").parent.parent
    with forbidden(closed):
        for text in ("**/*.md", "*/*.md", "*/**", "**/x.md", "*/x.md"):
            assert await baseline(configured(place, Entry(text, place.root, "untrusted")).context()) == instructions(
                (x, "x")
            )
        assert await baseline(configured(place, Entry("data/*.md", place.root, "untrusted")).context()) is None
    assert "may not be listed" in caplog.text


async def test_all_files_together_have_a_limit(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-143, CTX-231: one pattern cannot send a whole repository, and the model learns what is missing."""
    a, b = place.write("a.md", "a"), place.write("b.md", "b")
    service = configured(place, Entry("*.md", place.root, "untrusted"))
    monkeypatch.setattr("holdfast.core.context.instructions.TOTAL_LIMIT", len(f"{a}a{b}b"))
    assert await baseline(service.context()) == instructions((a, "a"), (b, "b"))
    c, _ = place.write("c.md", "c"), place.write("d.md", "d")
    told = SET_TOO_LARGE.format(1)
    assert await baseline(service.context()) == instructions((a, "a"), (b, "b"), (c, told))
    assert f"{c}: {told}" in caplog.text
    monkeypatch.setattr("holdfast.core.context.file_pattern.MATCH_LIMIT", 2)
    assert await baseline(service.context()) == ""


async def test_a_large_pattern_is_looked_for_beside_the_loop_by_whoever_asks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-147: what asks only which files are said here does not hold up the loop either."""
    x = place.write("x.md", "x")
    monkeypatch.setattr(module, "SMALL_WALK", 0)
    service = configured(place, Entry("*.md", place.root, "untrusted"))
    threads = count_threads(monkeypatch)
    await stored(service.context())
    assert [file.path for file in await service.find()] == [str(x)]
    assert len(threads) == 2
