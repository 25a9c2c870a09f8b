"""A conversation for reading: JSON, Markdown and one HTML page, over HTTP and at the command line."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser

import pytest
from tests.cli.conftest import Machine
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, ask

from holdfast import Conflict, Holdfast, InvalidRequest, Session

pytestmark = pytest.mark.anyio

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> [go](javascript:alert(3)) \u202e"
KEY = "sk-abcdefghijklmnopqrstuvwx"


async def talked(world: World, hf: Holdfast) -> Session:
    """With a changed file, and with everything that a page must not run."""
    session = await hf.sessions.create()
    world.model.plays(calling("write", path="notes.py", content=f'KEY = "{KEY}"\nprint("``` hi")\n'))
    await ask(hf, session, f"say {HOSTILE}")
    world.model.plays(Turn(text=f"**done** {HOSTILE} in {world.home}/project with {KEY}"))
    await ask(hf, session, "and now?")
    return session


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.references: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.references |= {value or "" for name, value in attrs if name in ("src", "href")}


async def test_the_html_page_stands_alone_and_runs_nothing(world: World) -> None:
    """OPS-030, OPS-031: no script, no handler, nothing to load; conversation, changed files, costs and timeline."""
    async with world.host() as hf:
        session = await talked(world, hf)
        page = (await hf.sessions.export(session.id, format="html")).decode()
    tags = Tags()
    tags.feed(page)
    assert not tags.names & {"script", "img", "link", "iframe", "object", "form", "base"}
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert not [link for link in tags.references if not link.startswith(("https:", "http:", "mailto:"))]
    assert "default-src 'none'" in page
    assert not re.search(r"url\((?!#)", page)
    assert "<strong>done</strong>" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "U+202E" in page
    for part in ("notes.py", "Requests and costs", "Timeline", "mock/m"):
        assert part in page


async def test_markdown_and_json_have_the_whole_conversation(world: World) -> None:
    """OPS-030: text cannot end the fence that it is in."""
    async with world.host() as hf:
        session = await talked(world, hf)
        markdown = (await hf.sessions.export(session.id, format="markdown")).decode()
        document = json.loads(await hf.sessions.export(session.id, format="json"))
        messages = (await hf.sessions.messages(session.id, order="asc", limit=200)).items
    assert markdown.startswith("# ")
    assert markdown.count("## You") == 2
    assert "````" in markdown
    assert "\u202e" not in markdown
    assert document["info"]["id"] == session.id
    assert [message["id"] for message in document["messages"]] == [message.id for message in messages]


async def test_secrets_and_the_home_directory_are_replaced(world: World) -> None:
    """OPS-032: in every form for reading."""
    async with world.host() as hf:
        session = await talked(world, hf)
        for form in ("json", "markdown", "html"):
            plain = (await hf.sessions.export(session.id, format=form)).decode()
            redacted = (await hf.sessions.export(session.id, format=form, redact=True)).decode()
            assert "abcdefghijklmnop" in plain
            assert str(world.home) in plain
            assert "abcdefghijklmnop" not in redacted
            assert str(world.home) not in redacted
            assert "~/project" in redacted
        json.loads(await hf.sessions.export(session.id, format="json", redact=True))


async def test_a_bundle_goes_over_http(world: World) -> None:
    """OPS-040, OPS-041: as bytes there, as Base64 back; what is no bundle is refused."""
    async with world.host() as hf:
        session = await talked(world, hf)
        data = await hf.sessions.export(session.id)
        await hf.export_bundle(world.home / "a.holdfast", session.id)
        assert (world.home / "a.holdfast").read_bytes() == data
    async with world.host(data=world.home / "elsewhere") as other:
        given = base64.b64encode(data).decode()
        report = await other.sessions.import_bundle(bundle=given)
        assert [item.outcome for item in report.sessions] == ["imported"]
        assert await other.sessions.export(session.id) == data
        assert [item.outcome for item in (await other.sessions.import_bundle(bundle=given)).sessions] == ["unchanged"]
        for wrong, why in (("%%%", "not Base64"), ("", "cut off"), (base64.b64encode(b"x" * 99).decode(), "damaged")):
            with pytest.raises(InvalidRequest, match=why):
                await other.sessions.import_bundle(bundle=wrong)
        await ask(other, session, "here")
    async with world.host() as hf:
        await ask(hf, session, "there")
        newer = base64.b64encode(await hf.sessions.export(session.id)).decode()
    async with world.host(data=world.home / "elsewhere") as other:
        with pytest.raises(Conflict, match="both have gone on"):
            await other.sessions.import_bundle(bundle=newer)


def test_a_conversation_is_printed_or_written_to_a_file(holdfast: Machine) -> None:
    """OPS-030, OPS-033: standard output without -o."""
    session = holdfast("run", "--model", "demo/echo", "hello").session
    printed = holdfast("export", session, "--format", "markdown")
    assert printed.code == 0
    assert printed.out.startswith("# ")
    path = holdfast.home / "page.html"
    assert holdfast("export", session, "--format", "html", "-o", str(path)).code == 0
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(holdfast("export", session, "--format", "json", "--redact").out)["info"]["id"] == session
    assert "one session" in holdfast("export", "--all", "--format", "html").complaint
    assert "needs a file" in holdfast("export", session).complaint
    redacted = holdfast("export", session, "--redact", "-o", str(holdfast.home / "x.holdfast"))
    assert redacted.code == 0
    assert "were replaced in it" in redacted.err
