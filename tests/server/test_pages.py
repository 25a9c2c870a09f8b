"""Pages of Sessions and of messages, and their cursors."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.conftest import ManualClock
from tests.server.conftest import Wire, in_memory

from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.server.app import App
from holdfast.server.cursor import ListCursor, MessageCursor, checksum

pytestmark = pytest.mark.anyio


@pytest.fixture
async def seven(wire: Wire) -> list[str]:
    """Seven sessions, newest first."""
    return [(await wire.create())["id"] for _ in range(7)][::-1]


async def follow(wire: Wire, target: str, link: str = "next") -> list[list[str]]:
    """The ids of every page from this one on, with nothing but the cursor from the second on."""
    base = target.partition("?")[0]
    pages: list[list[str]] = []
    while True:
        page = (await wire.get(target)).json
        assert set(page) == {"data", "cursor"}
        if not page["data"]:
            assert page["cursor"] == {"previous": None, "next": None}
            return pages
        pages.append([item["id"] for item in page["data"]])
        target = f"{base}?cursor={page['cursor'][link]}"


async def test_pages_keep_their_size_and_their_order(wire: Wire, seven: list[str]) -> None:
    """API-003, API-005, API-110, API-221, API-223: newest first, the cursor carries the page size, the empty page after
    the last one has null cursors."""
    assert await follow(wire, "/api/session?limit=3") == [seven[:3], seven[3:6], seven[6:]]
    upwards = seven[::-1]
    assert await follow(wire, "/api/session?limit=3&order=asc") == [upwards[:3], upwards[3:6], upwards[6:]]


async def test_previous_walks_back_and_items_keep_their_order(wire: Wire, seven: list[str]) -> None:
    """API-223: both cursors on every page that has items."""
    last = (await wire.get("/api/session?limit=5")).json["cursor"]["next"]
    end = (await wire.get(f"/api/session?cursor={last}")).json

    assert [item["id"] for item in end["data"]] == seven[5:]
    assert await follow(wire, f"/api/session?cursor={end['cursor']['previous']}&limit=2", "previous") == [
        seven[3:5],
        seven[1:3],
        seven[:1],
    ]


async def test_an_explicit_limit_wins_over_the_cursors(wire: Wire, seven: list[str]) -> None:
    """API-221: as on the wire."""
    cursor = (await wire.get("/api/session?limit=2")).json["cursor"]["next"]

    assert [item["id"] for item in (await wire.get(f"/api/session?cursor={cursor}&limit=4")).data] == seven[2:6]


async def test_other_fields_beside_a_list_cursor_are_ignored(wire: Wire, seven: list[str]) -> None:
    """API-224: the cursor knows order and filters."""
    cursor = (await wire.get("/api/session?limit=2&order=asc")).json["cursor"]["next"]
    answer = await wire.get(f"/api/session?cursor={cursor}&order=desc&search=nothing&directory=/nowhere")

    assert [item["id"] for item in answer.data] == seven[::-1][2:4]


async def test_a_page_has_fifty_sessions_unless_asked_otherwise(memory: Wire) -> None:
    """API-110, SES-015: default size; a larger one is as large as asked."""
    for _ in range(52):
        await memory.create()

    assert len((await memory.get("/api/session")).data) == 50
    assert len((await memory.get("/api/session?limit=500")).data) == 52


async def test_sessions_of_one_moment_are_ordered_by_id(tmp_path: Path, clock: ManualClock) -> None:
    """API-110, API-223: sort key (created time, id), so that ties neither repeat nor skip, in either direction. Our ids
    sort newest first, so of one millisecond the greatest id is the oldest."""
    async with (
        Runtime(paths=Paths(tmp_path / "data"), directory=tmp_path, environment={}, clock=clock) as runtime,
        in_memory(App(runtime)) as memory,
    ):
        for letter in "dbeac":
            await memory.create(id=f"ses_{letter}")
        pages = await follow(memory, "/api/session?limit=2&order=asc")
        last = (await memory.get("/api/session?limit=4&order=asc")).json["cursor"]["next"]
        back = (await memory.get(f"/api/session?cursor={last}")).json["cursor"]["previous"]

        assert pages == [["ses_e", "ses_d"], ["ses_c", "ses_b"], ["ses_a"]]
        previous = (await memory.get(f"/api/session?cursor={back}&limit=3")).data
        assert [item["id"] for item in previous] == ["ses_d", "ses_c", "ses_b"]


async def test_new_sessions_do_not_disturb_a_walk(memory: Wire) -> None:
    """API-226: nothing is skipped or repeated when sessions are created between requests."""
    seven = [(await memory.create())["id"] for _ in range(7)][::-1]
    first = (await memory.get("/api/session?limit=3")).json
    await memory.create()
    rest = await follow(memory, f"/api/session?cursor={first['cursor']['next']}")

    assert rest == [seven[3:6], seven[6:]]


async def test_filters_choose_and_travel_with_the_cursor(memory: Wire, tmp_path: Path) -> None:
    """API-110, API-221: directory exact, workspace, project; a filtered walk stays filtered."""
    (other := tmp_path / "other").mkdir()
    (below := other / "below").mkdir()
    await memory.create()
    placed = {"directory": str(other), "workspaceID": "wrk_1"}
    there = [(await memory.create(location=placed))["id"] for _ in range(3)][::-1]
    await memory.create(location={"directory": str(below)})

    assert await follow(memory, f"/api/session?limit=2&directory={other}") == [there[:2], there[2:]]
    assert await follow(memory, "/api/session?limit=2&workspace=wrk_1") == [there[:2], there[2:]]
    assert len((await memory.get("/api/session?project=global")).data) == 5
    assert (await memory.get("/api/session?project=other")).data == []


async def test_archived_sessions_are_listed_apart(memory: Wire) -> None:
    """SES-027, API-221: all, those that were put away, or those that were not; a filtered walk stays filtered."""
    ids = [(await memory.create())["id"] for _ in range(6)][::-1]
    away, here = ids[::2], ids[1::2]
    for id in away:
        await memory.post(f"/api/session/{id}/archive", {})

    assert await follow(memory, "/api/session?limit=2&archived=true") == [away[:2], away[2:]]
    assert await follow(memory, "/api/session?limit=2&archived=false") == [here[:2], here[2:]]
    assert [item["id"] for item in (await memory.get("/api/session")).data] == ids
    assert (await memory.get("/api/session?archived=perhaps")).failure == (400, "InvalidRequestError")


async def test_a_continuation_needs_nothing_but_its_cursor(memory: Wire, tmp_path: Path) -> None:
    """SES-014: scope, filters, order and page size are inside, every one of them, in both directions."""
    (there := tmp_path / "repo" / "sub").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    place = {"directory": str(there.resolve()), "workspaceID": "wrk_1"}
    wanted = [(await memory.create(location=place))["id"] for _ in range(5)]
    others = [await memory.create(location=location) for location in (None, {"directory": place["directory"]}) * 3]
    filters: dict[str, str] = {
        "workspace": "wrk_1",
        "directory": place["directory"],
        "project": (await memory.get(f"/api/session/{wanted[0]}")).data["projectID"],
        "subpath": "sub",
        "search": "ession",
        "archived": "false",
    }
    for chosen in [{name: value} for name, value in filters.items() if name in ("workspace", "archived")] + [filters]:
        expected = wanted if "workspace" in chosen else [*wanted, *(other["id"] for other in others)]
        first = f"/api/session?{urlencode({**chosen, 'order': 'asc', 'limit': 2})}"
        pages = await follow(memory, first)
        assert [id for page in pages for id in page] == expected
        assert [len(page) for page in pages[:-1]] == [2] * (len(pages) - 1)
        second = (await memory.get(f"/api/session?cursor={(await memory.get(first)).json['cursor']['next']}")).json
        back = (await memory.get(f"/api/session?cursor={second['cursor']['previous']}")).data
        assert [item["id"] for item in back] == expected[:2]


async def test_sizes_of_pages_over_http(memory: Wire) -> None:
    """SES-015, API-122, API-126: fifty unless asked; messages at most 200 and events at most 100 at once."""
    session = (await memory.create())["id"]
    for number in range(26):
        await memory.answer(session, f"prompt {number}")
    path = f"/api/session/{session}"
    sizes = {}
    for list, most in (("message", 200), ("history", 100)):
        for limit in (None, 1, most):
            query = "" if limit is None else f"?limit={limit}"
            sizes[list, limit] = len((await memory.get(f"{path}/{list}{query}")).data)
        for refused in (0, -1, most + 1, "many"):
            assert (await memory.get(f"{path}/{list}?limit={refused}")).failure == (400, "InvalidRequestError")

    assert sizes == {
        ("message", None): 50,
        ("message", 1): 1,
        ("message", 200): 52,
        ("history", None): 50,
        ("history", 1): 1,
        ("history", 100): 100,
    }


async def test_subpath_filters_sessions_below_it(memory: Wire, tmp_path: Path) -> None:
    """API-110: the reference ignores it, we do not; a sibling with the same beginning is not below."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    places = {name: tmp_path / "repo" / name for name in ("sub", "sub/deep", "subway", ".")}
    ids = {}
    for name, place in places.items():
        place.mkdir(exist_ok=True)
        ids[name] = (await memory.create(location={"directory": str(place.resolve())}))["id"]
    found = {item["id"] for item in (await memory.get("/api/session?subpath=sub")).data}

    assert found == {ids["sub"], ids["sub/deep"]}


