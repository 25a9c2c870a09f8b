"""Asks the questions of a model, one after the other: an option, several of them, or an answer of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.text.visible_text import visible
from holdfast.tui.dialog import Choice, sentence_lines
from holdfast.tui.lines import columns, safe_line
from holdfast.tui.request_answers import AnswerQuestions, RejectQuestions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.question import Answer, Question, QuestionOption, QuestionRequest
    from holdfast.tui.lines import Line


CHOICE_COLUMNS = 12
"""What keys and boxes before a choice may take."""


class QuestionDialog:
    def __init__(self, request: QuestionRequest) -> None:
        self.request = request
        self._answers: list[Answer] = []
        self._selected = 0
        self._chosen: set[int] = set()
        self._own = False
        self.problem = ""
        self._begin()

    @property
    def _question(self) -> Question:
        return self.request.questions[len(self._answers)]

    @property
    def title(self) -> str:
        count = len(self.request.questions)
        place = f" ({len(self._answers) + 1} of {count})" if count > 1 else ""
        return f"{self._question.header}{place}"

    @property
    def entry(self) -> str | None:
        return "your answer" if self._own else None

    def body(self, width: int) -> list[Line]:
        lines = sentence_lines(self._question.question, width)
        if self._own:
            return lines
        for number, option in enumerate(self._question.options, start=1):
            if columns(safe_line(visible(_shown(option)))) > width - CHOICE_COLUMNS:  # the choice is cut
                lines += sentence_lines(f"{number}  {_shown(option)}", width, "class:dim")
        return lines

    def choices(self) -> Sequence[Choice]:
        if self._own:
            return ()
        question = self._question
        found = []
        for place, option in enumerate(question.options):
            box = f"[{'x' if place in self._chosen else ' '}] " if question.multiple else ""
            found.append(Choice(str(place + 1), f"{box}{_shown(option)}", place == self._selected))
        if question.custom is not False:
            found.append(Choice("o", "an answer of your own"))
        if question.multiple:
            found.append(Choice("Enter", "answer with what is marked; Space marks"))
        return [*found, Choice("x", "dismiss the question")]

    def key(self, key: str) -> AnswerQuestions | RejectQuestions | None:
        question = self._question
        count = len(question.options)
        self.problem = ""
        if key in ("up", "down") and count:
            self._selected = (self._selected + (1 if key == "down" else -1)) % count
        elif key == "x":
            return RejectQuestions(self.request.session_id, self.request.id)
        elif key == "o" and question.custom is not False:
            self._own = True
        elif key == "left" and self._answers:
            self._answers.pop()
            self._begin()
        elif key.isdecimal() and 1 <= int(key) <= count:
            self._selected = int(key) - 1
            if not question.multiple:
                return self._answer((question.options[self._selected].label,))
            self._chosen ^= {self._selected}
        elif key == " " and question.multiple and count:
            self._chosen ^= {self._selected}
        elif key == "enter" and count:
            chosen = sorted(self._chosen) if question.multiple else [self._selected]
            if not chosen:
                self.problem = "Space marks an option; x dismisses the question."
                return None
            return self._answer(tuple(question.options[place].label for place in chosen))
        return None

    def enter(self, text: str) -> AnswerQuestions | None:
        if not text.strip():
            self.problem = "Please write an answer, or press Esc."
            return None
        marked = tuple(self._question.options[place].label for place in sorted(self._chosen))
        return self._answer((*marked, text.strip()))

    def leave_entry(self) -> bool:
        was = self._own and bool(self._question.options)
        if was:
            self._own = False
        return was

    def _answer(self, answer: Answer) -> AnswerQuestions | None:
        self._answers.append(answer)
        if len(self._answers) < len(self.request.questions):
            self._begin()
            return None
        answers = tuple(self._answers)
        self._answers.pop()  # the dialog stays in its last question until the answer has arrived
        return AnswerQuestions(self.request.session_id, self.request.id, answers)

    def _begin(self) -> None:
        self._selected, self._chosen, self.problem = 0, set(), ""
        self._own = not self._question.options


def _shown(option: QuestionOption) -> str:
    return f"{option.label}: {option.description}" if option.description else option.label
