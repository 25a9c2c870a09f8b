"""Asks for the values of a form, field by field. Fields whose condition does not hold are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.form import BooleanField, ExternalField, MultiselectField, StringField, asker, condition_holds
from holdfast.text.visible_text import brief, visible
from holdfast.tui.dialog import Choice, sentence_lines, text_lines
from holdfast.tui.form_values import NotAValue, expected, read_value, shown_value
from holdfast.tui.request_answers import CancelForm, ReplyForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.form import Form, FormAnswer, FormField, FormOption
    from holdfast.tui.lines import Line

SIGN_IN = "mcp-authorization"


class FormDialog:
    def __init__(self, form: Form) -> None:
        self.form = form
        self._answer: FormAnswer = {}
        self._asked: list[str] = []
        """The keys of the fields before the one that is asked for."""
        self._selected = 0
        self._chosen: set[int] = set()
        self._own = False
        self.problem = ""
        self._begin()

    @property
    def is_sign_in(self) -> bool:
        return (self.form.metadata or {}).get("kind") == SIGN_IN

    @property
    def field(self) -> FormField | None:
        """The field that is asked for; None if the form is complete."""
        return next((field for field in self._fields() if field.key not in self._asked), None)

    @property
    def title(self) -> str:
        return self.form.title

    @property
    def entry(self) -> str | None:
        field = self.field
        if field is None or self.is_sign_in or not self._own:
            return None
        return brief(visible(field.title or field.key), 30)

    def body(self, width: int) -> list[Line]:
        about = (self.form.metadata or {}).get("message")
        line = asker(self.form)
        lines = sentence_lines(line, width, "class:dim") if line is not None else []
        lines += sentence_lines(about, width) if isinstance(about, str) else []
        if self.is_sign_in:
            server = brief(visible(str((self.form.metadata or {}).get("server"))))
            return lines + sentence_lines(
                f"The MCP server {server} needs a sign-in. Run `holdfast auth login mcp:{server}` in another terminal; "
                "the call goes on by itself afterwards.",
                width,
            )
        for key in self._asked:
            value = self._answer.get(key)
            said = "(no answer)" if value is None else shown_value(value)
            lines += text_lines(f"{self._name(key)}: {said}", width, "class:dim")
        field = self.field
        if field is None:
            return lines
        needed = "" if field.required else " (optional)"
        lines += sentence_lines(f"{field.title or field.key}{needed}", width, "class:strong")
        if field.description:
            lines += sentence_lines(field.description, width)
        if isinstance(field, ExternalField):
            lines += text_lines(field.url, width, "class:accent")
        for option in _options(field):
            if option.description:
                lines += sentence_lines(f"{option.label}: {option.description}", width, "class:dim")
        default = None if isinstance(field, ExternalField) else field.default
        hint = "" if default is None else f"; Enter means {brief(visible(shown_value(default)))}"
        return lines + sentence_lines(f"{expected(field).capitalize()}{hint}.", width, "class:dim")

    def choices(self) -> Sequence[Choice]:
        leave = Choice("x", "cancel the form")
        field = self.field
        if self.is_sign_in:
            return [leave]
        if field is None:
            return [Choice("Enter", "send the form"), Choice("Left", "back"), leave]
        if self._own:
            return ()
        found = [
            Choice(
                str(place + 1),
                f"[{'x' if place in self._chosen else ' '}] {option.label}"
                if isinstance(field, MultiselectField)
                else option.label,
                place == self._selected,
            )
            for place, option in enumerate(_options(field))
        ]
        if isinstance(field, BooleanField | ExternalField):
            found += [Choice("y", "yes"), Choice("n", "no")]
        if isinstance(field, StringField | MultiselectField) and field.custom:
            found.append(Choice("o", "an answer of your own"))
        if isinstance(field, MultiselectField):
            found.append(Choice("Enter", "answer with what is marked; Space marks"))
        return [*found, leave]

    def key(self, key: str) -> ReplyForm | CancelForm | None:
        self.problem = ""
        field = self.field
        if key == "x":
            return CancelForm(self.form.session_id, self.form.id)
        if key == "left" and self._asked:
            self._answer.pop(self._asked.pop(), None)
            self._begin()
        elif self.is_sign_in:
            return None
        elif field is None:
            if key == "enter":
                return ReplyForm(self.form.session_id, self.form.id, dict(self._answer))
        elif isinstance(field, BooleanField | ExternalField):
            if key in ("y", "n"):
                self._take(key)
            elif key == "enter":
                self._take("")
        else:
            self._choose(field, key)
        return None

    def enter(self, text: str) -> None:
        self._take(text.strip())

    def leave_entry(self) -> bool:
        field = self.field
        if self._own and field is not None and _options(field):
            self._own = False
            return True
        if self._asked:
            self._answer.pop(self._asked.pop(), None)
            self._begin()
            return True
        return False

    def refused(self, reason: str) -> None:
        """The server did not accept the values: all are asked for again."""
        self._answer, self._asked = {}, []
        self._begin()
        self.problem = reason

    def _choose(self, field: FormField, key: str) -> None:
        options = _options(field)
        if key in ("up", "down") and options:
            self._selected = (self._selected + (1 if key == "down" else -1)) % len(options)
        elif key == "o" and isinstance(field, StringField | MultiselectField) and field.custom:
            self._own = True
        elif isinstance(field, MultiselectField):
            if key == " " and options:
                self._chosen ^= {self._selected}
            elif key.isdecimal() and 1 <= int(key) <= len(options):
                self._chosen ^= {int(key) - 1}
            elif key == "enter":
                self._take(",".join(str(place + 1) for place in sorted(self._chosen)))
        elif key.isdecimal() and 1 <= int(key) <= len(options):
            self._take(key)
        elif key == "enter" and options:
            self._take(str(self._selected + 1))

    def _take(self, line: str) -> None:
        field = self.field
        assert field is not None
        try:
            value = read_value(field, line)
        except NotAValue as wanted:
            self.problem = f"Please enter {wanted}."
            return
        if value is not None:
            self._answer[field.key] = value
        self._asked.append(field.key)
        self._begin()

    def _begin(self) -> None:
        field = self.field
        self._selected, self._chosen, self.problem = 0, set(), ""
        self._own = field is not None and not _options(field) and not isinstance(field, BooleanField | ExternalField)

    def _fields(self) -> list[FormField]:
        return [
            field
            for field in self.form.fields
            if all(condition_holds(condition, self._answer.get(condition.key)) for condition in field.when or ())
        ]

    def _name(self, key: str) -> str:
        return next((field.title or field.key for field in self.form.fields if field.key == key), key)


def _options(field: FormField) -> tuple[FormOption, ...]:
    return (field.options or ()) if isinstance(field, StringField | MultiselectField) else ()