@pytest.mark.parametrize(
    ("search", "found"),
    [("NEW%20SESSION", True), ("ession%20-%202", True), ("old", False), ("New%25session", False), ("_", False)],
)
async def test_search_is_a_plain_substring(memory: Wire, search: str, found: bool) -> None:
    """API-110: ASCII case does not matter; `%` and `_` are ordinary characters."""
    session = await memory.create()

    assert (await memory.get(f"/api/session?search={search}")).data == ([session] if found else [])


def forged(content: object, kind: type[ListCursor] | type[MessageCursor] = ListCursor) -> str:
    """With a checksum that fits."""
    return summed(base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"="), kind)


def summed(text: bytes, kind: type[ListCursor] | type[MessageCursor] = ListCursor) -> str:
    return (text + b"." + checksum(text, kind)).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "%00",
        "!!!!",
        "e30",
        "e30.",
        summed(b"e30"),
        summed(b"!!!!"),
        forged([]),
        forged({"anchor": {"id": "ses_x"}}),
        forged({"anchor": {"id": "ses_x", "time": "now", "direction": "next"}}),
        forged({"anchor": {"id": "ses_x", "time": 1, "direction": "sideways"}}),
        summed(base64.urlsafe_b64encode(b'{"unknown":' + b"[" * 5000)),
    ],
)
async def test_a_bad_list_cursor_is_refused(memory: Wire, cursor: str) -> None:
    """API-020, API-224, SES-015: undecodable, empty or of the wrong shape."""
    answer = await memory.get(f"/api/session?cursor={cursor}")

    assert answer.failure == (400, "InvalidCursorError")
    assert set(answer.json) == {"_tag", "message"}


