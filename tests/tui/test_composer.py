"""The draft of a prompt: pastes, history, completions."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from holdfast.tui.completion import Candidate, Completion, Trigger, ranked, score, trigger
from holdfast.tui.composer import Composer
from holdfast.tui.history import MOST_ENTRIES, History, history_file
from holdfast.tui.paste import MOST_BYTES, PasteRefused, Pastes, dropped_image


def composer(*entries: str, file: Path | None = None) -> Composer:
    history = History(file)
    for entry in entries:
        history.add(entry)
    return Composer(history)


# -- pastes ------------------------------------------------------------------------------------------------------


def test_a_long_paste_is_shown_as_a_mark_and_sent_whole() -> None:
    """TUI-110"""
    draft = composer()
    text = "\n".join(f"line {number}" for number in range(120))
    draft.buffer.insert_text("look: ")
    draft.paste(text)
    assert draft.text == "look: [pasted 120 lines]"
    sent = draft.take()
    assert sent is not None
    assert sent.text == f"look: {text}"
    assert sent.shown == "look: [pasted 120 lines]"
    assert draft.text == ""


def test_a_short_paste_is_inserted_as_it_is() -> None:
    """TUI-110"""
    draft = composer()
    draft.paste("one\r\ntwo\rthree")
    assert draft.text == "one\ntwo\nthree"


def test_a_paste_with_one_long_line_tells_its_length() -> None:
    """TUI-110"""
    draft = composer()
    draft.paste("x" * 5000)
    assert draft.text == "[pasted 5000 characters]"


def test_two_pastes_of_equal_size_keep_their_own_texts() -> None:
    """TUI-110"""
    draft = composer()
    draft.paste("a\n" * 20)
    draft.paste("b\n" * 20)
    sent = draft.take()
    assert sent is not None
    assert sent.text == "a\n" * 20 + "b\n" * 20


def test_a_mark_is_deleted_as_a_whole() -> None:
    """TUI-110"""
    draft = composer()
    draft.buffer.insert_text("before ")
    draft.paste("x\n" * 50)
    draft.delete_before()
    assert draft.text == "before "
    draft.paste("x\n" * 50)
    draft.buffer.cursor_position = len("before ")
    draft.delete_after()
    assert draft.text == "before "


def test_control_characters_of_a_paste_are_dropped() -> None:
    """TUI-111"""
    draft = composer()
    draft.paste("a\x1b[31mb\x00c\td\x9b2Je\x7f")
    assert draft.text == "a[31mbc\td2Je"


def test_a_paste_that_no_prompt_can_have_is_refused_with_its_size() -> None:
    """TUI-111"""
    draft = composer()
    draft.buffer.insert_text("kept")
    with pytest.raises(PasteRefused, match=r"5\.0 MiB, and a prompt at most 4"):
        draft.paste("x" * (MOST_BYTES + MOST_BYTES // 4))
    assert draft.text == "kept"


def test_a_draft_that_was_not_sent_comes_back_with_its_pastes() -> None:
    """TUI-112"""
    draft = composer()
    text = "long\n" * 30
    draft.paste(text)
    sent = draft.take()
    assert sent is not None
    draft.buffer.insert_text("typed since")
    draft.put_back(sent)
    assert draft.text == "[pasted 30 lines]\ntyped since"
    again = draft.take()
    assert again is not None
    assert again.text == f"{text}\ntyped since"


def test_a_long_prompt_that_is_taken_back_is_folded() -> None:
    """TUI-123"""
    draft = composer()
    draft.buffer.insert_text("typed")
    draft.prepend("row\n" * 40)
    assert draft.text == "[pasted 40 lines]\ntyped"
    sent = draft.take()
    assert sent is not None
    assert sent.text == "row\n" * 40 + "\ntyped"


@pytest.mark.parametrize("form", ["{}", "'{}'", "file://{}", "escaped"])
def test_a_dropped_image_becomes_an_attachment(tmp_path: Path, form: str) -> None:
    """TUI-113"""
    path = tmp_path / "a picture.png"
    path.write_bytes(b"\x89PNG")
    shown = str(path).replace(" ", "\\ ")
    given = {"{}": shown, "'{}'": f"'{path}'", "file://{}": path.as_uri(), "escaped": f"{shown} "}[form]
    draft = composer()
    draft.buffer.insert_text("see ")
    draft.paste(given)
    assert draft.text == "see [image 1: a picture.png]"
    sent = draft.take()
    assert sent is not None
    assert [(image.path, image.mime) for image in sent.images] == [(str(path), "image/png")]


def test_an_image_whose_mark_was_removed_is_not_attached(tmp_path: Path) -> None:
    """TUI-113"""
    path = tmp_path / "one.jpg"
    path.write_bytes(b"x")
    draft = composer()
    draft.paste(str(path))
    draft.delete_before()
    draft.buffer.insert_text("no image")
    sent = draft.take()
    assert sent is not None
    assert sent.images == ()


@pytest.mark.parametrize("text", ["", "notes.txt", "/no/such.png", "relative.png", "/a.png /b.png", "'unclosed.png"])
def test_other_texts_are_not_dropped_images(text: str) -> None:
    """TUI-113"""
    assert dropped_image(text) is None


def test_a_mark_stands_for_its_text_only_while_it_is_unchanged() -> None:
    """TUI-110"""
    pastes = Pastes()
    mark = pastes.take("x\n" * 40)
    assert pastes.expand(mark[:-1]).text == mark[:-1]


# -- history -----------------------------------------------------------------------------------------------------


def test_up_and_down_move_through_history_and_back_to_the_draft() -> None:
    """TUI-114"""
    draft = composer("first", "second")
    draft.buffer.insert_text("draft")
    draft.up()
    assert draft.text == "second"
    draft.up()
    draft.up()
    assert draft.text == "first"
    draft.down()
    draft.down()
    assert draft.text == "draft"


def test_up_moves_inside_a_draft_of_several_lines_first() -> None:
    """TUI-114"""
    draft = composer("old")
    draft.buffer.insert_text("one\ntwo")
    draft.up()
    assert draft.text == "one\ntwo"
    draft.up()
    assert draft.text == "old"


def test_search_finds_the_newest_match_then_older_ones() -> None:
    """TUI-115"""
    draft = composer("fix the parser", "write docs", "fix the tests")
    draft.buffer.insert_text("draft")
    draft.start_search()
    for letter in "FIX":
        draft.type_search(letter)
    assert draft.search is not None
    assert draft.search.found == "fix the tests"
    draft.start_search()
    assert draft.search.found == "fix the parser"
    draft.end_search(accept=True)
    assert draft.text == "fix the parser"


def test_a_search_that_is_left_keeps_the_draft() -> None:
    """TUI-115"""
    draft = composer("old")
    draft.buffer.insert_text("draft")
    draft.start_search()
    draft.type_search("o")
    draft.end_search(accept=False)
    assert draft.text == "draft"


def test_history_is_kept_per_project_in_a_private_bounded_file(tmp_path: Path) -> None:
    """TUI-116"""
    file = history_file(tmp_path, "/project")
    assert file != history_file(tmp_path, "/other")
    first = History(file)
    for number in range(MOST_ENTRIES + 50):
        first.add(f"prompt {number}\nwith two lines")
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700
    second = History(file)
    second.load()
    assert len(second.entries) == MOST_ENTRIES
    assert second.entries[-1] == f"prompt {MOST_ENTRIES + 49}\nwith two lines"


def test_a_damaged_or_unreadable_history_is_no_failure(tmp_path: Path) -> None:
    """TUI-116"""
    file = history_file(tmp_path, "/project")
    file.parent.mkdir()
    file.write_bytes(b'cut"\n' + json.dumps("good").encode() + b"\n{}\n\xff\xfe\n")
    history = History(file)
    history.load()
    assert history.entries == ["good"]
    missing = History(file / "below a file" / "history")
    missing.load()
    missing.add("still works")
    assert missing.entries == ["still works"]


def test_a_file_that_grew_too_large_keeps_its_newest_entries(tmp_path: Path) -> None:
    """TUI-116"""
    file = history_file(tmp_path, "/project")
    file.parent.mkdir()
    file.write_text("".join(json.dumps("x" * 1000) + "\n" for _ in range(2200)), encoding="utf-8")
    history = History(file)
    history.add("newest")
    assert file.stat().st_size < 1_200_000
    again = History(file)
    again.load()
    assert again.entries[-1] == "newest"


# -- completion --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/", Trigger("command", 1, "")),
        ("/mod", Trigger("command", 1, "mod")),
        ("/model x", None),
        ("see @", Trigger("mention", 5, "")),
        ("see (@src/ma", Trigger("mention", 6, "src/ma")),
        ("mail me@example", None),
        ("see @src done", None),
        ("plain", None),
    ],
)
def test_what_can_be_completed(text: str, expected: Trigger | None) -> None:
    """TUI-117"""
    assert trigger(text, len(text)) == expected


def test_candidates_are_ordered_by_how_well_they_match() -> None:
    """TUI-117"""
    names = ["tests/test_main.py", "src/domain.py", "main.py", "README.md"]
    assert [one.text for one in ranked("main", map(Candidate, names))] == [
        "main.py",
        "tests/test_main.py",
        "src/domain.py",
    ]
    assert score("xyz", "main.py") is None
    assert score("tmp", "tests/main.py") is not None


def test_an_accepted_candidate_replaces_the_query() -> None:
    """TUI-117"""
    wanted: list[Trigger] = []
    draft = Composer(History(None), wanted.append)
    draft.buffer.insert_text("see @ma")
    assert draft.completion.offer(wanted[-1], [Candidate("main.py"), Candidate("make.py")])
    draft.completion.move(1)
    draft.accept_completion()
    assert draft.text == "see @make.py "
    assert not draft.completion.open


def test_a_folder_is_completed_further() -> None:
    """TUI-117"""
    wanted: list[Trigger] = []
    draft = Composer(History(None), wanted.append)
    draft.buffer.insert_text("@sr")
    draft.completion.offer(wanted[-1], [Candidate("src/", opens=True)])
    draft.accept_completion()
    assert draft.text == "@src/"
    assert wanted[-1] == Trigger("mention", 1, "src/")


def test_an_answer_to_an_older_query_is_not_shown() -> None:
    """TUI-117"""
    completion = Completion()
    older = completion.follow("@a", 2)
    assert older is not None
    completion.follow("@ab", 3)
    assert not completion.offer(older, [Candidate("a")])
    assert not completion.open


def test_a_dismissed_list_stays_closed_for_this_word() -> None:
    """TUI-117"""
    completion = Completion()
    first = completion.follow("@a", 2)
    assert first is not None
    completion.offer(first, [Candidate("a")])
    completion.dismiss()
    assert completion.follow("@ab", 3) is None
    assert completion.follow("@ab @", 5) == Trigger("mention", 5, "")
