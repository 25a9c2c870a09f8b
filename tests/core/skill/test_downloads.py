"""Skills behind URLs: what is asked for, what is kept, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.core.skill.conftest import Time
from tests.core.web.site import Site

from holdfast.core.file_lock import try_lock
from holdfast.core.skill.downloads import REFRESH_SECONDS, RETRY_SECONDS, SkillDownloads
from holdfast.core.skill.index import IndexEntry, checked, parse_index
from holdfast.core.skill.skill import SkillSource, UrlSource
from holdfast.core.skill.skills import Skills
from holdfast.core.web.fetch import Fetcher

pytestmark = pytest.mark.anyio

BODY = "---\nname: {name}\ndescription: d\n---\n{body}"


def offer(site: Site, *entries: dict[str, Any], bodies: str = "one") -> None:
    """An index, and every file that it names."""
    site.put("/s/index.json", msgspec.json.encode({"skills": list(entries)}), "application/json")
    for entry in entries:
        for file in entry["files"]:
            text = BODY.format(name=entry["name"], body=bodies) if file.endswith(".md") else bodies
            site.put(f"/s/{entry['name']}/{file}", text)


async def settled(downloads: SkillDownloads) -> None:
    while downloads._refreshes:
        await asyncio.wait(set(downloads._refreshes.values()))


async def contents(skills: Skills) -> dict[str, str]:
    return {skill.name: skill.content for skill in await skills.list()}


@pytest.fixture
def url(site: Site, sources: list[SkillSource]) -> str:
    sources.append(UrlSource(f"{site.base}/s"))
    return f"{site.base}/s"


async def later(downloads: SkillDownloads, skills: Skills, now: Time, seconds: float = REFRESH_SECONDS) -> None:
    """The next look after so long, with its refresh finished."""
    now.seconds += seconds
    await skills.list()
    await settled(downloads)


# -- pulling -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("url")
async def test_skills_come_from_their_index(site: Site, skills: Skills, tmp_path: Path) -> None:
    """CTX-174, CTX-176: index below the address with a slash, files below their skill's name, copies in the cache."""
    offer(
        site,
        {"name": "a", "files": ["SKILL.md", "scripts/x y.sh"]},
        {"name": "flat", "files": ["flat.md"]},
    )
    assert await contents(skills) == {"a": "one", "flat": "one"}
    assert site.paths[0] == "/s/index.json"
    assert set(site.paths[1:]) == {"/s/a/SKILL.md", "/s/a/scripts/x y.sh", "/s/flat/flat.md"}
    location = Path((await skills.list())[0].location)
    assert location.is_relative_to(tmp_path / "cache" / "skills")
    assert (location.parent / "scripts" / "x y.sh").read_text() == "one"


@pytest.mark.usefixtures("url")
async def test_the_index_is_tried_three_times(site: Site, skills: Skills, caplog: pytest.LogCaptureFixture) -> None:
    """CTX-174: then there are no skills, and a line in the log."""
    assert await contents(skills) == {}
    assert site.paths == ["/s/index.json"] * 3
    assert "status 404" in caplog.text


@pytest.mark.usefixtures("url")
async def test_a_second_attempt_may_succeed(site: Site, skills: Skills) -> None:
    """CTX-174: a passing failure goes unnoticed."""
    offer(site, {"name": "a", "files": ["SKILL.md"]})
    good = site.pages["/s/index.json"]

    async def flaky(request: web.Request) -> web.StreamResponse:
        if len(site.requests) == 1:
            return web.Response(status=503)
        assert callable(good)
        return await good(request)

    site.pages["/s/index.json"] = flaky
    assert await contents(skills) == {"a": "one"}


@pytest.mark.usefixtures("url")
async def test_a_failed_pull_is_not_taken_for_no_skills(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time
) -> None:
    """CTX-177: it is tried again soon, and the skills appear."""
    assert await contents(skills) == {}
    offer(site, {"name": "a", "files": ["SKILL.md"]})
    await later(downloads, skills, now, RETRY_SECONDS)
    assert await contents(skills) == {"a": "one"}


@pytest.mark.usefixtures("url")
async def test_the_site_is_asked_every_five_minutes_at_most(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time
) -> None:
    """CTX-177: and whoever looks meanwhile does not wait for it."""
    offer(site, {"name": "a", "files": ["SKILL.md"]})
    await skills.list()
    await later(downloads, skills, now, REFRESH_SECONDS - 1)
    assert site.paths.count("/s/index.json") == 1
    await later(downloads, skills, now, 1)
    assert site.paths.count("/s/index.json") == 2