@pytest.mark.parametrize(
    "extra",
    [{"limit": -1}, {"limit": 10**30}, {"anchor": {"id": "x", "time": 10**30, "direction": "next"}}],
    ids=["unlimited page", "huge page", "huge time"],
)
async def test_a_forged_list_cursor_is_refused(memory: Wire, extra: dict[str, Any]) -> None:
    """API-224: numbers that the server would never write give no page, least of all an unlimited one."""
    for _ in range(3):
        await memory.create()
    anchor = {"id": "ses_zzz", "time": 2**60, "direction": "next"}
    answer = await memory.get(f"/api/session?cursor={forged({'anchor': anchor, **extra})}")

    assert answer.failure == (400, "InvalidCursorError")


async def conversation(wire: Wire, turns: int = 4) -> tuple[str, list[str]]:
    """A session, and the ids of its messages, oldest first."""
    session: str = (await wire.create())["id"]
    for number in range(turns):
        await wire.answer(session, f"prompt {number}", id=f"msg_{9 - number}")
    context = (await wire.get(f"/api/session/{session}/context")).data
    return session, [message["id"] for message in context]


async def test_messages_come_newest_first_by_sequence(wire: Wire) -> None:
    """API-126, API-221..223: order of the log, not of ids; pages in both directions."""
    session, ids = await conversation(wire)
    path = f"/api/session/{session}/message"

    assert ids[::2] == ["msg_9", "msg_8", "msg_7", "msg_6"]
    assert [item["id"] for item in (await wire.get(path)).data] == ids[::-1]
    assert await follow(wire, f"{path}?limit=3&order=asc") == [ids[:3], ids[3:6], ids[6:]]
    assert await follow(wire, f"{path}?limit=3") == [ids[:-4:-1], ids[-4:-7:-1], ids[1::-1]]
    oldest = (await wire.get(f"{path}?limit=2&order=asc")).json["cursor"]["next"]
    middle = (await wire.get(f"{path}?limit=3&cursor={oldest}")).json
    assert [item["id"] for item in middle["data"]] == ids[2:5]
    assert await follow(wire, f"{path}?cursor={middle['cursor']['previous']}", "previous") == [ids[:2]]


async def test_order_beside_a_message_cursor_is_refused(memory: Wire) -> None:
    """API-224, SES-015: and an empty message cursor is none at all."""
    session, ids = await conversation(memory, turns=1)
    path = f"/api/session/{session}/message"
    cursor = (await memory.get(path)).json["cursor"]["next"]

    assert (await memory.get(f"{path}?order=desc&cursor={cursor}")).failure == (400, "InvalidCursorError")
    assert [item["id"] for item in (await memory.get(f"{path}?order=asc&cursor=")).data] == ids


async def test_a_cursor_of_another_session_is_refused(memory: Wire) -> None:
    """API-027, API-222: and says nothing about where it came from."""
    first, _ = await conversation(memory, turns=1)
    second = (await memory.create())["id"]
    await memory.answer(second)
    cursor = (await memory.get(f"/api/session/{first}/message")).json["cursor"]["next"]
    unknown = forged({"id": "msg_none", "order": "desc", "direction": "next"})
    answers = [await memory.get(f"/api/session/{second}/message?cursor={text}") for text in (cursor, unknown)]

    assert [answer.failure for answer in answers] == [(400, "InvalidCursorError")] * 2
    assert answers[0].body == answers[1].body


