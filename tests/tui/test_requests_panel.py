"""Requests to the person: which keys answer what."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schema.form import (
    BooleanField,
    Form,
    FormAnswer,
    FormCondition,
    FormOption,
    IntegerField,
    MultiselectField,
    StringField,
)
from holdfast.schema.insight import InterruptedActivity
from holdfast.schema.overview import OpenRequest
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import Question, QuestionOption, QuestionRequest
from holdfast.schema.rendered import BodySection, CallBody
from holdfast.tui.lines import line_columns, plain_text
from holdfast.tui.permission_dialog import PermissionDialog
from holdfast.tui.request_answers import (
    AnswerQuestions,
    CancelForm,
    Decision,
    Recover,
    RejectQuestions,
    ReplyForm,
    ReplyPermission,
)
from holdfast.tui.requests_panel import GUARD_SECONDS, RequestsPanel
from holdfast.tui.style import UNICODE

ROOT = "ses_root"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def panel_with(*requests: OpenRequest, may_focus: bool = True) -> RequestsPanel:
    """A panel in which the first request was shown long ago."""
    clock = Time()
    panel = RequestsPanel(ROOT, UNICODE, clock)
    panel.update(requests, may_focus=may_focus)
    clock.now = GUARD_SECONDS
    return panel


def permission(
    *save: str, id: str = "per_1", session: str = ROOT, action: str = "bash", since: int = 1, **about: Any
) -> OpenRequest:
    resources = about.pop("resources", ("git push",))
    request = PermissionRequest(
        id=id, session_id=session, action=action, resources=resources, save=save, metadata=about or None
    )
    titles = ("Main", "Search") if session != ROOT else ("Main",)
    return OpenRequest(
        id=id, kind="permission", session_id=session, titles=titles, agent="general", since=since, permission=request
    )


def question(*questions: Question) -> OpenRequest:
    request = QuestionRequest(id="que_1", session_id=ROOT, questions=questions)
    return OpenRequest(id="que_1", kind="question", session_id=ROOT, since=1, question=request)


def form(*fields: Any, **about: Any) -> OpenRequest:
    filled = Form(id="frm_1", session_id=ROOT, title="Sign up", fields=fields, metadata=about or None)
    return OpenRequest(id="frm_1", kind="form", session_id=ROOT, since=1, form=filled)


def typed(panel: RequestsPanel, keys: str) -> list[Decision]:
    return [decision for key in keys.split() if (decision := panel.key(key)) is not None]


def screen(panel: RequestsPanel, width: int = 60, height: int = 20) -> str:
    lines = panel.lines(width, height)
    assert len(lines) <= height
    assert all(line_columns(line) <= width for line in lines)
    return "\n".join(plain_text(line).rstrip() for line in lines)


CHOICES = (QuestionOption(label="Red", description="warm"), QuestionOption(label="Blue", description="cold"))


# -- permissions -------------------------------------------------------------------------------------------------


def test_y_allows_once() -> None:
    """TUI-130"""
    assert typed(panel_with(permission("git *")), "y") == [ReplyPermission(ROOT, "per_1", "once")]


def test_a_with_one_pattern_saves_it() -> None:
    """TUI-130"""
    assert typed(panel_with(permission("git *")), "a") == [ReplyPermission(ROOT, "per_1", "always", save=("git *",))]


@pytest.mark.parametrize(("keys", "pattern"), [("a 2", "git *"), ("a down enter", "git *"), ("a enter", "git push")])
def test_a_with_several_patterns_lets_choose(keys: str, pattern: str) -> None:
    """TUI-130"""
    panel = panel_with(permission("git push", "git *"))
    assert typed(panel, keys) == [ReplyPermission(ROOT, "per_1", "always", save=(pattern,))]


def test_without_a_pattern_always_is_not_offered() -> None:
    """TUI-130"""
    panel = panel_with(permission())
    assert typed(panel, "a") == []
    assert "always" not in screen(panel)


@pytest.mark.parametrize(("reason", "sent"), [("use make", "use make"), ("  ", None)])
def test_n_asks_for_a_reason(reason: str, sent: str | None) -> None:
    """TUI-130"""
    panel = panel_with(permission())
    assert typed(panel, "n") == []
    assert panel.entry == "reason (empty stops the turn)"
    assert panel.enter(reason) == ReplyPermission(ROOT, "per_1", "reject", sent)


def test_esc_goes_back_from_a_step_and_then_to_the_composer() -> None:
    """TUI-131"""
    panel = panel_with(permission("a", "b"))
    typed(panel, "a escape")
    assert "allow it once" in screen(panel)
    typed(panel, "n escape escape")
    assert "Ctrl-G answers it" in screen(panel)


def test_the_whole_command_is_shown_not_its_parts() -> None:
    """TUI-132"""
    shown = screen(panel_with(permission(resources=("rm x", "ls"), command="rm x && ls", warnings=["deletes"])))
    assert "  rm x && ls" in shown
    assert "deletes" in shown


def test_a_long_text_can_be_scrolled_to_its_end() -> None:
    """TUI-132"""
    command = "\n".join(f"step {number}" for number in range(100))
    panel = panel_with(permission(command=command))
    assert "step 99" not in screen(panel, height=12)
    assert "more lines: Down" in screen(panel, height=12)
    for _ in range(100):
        panel.key("pagedown")
    assert "step 99" in screen(panel, height=12)
    assert "allow it once" in screen(panel, height=12)


def test_the_planned_diff_of_the_call_is_shown() -> None:
    """TUI-132"""
    panel = panel_with(permission(action="edit", resources=("a.txt",)))
    diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old text\n+new text\n"
    panel.set_call("per_1", CallBody(sections=(BodySection(kind="diff", text=diff, name="a.txt"),)))
    shown = screen(panel)
    assert "old text" in shown
    assert "new text" in shown


def test_hidden_characters_of_a_command_are_shown() -> None:
    """TUI-132"""
    shown = screen(panel_with(permission(command="echo \x1b[2J\u202egpj\u200b")))
    assert "\\u001b[2J\\u202egpj\\u200b" in shown


def test_a_request_of_a_subagent_names_who_asks() -> None:
    """TUI-133"""
    assert "asked by Main > Search (general)" in screen(panel_with(permission(session="ses_child")))


def test_the_oldest_request_is_shown_first_and_the_next_after_its_answer() -> None:
    """TUI-133"""
    panel = panel_with(permission(id="per_2", since=2), permission(id="per_1", since=1))
    assert "(1 of 2)" in screen(panel)
    assert typed(panel, "y") == [ReplyPermission(ROOT, "per_1", "once")]
    panel.answered("per_1")
    assert panel.current is not None
    assert panel.current.id == "per_2"


# -- keys that were typed for something else ---------------------------------------------------------------------


def test_a_request_that_has_just_appeared_ignores_keys() -> None:
    """TUI-134"""
    clock = Time()
    panel = RequestsPanel(ROOT, UNICODE, clock)
    panel.update([permission()], may_focus=True)
    assert typed(panel, "y") == []
    assert not panel.understands("y")
    clock.now = GUARD_SECONDS
    assert panel.understands("y")
    assert typed(panel, "y") == [ReplyPermission(ROOT, "per_1", "once")]


def test_the_next_request_also_ignores_keys_at_first() -> None:
    """TUI-134"""
    clock = Time()
    panel = RequestsPanel(ROOT, UNICODE, clock)
    panel.update([permission(), permission(id="per_2", since=2)], may_focus=True)
    clock.now = 10.0
    assert typed(panel, "y") != []
    panel.answered("per_1")
    assert typed(panel, "y") == []


def test_a_request_does_not_take_the_focus_from_a_draft() -> None:
    """TUI-134"""
    panel = panel_with(permission(), may_focus=False)
    assert not panel.focused
    assert "Ctrl-G answers it" in screen(panel)


def test_letters_that_answer_nothing_are_not_understood() -> None:
    """TUI-134"""
    panel = panel_with(permission("x"))
    assert [key for key in "yanhz/ " if panel.understands(key)] == ["y", "a", "n"]


def test_a_request_that_somebody_else_answered_leaves() -> None:
    """TUI-135"""
    panel = panel_with(permission(), permission(id="per_2", since=2))
    typed(panel, "n")
    panel.update([permission(id="per_2", since=2)], may_focus=True)
    assert panel.current is not None
    assert panel.current.id == "per_2"
    panel.update([], may_focus=True)
    assert not panel.focused
    assert panel.lines(60, 20) == []


def test_a_refused_answer_shows_the_request_again() -> None:
    """TUI-135"""
    panel = panel_with(permission())
    panel.answered("per_1")
    assert panel.current is None
    panel.failed("per_1", "refused")
    assert panel.current is not None


@pytest.mark.parametrize(("width", "height"), [(24, 5), (40, 17), (80, 21), (200, 50)])
def test_the_panel_fits_every_size(width: int, height: int) -> None:
    """TUI-132"""
    panel = panel_with(permission("a" * 300, "b" * 300, command="漢字" * 200, session="ses_child"))
    assert "y" in screen(panel, width, height)


# -- questions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["2", "down enter"])
def test_a_question_is_answered_with_an_option(keys: str) -> None:
    """TUI-136"""
    panel = panel_with(question(Question(question="Which?", header="Colour", options=CHOICES)))
    assert typed(panel, keys) == [AnswerQuestions(ROOT, "que_1", (("Blue",),))]


def test_several_options_are_marked_and_confirmed() -> None:
    """TUI-136"""
    panel = panel_with(question(Question(question="Which?", header="Colour", options=CHOICES, multiple=True)))
    assert typed(panel, "enter") == []
    assert "Space marks" in screen(panel)
    typed(panel, "1 down")
    assert panel.key(" ") is None
    assert typed(panel, "enter") == [AnswerQuestions(ROOT, "que_1", (("Red", "Blue"),))]


def test_an_answer_of_ones_own() -> None:
    """TUI-136"""
    panel = panel_with(question(Question(question="Which?", header="Colour", options=CHOICES)))
    typed(panel, "o")
    assert panel.enter(" ") is None
    assert panel.enter("green") == AnswerQuestions(ROOT, "que_1", (("green",),))


def test_own_answers_are_not_offered_where_they_are_not_allowed() -> None:
    """TUI-136"""
    panel = panel_with(question(Question(question="Which?", header="Colour", options=CHOICES, custom=False)))
    typed(panel, "o")
    assert panel.entry is None


def test_several_questions_are_asked_one_after_the_other_and_back() -> None:
    """TUI-136"""
    first = Question(question="First?", header="One", options=CHOICES)
    second = Question(question="Second?", header="Two", options=CHOICES)
    panel = panel_with(question(first, second))
    assert "(1 of 2)" in screen(panel)
    assert typed(panel, "1") == []
    assert "Second?" in screen(panel)
    typed(panel, "left")
    assert "First?" in screen(panel)
    assert typed(panel, "2 1") == [AnswerQuestions(ROOT, "que_1", (("Blue",), ("Red",)))]


def test_a_question_is_dismissed() -> None:
    """TUI-136"""
    panel = panel_with(question(Question(question="Which?", header="Colour", options=CHOICES)))
    assert typed(panel, "x") == [RejectQuestions(ROOT, "que_1")]


# -- forms and unfinished work -----------------------------------------------------------------------------------


def test_a_form_is_filled_in_field_by_field() -> None:
    """TUI-137"""
    colours = (FormOption(value="r", label="Red"), FormOption(value="b", label="Blue"))
    panel = panel_with(
        form(
            StringField(key="name", title="Name", required=True),
            IntegerField(key="age", default=30),
            BooleanField(key="news"),
            StringField(key="mail", when=(FormCondition(key="news", op="eq", value=True),)),
            MultiselectField(key="colours", options=colours),
        )
    )
    assert panel.entry == "Name"
    panel.enter("")
    assert "Please enter a text" in screen(panel)
    panel.enter("Ada")
    panel.enter("old")
    assert "Please enter a whole number" in screen(panel)
    panel.enter("")
    typed(panel, "n 1 2 enter")
    assert "send the form" in screen(panel)
    answer: FormAnswer = {"name": "Ada", "age": 30, "news": False, "colours": ("r", "b")}
    assert typed(panel, "enter") == [ReplyForm(ROOT, "frm_1", answer)]


def test_a_refused_form_is_asked_again_with_the_reason() -> None:
    """TUI-137"""
    panel = panel_with(form(StringField(key="name", required=True)))
    panel.enter("Ada")
    assert len(typed(panel, "enter")) == 1
    panel.answered("frm_1")
    panel.failed("frm_1", "the name is taken")
    assert "the name is taken" in screen(panel)
    assert panel.entry == "name"


def test_a_form_is_cancelled_and_a_sign_in_says_what_to_do() -> None:
    """TUI-137"""
    panel = panel_with(form(BooleanField(key="news")))
    assert typed(panel, "x") == [CancelForm(ROOT, "frm_1")]
    sign_in = panel_with(form(kind="mcp-authorization", server="tracker"))
    assert "holdfast auth login mcp:tracker" in " ".join(screen(sign_in).split())


@pytest.mark.parametrize(("key", "decision"), [("c", "continue"), ("b", "abandon")])
def test_unfinished_work_is_decided(key: str, decision: Any) -> None:
    """TUI-138"""
    activity = InterruptedActivity(
        session_id=ROOT, seq=1, stage="dispatched", since=1, suspended=False, safe=False, what="cut off", next="decide"
    )
    panel = panel_with(OpenRequest(id=ROOT, kind="recovery", session_id=ROOT, since=1, activity=activity))
    assert "cut off" in screen(panel)
    assert typed(panel, key) == [Recover(ROOT, decision)]


@pytest.mark.parametrize("width", [24, 60])
def test_the_panel_looks_the_same_in_a_window_of_its_own_height(width: int) -> None:
    """TUI-132"""
    panel = panel_with(permission("a", "b"))
    whole = panel.lines(width, 20)
    assert panel.lines(width, len(whole)) == whole


def test_what_a_person_decides_about_hides_no_character() -> None:
    """TUI-132: in the planned change too; its file is named once."""
    request = PermissionRequest(id="per_1", session_id="ses_1", action="edit", resources=("a.py",))
    dialog = PermissionDialog(request, UNICODE)
    patch = "@@ -1 +1 @@\n-old\n+new\u200b \u202etxt\n"
    dialog.set_call(CallBody(sections=(BodySection(kind="diff", text=patch, name="a.py", status="modified"),)))
    shown = [plain_text(line) for line in dialog.body(80)]
    assert sum("a.py" in line for line in shown) == 1
    assert any("new\\u200b \\u202etxt" in line for line in shown)