async def test_the_last_good_copy_outlives_site_and_process(
    site: Site, skills: Skills, downloads: SkillDownloads, url: str, now: Time, tmp_path: Path
) -> None:
    """CTX-177: an outage says nothing; nor does a start without the site."""
    offer(site, {"name": "a", "files": ["SKILL.md"]})
    assert await contents(skills) == {"a": "one"}
    site.pages.clear()
    await later(downloads, skills, now)
    assert await contents(skills) == {"a": "one"}
    again = SkillDownloads(tmp_path / "cache", Fetcher(), now=now, pause=0.001)
    assert await contents(Skills(lambda: [UrlSource(url)], again)) == {"a": "one"}
    await again.close()


@pytest.mark.usefixtures("url")
async def test_a_skill_that_leaves_the_index_is_gone(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time
) -> None:
    """CTX-174, CTX-177: an answer that says so is not a failure."""
    offer(site, {"name": "a", "files": ["SKILL.md"]}, {"name": "b", "files": ["SKILL.md"]})
    assert set(await contents(skills)) == {"a", "b"}
    offer(site, {"name": "b", "files": ["SKILL.md"]})
    await later(downloads, skills, now)
    assert set(await contents(skills)) == {"b"}


# -- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("version", [{}, {"version": "1"}])
async def test_the_same_version_fetches_only_what_is_missing(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time, version: dict[str, str]
) -> None:
    """CTX-176: so does no version at all."""
    offer(site, {"name": "a", "files": ["SKILL.md"], **version})
    await skills.list()
    offer(site, {"name": "a", "files": ["SKILL.md", "more.txt"], **version}, bodies="two")
    await later(downloads, skills, now)
    assert site.paths.count("/s/a/SKILL.md") == site.paths.count("/s/a/more.txt") == 1
    assert await contents(skills) == {"a": "one"}


@pytest.mark.usefixtures("url")
async def test_another_version_replaces_the_copy_whole(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time
) -> None:
    """CTX-176: stale files are dropped, the version is noted, nothing is left lying about."""
    offer(site, {"name": "a", "version": "1", "files": ["SKILL.md", "old.txt"]})
    folder = Path((await skills.list())[0].location).parent
    assert (folder / ".opencode-version").read_text() == "1"
    offer(site, {"name": "a", "version": "2", "files": ["SKILL.md", "new.txt"]}, bodies="two")
    await later(downloads, skills, now)
    assert await contents(skills) == {"a": "two"}
    assert sorted(path.name for path in folder.iterdir()) == [".opencode-version", "SKILL.md", "new.txt"]
    assert sorted(path.suffix for path in folder.parent.parent.iterdir()) == ["", ".json", ".lock"]


