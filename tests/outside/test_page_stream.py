"""The stream of a page, as a browser reads it from a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.test_streams import WORDS, Pieces
from tests.outside.wire import Wire, serving
from tests.server.render.allowed import check

Frame = dict[str, Any]
LONG = "\n\n".join(f"Paragraph {number} with **words** and <b>tags</b>." for number in range(300))


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with serving(tmp_path_factory.mktemp("machine"), "--no-auth") as wire:
        yield wire


@contextmanager
def stream(wire: Wire, session: str | None, after: int | None = None) -> Iterator[Iterator[Frame]]:
    query = {"session": session.rpartition("/")[2] if session is not None else None, "after": after}
    chosen = {name: value for name, value in query.items() if value is not None}
    with wire.http.stream("GET", "/web/stream", params=chosen) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))


def until(frames: Iterator[Frame], met: Callable[[Frame], bool]) -> list[Frame]:
    """Frames up to one that is waited for."""
    seen: list[Frame] = []
    for frame in frames:
        seen.append(frame)
        if met(frame):
            return seen
    raise AssertionError([frame["type"] for frame in seen])


def of(type: str) -> Callable[[Frame], bool]:
    return lambda frame: frame["type"] == type


def answered(frame: Frame) -> bool:
    return frame["type"] == "entries" and any(
        entry["type"] == "assistant" and not entry.get("open") for entry in frame["entries"]
    )


def entries_of(frames: list[Frame]) -> dict[str, Frame]:
    """The newest state of each entry."""
    return {entry["id"]: entry for frame in frames if frame["type"] == "entries" for entry in frame["entries"]}


def test_a_turn_on_a_page(wire: Wire) -> None:
    """WEB-120, WEB-121, WEB-123, WEB-126: what a page has put together is what it would load."""
    session = wire.create()
    with stream(wire, session) as frames:
        begun = until(frames, of("caught"))
        assert [frame["type"] for frame in begun] == ["hello", "caught"]
        until(frames, of("overview"))
        wire.post(f"{session}/prompt", {"prompt": {"text": LONG}})
        seen = until(frames, answered)
    found = entries_of(seen)
    loaded = wire.data(f"{session}/rendered", params={"order": "asc"})
    assert [entry["id"] for entry in loaded] == list(found)
    assert {entry["type"] for entry in loaded} == {"user", "assistant"}
    answer = next(entry for entry in loaded if entry["type"] == "assistant")
    assert found[answer["id"]]["parts"] == answer["parts"]
    assert check(answer["parts"][0]["html"]).startswith("Paragraph 0 with words and <b>tags</b>.")
    for frame in seen:
        if "html" in frame:
            check(frame["html"])


def test_a_page_connects_again(wire: Wire) -> None:
    """WEB-120, WEB-121: with the sequence that it has reached it gets the rest, and nothing twice."""
    session = wire.create()
    wire.ask(session, "first")
    with stream(wire, session, -1) as frames:
        reached = until(frames, of("caught"))[-1]["seq"]
    wire.ask(session, "second")
    with stream(wire, session, reached) as frames:
        found = entries_of(until(frames, of("caught")))
    assert [entry.get("text") for entry in found.values() if entry["type"] == "user"] == ["second"]
    assert [entry["turn"] for entry in found.values() if entry["type"] == "assistant"] == [2]
    with stream(wire, session, until_head(wire, session)) as frames:
        assert [frame["type"] for frame in until(frames, of("caught"))] == ["hello", "caught"]


def until_head(wire: Wire, session: str) -> int:
    with stream(wire, session) as frames:
        return int(next(frames)["head"])


def test_a_deleted_session_is_gone_and_a_revert_resets(wire: Wire) -> None:
    """WEB-122."""
    session = wire.create()
    receipt = wire.ask(session, "first")
    with stream(wire, session) as frames:
        until(frames, of("caught"))
        assert wire.post(f"{session}/revert/stage", {"messageID": receipt["id"]}).status_code == 200
        assert wire.post(f"{session}/revert/commit").status_code == 204
        until(frames, of("reset"))
        assert wire.http.delete(session).status_code == 204
        until(frames, of("gone"))
    with stream(wire, session) as frames:
        until(frames, of("gone"))


def test_output_of_a_running_command(wire: Wire) -> None:
    """WEB-124: while it runs, and whole when it has ended."""
    session = wire.create()
    with stream(wire, session) as frames:
        until(frames, of("caught"))
        command = "printf 'begun\\n'; printf '10%%'; sleep 0.3; printf '\\r99%%\\n'"
        assert wire.post(f"{session}/shell", {"command": command}).status_code == 204
        seen = until(frames, lambda frame: frame["type"] == "entries" and not frame["entries"][-1].get("open"))
    shell = list(entries_of(seen).values())[-1]
    assert (shell["type"], shell["html"].split(), shell["exit"]) == ("shell", ["begun", "99%"], 0)
    texts = [frame.get("text") or frame.get("add") or "" for frame in seen if frame["type"] == "block"]
    assert any("begun" in text for text in texts)


def test_a_page_without_a_session(wire: Wire) -> None:
    """WEB-126."""
    with stream(wire, None) as frames:
        seen = until(frames, of("overview"))
    assert [frame["type"] for frame in seen] == ["hello", "requests", "overview"]


def test_a_server_that_stops_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    """WEB-127."""
    with serving(tmp_path_factory.mktemp("stopping"), "--no-auth") as wire, stream(wire, wire.create()) as frames:
        until(frames, of("overview"))
        wire.machine._started[-1].terminate()
        assert until(frames, of("bye"))[-1]["reason"] == "stopping"


def test_a_page_joins_an_answer_in_the_middle(
    holdfast: Machine, serve: Callable[..., Server], provider: Provider
) -> None:
    """WEB-125: at the server that receives it from its beginning; at another one from where it connected, and whole at
    the end."""
    holdfast.use_provider(provider.url)
    pieces = Pieces()
    provider.behave = pieces
    first, second = serve("--no-auth"), serve("--no-auth")
    with (
        httpx2.Client(base_url=first.url, timeout=45, trust_env=False) as here,
        httpx2.Client(base_url=second.url, timeout=45, trust_env=False) as there,
    ):
        one, two = Wire(holdfast, here), Wire(holdfast, there)
        session = f"/api/session/{one.post('/api/session').json()['data']['id']}"
        one.post(f"{session}/prompt", {"prompt": {"text": "go"}})
        pieces.next()
        pieces.next()
        with stream(one, session, -1) as frames:
            shown = ""
            while shown != "".join(WORDS[:2]):
                shown = text_after(shown, next(frames))
        with stream(two, session, -1) as frames:
            until(frames, of("caught"))
            until(frames, of("overview"))
            pieces.next()
            late = until(frames, of("block"))[-1]
            assert late["text"].startswith("…")
            pieces.next()
            answer = list(entries_of(until(frames, answered)).values())[-1]
            assert check(answer["parts"][0]["html"]).strip() == "".join(WORDS)


def text_after(shown: str, frame: Frame) -> str:
    if frame["type"] != "block":
        return shown
    return str(frame["text"]) if "text" in frame else shown + str(frame.get("add", ""))