@pytest.mark.parametrize(
    "cursor", ["nonsense", "e30", forged({"id": 5, "order": "asc", "direction": "next"}, MessageCursor)]
)
async def test_a_bad_message_cursor_is_refused(memory: Wire, cursor: str) -> None:
    """API-224: as for sessions."""
    session = (await memory.create())["id"]

    assert (await memory.get(f"/api/session/{session}/message?cursor={cursor}")).failure == (400, "InvalidCursorError")


async def test_a_forged_message_cursor_is_refused(memory: Wire) -> None:
    """API-224: a negative size would mean no limit at all."""
    session, ids = await conversation(memory, turns=2)
    cursor = forged({"id": ids[0], "order": "asc", "direction": "next", "limit": -1})

    assert (await memory.get(f"/api/session/{session}/message?cursor={cursor}")).failure == (400, "InvalidCursorError")


async def test_a_cursor_is_opaque_and_fits_into_a_query(memory: Wire) -> None:
    """API-220: base64url without padding, JSON inside."""
    await memory.create()
    for cursor in (await memory.get("/api/session")).json["cursor"].values():
        text, _, _ = cursor.partition(".")
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", cursor)
        assert isinstance(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))), dict)


async def test_an_edited_cursor_is_refused(memory: Wire) -> None:
    """API-226: whichever byte was changed, dropped or doubled."""
    session, _ = await conversation(memory, 2)
    for path in ("/api/session", f"/api/session/{session}/message"):
        cursor = (await memory.get(f"{path}?limit=1")).json["cursor"]["next"]
        assert (await memory.get(f"{path}?cursor={cursor}")).status == 200
        for place in range(len(cursor)):
            other = "A" if cursor[place] != "A" else "B"
            edits = (cursor[:place] + other + cursor[place + 1 :], cursor[:place] + cursor[place + 1 :])
            for edited in edits:
                assert (await memory.get(f"{path}?cursor={edited}")).failure == (400, "InvalidCursorError"), edited


async def test_a_cursor_of_one_list_is_none_of_another(memory: Wire) -> None:
    """API-222, API-226: a list cursor on messages, and the other way round."""
    session, _ = await conversation(memory, 1)
    lists, messages = "/api/session", f"/api/session/{session}/message"
    cursors = {path: (await memory.get(f"{path}?limit=1")).json["cursor"]["next"] for path in (lists, messages)}

    assert (await memory.get(f"{lists}?cursor={cursors[messages]}")).failure == (400, "InvalidCursorError")
    assert (await memory.get(f"{messages}?cursor={cursors[lists]}")).failure == (400, "InvalidCursorError")


@pytest.mark.parametrize("name", ["workspace", "directory", "project", "subpath", "search", "archived"])
async def test_each_filter_alone_travels_with_the_cursor(memory: Wire, tmp_path: Path, name: str) -> None:
    """SES-014, API-221: one that another filter implies may get lost without a difference when both are given."""
    (there := tmp_path / "repo" / "sub").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".git" / "config").write_text('[remote "origin"]\nurl = https://git.example/repo.git\n')
    place = {"directory": str(there.resolve()), "workspaceID": "wrk_1"}
    chosen, others = [], []
    for _ in range(5):
        others.append((await memory.create())["id"])
        chosen.append((await memory.create(location=place))["id"])
    for id in chosen:
        assert (await memory.post(f"/api/session/{id}/rename", {"title": "Chosen"})).status == 200
    for id in others:
        await memory.post(f"/api/session/{id}/archive", {})
    filters = {
        "workspace": "wrk_1",
        "directory": place["directory"],
        "project": (await memory.get(f"/api/session/{chosen[0]}")).data["projectID"],
        "subpath": "sub",
        "search": "chosen",
        "archived": "false",
    }
    pages = await follow(memory, f"/api/session?{urlencode({name: filters[name], 'limit': 2})}")
    assert sorted(id for page in pages for id in page) == sorted(chosen)


async def test_a_cursor_of_the_overview_is_none_of_a_list_of_sessions(memory: Wire) -> None:
    """API-226: both lists are of Sessions, and their cursors begin alike."""
    for _ in range(2):
        await memory.create()
    lists, overview = "/api/session", "/api/overview"
    cursors = {path: (await memory.get(f"{path}?limit=1")).json["cursor"]["next"] for path in (lists, overview)}

    answers = [
        await memory.get(f"{lists}?cursor={cursors[overview]}"),
        await memory.get(f"{overview}?cursor={cursors[lists]}"),
    ]

    assert [answer.status for answer in answers] == [400, 400]
    assert {answer.json["_tag"] for answer in answers} == {"InvalidCursorError"}
