"""Questions and forms as the schemas that an editor fills in, and its content back as answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.acp.text import bounded, title
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    Form,
    FormOption,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
    condition_holds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.form import FormField
    from holdfast.schema.question import Question

Json = dict[str, Any]
OTHER = "{key}_other"
OTHER_TITLE = "Another answer"
DESCRIPTION_CHARACTERS = 2000


class QuestionSchema:
    """One field for each question, and one for an answer that is not among its options."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions

    def document(self) -> Json:
        properties: Json = {}
        for key, question in self._keyed():
            about = {"title": title(question.header or question.question), **_description(question.question)}
            options = [
                FormOption(value=one.label, label=one.label, description=one.description) for one in question.options
            ]
            if not options:
                properties[key] = {"type": "string", **about}
                continue
            properties[key] = {**_choice(options, several=bool(question.multiple)), **about}
            if question.custom is not False:
                properties[OTHER.format(key=key)] = {"type": "string", "title": OTHER_TITLE}
        return {"type": "object", "properties": properties}

    def answers(self, content: Json) -> list[list[str]]:
        """What was chosen and written, question by question."""
        found = []
        for key, question in self._keyed():
            chosen = _texts(content.get(key))
            other = _texts(content.get(OTHER.format(key=key)))
            found.append(other if other and not question.multiple else [*chosen, *other])
        return found

    def _keyed(self) -> list[tuple[str, Question]]:
        return [(f"answer{number}", question) for number, question in enumerate(self._questions, 1)]


class FormSchema:
    """Fields that are part of the form under a condition are not required here; the runtime checks the answer."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def document(self) -> Json:
        properties: Json = {}
        required: list[str] = []
        for field in self._form.fields:
            if isinstance(field, ExternalField):
                continue
            properties[field.key] = {**_property(field), **_about(field)}
            if isinstance(field, StringField | MultiselectField) and field.custom:
                properties[OTHER.format(key=field.key)] = {"type": "string", "title": OTHER_TITLE}
            elif field.required and not field.when:
                required.append(field.key)
        document = {"type": "object", "title": title(self._form.title), "properties": properties}
        return {**document, "required": required} if required else document

    def values(self, content: Json) -> Json:
        """The values of the fields that are part of the form. Empty ones are left out."""
        values: Json = {}
        for field in self._form.fields:
            value = content.get(field.key)
            other = _texts(content.get(OTHER.format(key=field.key)))
            if isinstance(field, StringField) and field.custom and other:
                value = other[0]
            elif isinstance(field, MultiselectField) and field.custom and other:
                value = [*_texts(value), *other]
            if isinstance(field, IntegerField) and isinstance(value, float) and value.is_integer():
                value = int(value)
            if value in (None, "") or isinstance(field, ExternalField):
                continue
            if all(condition_holds(one, values.get(one.key)) for one in field.when or ()):
                values[field.key] = value
        return values


def _property(field: FormField) -> Json:
    match field:
        case StringField(options=options) if options:
            return {**_choice(options, several=False), **_given(default=field.default)}
        case StringField():
            return {
                "type": "string",
                **_given(
                    format=field.format,
                    minLength=field.min_length,
                    maxLength=field.max_length,
                    pattern=field.pattern,
                    default=field.default,
                ),
            }
        case MultiselectField(options=options):
            limits = {} if field.custom else _given(minItems=field.min_items, maxItems=field.max_items)
            default = list(field.default) if field.default else None
            return {**_choice(options, several=True), **limits, **_given(default=default)}
        case NumberField():
            return {"type": "number", **_given(minimum=field.minimum, maximum=field.maximum, default=field.default)}
        case IntegerField():
            return {"type": "integer", **_given(minimum=field.minimum, maximum=field.maximum, default=field.default)}
        case BooleanField():
            return {"type": "boolean", **_given(default=field.default)}
        case ExternalField():
            return {"type": "boolean"}


def _choice(options: Sequence[FormOption], *, several: bool) -> Json:
    listed = [{"const": one.value, "title": title(one.label), **_description(one.description)} for one in options]
    return {"type": "array", "items": {"anyOf": listed}} if several else {"type": "string", "oneOf": listed}


def _about(field: FormField) -> Json:
    return {**({"title": title(field.title)} if field.title else {}), **_description(field.description)}


def _description(text: str | None) -> Json:
    return {"description": bounded(text, DESCRIPTION_CHARACTERS)} if text else {}


def _given(**values: Any) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]
