"""Forms that a person fills in, and their answers."""

from typing import Annotated, Any, Literal

import msgspec

from holdfast.schema.ids import SessionIDField
from holdfast.schema.question import QuestionTool
from holdfast.schema.record import Record

GLOBAL = "global"
"""In the place of a Session's id, for a form that belongs to no Session."""

FormIDField = Annotated[str, msgspec.Meta(pattern="^frm_")]
FormOwnerField = str
"""The id of a Session, or `global`."""
FormValue = str | int | float | bool | tuple[str, ...]
FormAnswer = dict[str, FormValue]
Count = Annotated[int, msgspec.Meta(ge=0)]


class FormOption(Record):
    value: str
    label: str
    description: str | None = None


class FormCondition(Record):
    """Holds if the field `key` has the value, or another one. Without an answer to that field it does not hold."""

    key: str
    op: Literal["eq", "neq"]
    value: str | int | float | bool


class FieldBase(Record):
    key: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None
    when: tuple[FormCondition, ...] | None = None
    """The field is part of the form only while all of these hold."""


class StringField(FieldBase, tag_field="type", tag="string"):
    format: Literal["email", "uri", "date", "date-time"] | None = None
    min_length: Count | None = None
    max_length: Count | None = None
    pattern: str | None = None
    placeholder: str | None = None
    default: str | None = None
    options: tuple[FormOption, ...] | None = None
    custom: bool | None = None
    """Whether an answer may be none of the options; false by default."""


class NumberField(FieldBase, tag_field="type", tag="number"):
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | float | None = None


class IntegerField(FieldBase, tag_field="type", tag="integer"):
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | None = None


class BooleanField(FieldBase, tag_field="type", tag="boolean"):
    default: bool | None = None


class MultiselectField(FieldBase, tag_field="type", tag="multiselect"):
    options: tuple[FormOption, ...]
    min_items: Count | None = None
    max_items: Count | None = None
    custom: bool | None = None
    """As that of a string."""
    default: tuple[str, ...] | None = None


class ExternalField(FieldBase, tag_field="type", tag="external"):
    """A page that the person visits; the answer is `true`. A `url` that begins with `/` is one of this server."""

    url: str


FormField = StringField | NumberField | IntegerField | BooleanField | MultiselectField | ExternalField


class Form(Record):
    id: FormIDField
    session_id: FormOwnerField
    title: str
    metadata: dict[str, Any] | None = None
    fields: tuple[FormField, ...]
    tool: QuestionTool | None = None
    """The tool call that waits for the answer."""
    ancestors: tuple[SessionIDField, ...] | None = None
    """The Sessions above the one that asks, root first; without a parent there are none."""


ELICITATION = "mcp-elicitation"
"""The kind, in the metadata, of a form that an MCP server asks for."""


def asker(form: Form) -> str | None:
    """Who gets the answer, in words that no server wrote, for a form that an MCP server asks for."""
    about = form.metadata or {}
    if about.get("kind") != ELICITATION:
        return None
    return f"The MCP server {about.get('server')} asks this and gets the answer. Never enter passwords or keys."


class FormState(Record):
    status: Literal["pending", "answered", "cancelled"]
    answer: FormAnswer | None = None


def condition_holds(condition: FormCondition, answer: FormValue | None) -> bool:
    """`answer` is that to the field that the condition names. Of several chosen values one has to be equal."""
    if answer is None:
        return False
    wanted = condition.value
    if isinstance(answer, tuple):
        found = wanted in answer
    else:
        found = answer == wanted and isinstance(answer, bool) == isinstance(wanted, bool)
    return found == (condition.op == "eq")