@pytest.mark.usefixtures("url")
async def test_a_refresh_that_fails_leaves_the_copy_intact(
    site: Site, skills: Skills, downloads: SkillDownloads, now: Time, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-176: one file missing, and the old version stays, every file of it."""
    offer(site, {"name": "a", "version": "1", "files": ["SKILL.md", "old.txt"]})
    folder = Path((await skills.list())[0].location).parent
    offer(site, {"name": "a", "version": "2", "files": ["SKILL.md", "new.txt"]}, bodies="two")
    del site.pages["/s/a/new.txt"]
    await later(downloads, skills, now)
    assert await contents(skills) == {"a": "one"}
    assert sorted(path.name for path in folder.iterdir()) == [".opencode-version", "SKILL.md", "old.txt"]
    assert "is kept as it was" in caplog.text


@pytest.mark.usefixtures("url")
async def test_a_first_copy_appears_whole_or_not_at_all(site: Site, skills: Skills) -> None:
    """CTX-176: half a skill would be worse than none; the others come."""
    offer(site, {"name": "a", "files": ["SKILL.md", "x"]}, {"name": "b", "files": ["SKILL.md"]})
    del site.pages["/s/a/x"]
    assert await contents(skills) == {"b": "one"}


@pytest.mark.usefixtures("url")
async def test_a_skill_that_cannot_be_stored_is_left_out_alone(site: Site, skills: Skills) -> None:
    """CTX-176: a name longer than any file's, a file where a folder should be."""
    offer(
        site,
        {"name": "n" * 300, "files": ["SKILL.md"]},
        {"name": "clash", "files": ["SKILL.md", "x", "x/y"]},
        {"name": "good", "files": ["SKILL.md"]},
    )
    assert await contents(skills) == {"good": "one"}


@pytest.mark.usefixtures("url")
async def test_the_number_of_requests_at_once_is_bounded(site: Site, skills: Skills) -> None:
    """CTX-176: at most eight files."""
    running, most, full = 0, 0, asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            await asyncio.sleep(0.05)  # time for a ninth, if there were one
            full.set()
        await full.wait()
        running -= 1
        return web.Response(text=BODY.format(name="x", body=""))

    entries = [{"name": f"n{n}", "files": ["SKILL.md", *(f"f{m}" for m in range(9))]} for n in range(6)]
    offer(site, *entries)
    site.pages.update({path: slow for path in site.pages if path != "/s/index.json"})
    await skills.list()
    assert most == 8
    assert len(site.requests) == 61


async def test_another_process_at_work_is_left_alone(site: Site, skills: Skills, url: str, tmp_path: Path) -> None:
    """CTX-176: two of them would swap the same copy."""
    offer(site, {"name": "a", "files": ["SKILL.md"]})
    probe = SkillDownloads(tmp_path / "cache", Fetcher())
    lock = probe._index(f"{url}/").with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    with try_lock(lock) as mine:
        assert mine
        assert await contents(skills) == {}
    assert site.requests == []


# -- what an index may not say -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    """CTX-175: before any request."""
    with pytest.raises(ValueError, match="not a valid skill name"):
        checked(IndexEntry(name=name, files=("SKILL.md",)))


@pytest.mark.parametrize(
    "file",
    [
        "/etc/passwd",
        "C:/x",
        "C:\\x",
        "https://evil.test/x",
        "file:x",
        "a\\b",
        "a\0b",
        "a?b",
        "a#b",
        "a%zzb",
        "a%",
        "%ff",
        "",
        ".",
        "..",
        "a//b",
        "a/./b",
        "a/../../b",
        "%2e%2e/x",
        "a/%2E./x",
        "a%2fb",
        "a%5cb",
        "a%00b",
        "%252e%252e/x",
        "a/",
        ".opencode-version",
        "//evil.test/x",
    ],
)
async def test_one_file_that_may_lead_elsewhere_refuses_the_skill(
    site: Site, skills: Skills, url: str, file: str, tmp_path: Path
) -> None:
    """CTX-175: whole, and before any of its files is asked for; its neighbours come."""
    offer(site, {"name": "good", "files": ["SKILL.md"]})
    index = {"skills": [{"name": "wicked", "files": ["SKILL.md", file]}, {"name": "good", "files": ["SKILL.md"]}]}
    site.put("/s/index.json", msgspec.json.encode(index))
    assert await contents(skills) == {"good": "one"}
    assert site.paths == ["/s/index.json", "/s/good/SKILL.md"]
    assert not [path for path in tmp_path.rglob("*wicked*") if path.is_dir()]


def test_an_escape_means_the_same_file_on_disk_and_in_the_address() -> None:
    """CTX-175: decoded once, and encoded again for the request."""
    assert checked(IndexEntry(name="a", files=("SKILL.md", "x%20y", "x y"))).files == ("SKILL.md", "x y")


@pytest.mark.parametrize("files", [(), ("readme.md",), ("other.md",), ("sub/SKILL.md",)])
def test_a_skill_without_its_file_is_refused(files: tuple[str, ...]) -> None:
    """CTX-175: `SKILL.md` or the skill's own name."""
    with pytest.raises(ValueError, match=r"has no SKILL\.md"):
        checked(IndexEntry(name="a", files=files))
    assert checked(IndexEntry(name="a", files=("a.md",))).files == ("a.md",)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": 3, "files": ["SKILL.md"]},
        {"name": "a"},
        {"name": "a", "files": "SKILL.md"},
        {"name": "a", "files": ["SKILL.md"], "version": 1},
        {"name": "a", "files": ["SKILL.md"] * 501},
        "a",
    ],
)
def test_an_entry_of_another_shape_is_left_out_alone(entry: Any) -> None:
    """CTX-174, CTX-175: with a word on why."""
    body = msgspec.json.encode({"skills": [entry, {"name": "good", "files": ["good.md"]}]})
    entries, problems = parse_index(body)
    assert ([item.name for item in entries], len(problems)) == (["good"], 1)


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"<html>", b'{"skills": 1}', b"\xff"])
async def test_an_index_that_is_none_is_a_failure(site: Site, skills: Skills, body: bytes) -> None:
    """CTX-174: and no skills."""
    site.put("/s/index.json", body)
    assert await contents(skills) == {}


async def test_the_password_in_an_address_is_not_logged(
    skills: Skills, sources: list[SkillSource], caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-330: what fails is named without it."""
    sources.append(UrlSource("https://user:hunter2@skills.invalid/s"))
    assert await skills.list() == ()
    assert "skills.invalid/s" in caplog.text
    assert "hunter2" not in caplog.text
