"""A question of an MCP server as a form, and the answer to that form as an answer to the server.

Everything in the question is text of a stranger: names, texts, counts and addresses are bounded, and what no form can
show is refused with a reason, which the server reads.

Invariants
- No text has characters that are not seen or that change what is seen. What goes back to the server as it is, keys and
  values, is refused if it has them.
- No field asks for a secret: the answer would be shown while it is typed, and stays in the log.
- A page is opened on the public internet only. One nearer is part of what a person trusts, and not of a stranger."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.core.form.answer import is_number
from holdfast.core.form.definition import check_form
from holdfast.core.form.errors import InvalidForm
from holdfast.core.form.forms import FormDraft
from holdfast.core.mcp.stranger_text import printable
from holdfast.core.web.near_addresses import Nearness, name_nearness
from holdfast.mcp.errors import shown
from holdfast.mcp.input import ElicitationAnswer
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.form import (
    ELICITATION,
    BooleanField,
    ExternalField,
    FormOption,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.form.forms import FormReply
    from holdfast.mcp.input import Elicitation, FieldValue
    from holdfast.schema.form import FormField

KIND = ELICITATION
MOST_FIELDS = 32
MESSAGE_CHARACTERS = 4_000
ID_CHARACTERS = 200
VISIT = "elicitation"
"""The key of the field with an address."""
AGREE = "accept"
"""The key of the only field, where the server asks for nothing but a yes."""

SECRET_PROBLEM = (
    "a form may not ask for passwords, keys or tokens, whose answers stay in the log. Send the person to an address "
    "instead (mode `url`)"
)
ENTERED = ("string", "number", "integer")
"""Types of what a person may type."""
TYPES = ("string", "number", "integer", "boolean", "array")
CONSTRAINTS = frozenset(
    (
        *("$ref", "allOf", "not", "if", "then", "else", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"),
        *("properties", "patternProperties", "required", "contains", "prefixItems"),
    )
)
"""Demands on a value that no form makes. What is no demand is ignored."""
_FORMATS = ("email", "uri", "date", "date-time")


SECRETS = pattern(
    r"(?i)\b(pass ?words?|passwd|pwd|pass ?phrases?|secrets?|credentials?|tokens?|otp|cvv|cvc|pin|bearer|cookies?|"
    r"(api|access|private|secret|signing|encryption|ssh|license) ?keys?|seed phrase)\b"
)
"""Words in the name or the title of a field that asks for a secret."""
COUNTS = pattern(r"(?i)\b(max|min|maximum|minimum|number of|count of) (\w+ )?tokens\b|\btokens? (count|limit|budget)\b")
"""Tokens that language models read."""


class ElicitationRefused(HoldfastError):
    """No form can show what the server asks for."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The question cannot be shown to a person: {reason}")
        self.reason = reason


def as_draft(server: str, request: Elicitation, held: dict[str, Any] | None = None) -> FormDraft:
    """Raises ElicitationRefused."""
    if len(request.message) > MESSAGE_CHARACTERS:
        raise ElicitationRefused(f"its message has more than {MESSAGE_CHARACTERS} characters")
    about: dict[str, Any] = {"kind": KIND, "server": server, "message": printable(request.message)}
    if request.elicitation_id is not None:
        if len(request.elicitation_id) > ID_CHARACTERS:
            raise ElicitationRefused(f"its elicitationId has more than {ID_CHARACTERS} characters")
        if not _is_plain(request.elicitation_id):
            raise ElicitationRefused("its elicitationId has characters that cannot be shown")
        about["elicitationID"] = request.elicitation_id
    fields = _visited(request.url or "") if request.mode == "url" else _fields(request.requested_schema or {})
    draft = FormDraft(f"{server} is requesting input", fields, about, held)
    try:
        check_form(draft.title, draft.fields, draft.metadata)
    except InvalidForm as error:
        raise ElicitationRefused(error.reason) from error
    return draft


def as_answer(request: Elicitation, reply: FormReply) -> ElicitationAnswer:
    if reply.answer is None:
        return ElicitationAnswer(action="decline" if reply.declined else "cancel")
    if request.mode == "url":
        return ElicitationAnswer(action="accept")
    if not _properties(request.requested_schema or {}):
        agreed = reply.answer.get(AGREE) is not False
        return ElicitationAnswer(action="accept", content={}) if agreed else ElicitationAnswer(action="decline")
    content: dict[str, FieldValue] = {
        key: list(value) if isinstance(value, tuple) else value for key, value in reply.answer.items()
    }
    return ElicitationAnswer(action="accept", content=content)


def _visited(url: str) -> tuple[FormField, ...]:
    """The person decides by the host, so nothing may look like another one."""
    if url.startswith("/"):
        raise ElicitationRefused("its url is neither http nor https")
    host = url.partition("//")[2].partition("/")[0]
    if "@" in host:
        raise ElicitationRefused("its url has a user name")
    if not host.isascii():
        raise ElicitationRefused("the host of its url is not written in ASCII")
    if not _is_plain(url):
        raise ElicitationRefused("its url has characters that cannot be shown")
    try:
        name = urlsplit(url).hostname or ""
    except ValueError as error:
        raise ElicitationRefused("its url is not valid") from error
    if name and name_nearness(name) != Nearness.PUBLIC:
        raise ElicitationRefused(f"its url leads to {shown(name, 100)}, which is not on the public internet")
    return (ExternalField(key=VISIT, url=url, title="Open this page", required=True),)


def _fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    if schema.get("type", "object") != "object":
        raise ElicitationRefused("requestedSchema is not that of an object")
    properties = _properties(schema)
    if not properties:
        return (BooleanField(key=AGREE, title="Accept", required=True, default=True),)
    if len(properties) > MOST_FIELDS:
        raise ElicitationRefused(f"it has {len(properties)} fields; {MOST_FIELDS} are allowed")
    required = schema.get("required") or []
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ElicitationRefused("`required` is not a list of names")
    if unknown := [name for name in required if name not in properties]:
        raise ElicitationRefused(f"`required` names {shown(unknown[0])!r}, which is not a property")
    named = schema.get("$defs")
    return tuple(
        _field(key, _named(value, named), required=key in required or None) for key, value in properties.items()
    )


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = schema.get("properties", {})
    if not isinstance(found, dict):
        raise ElicitationRefused("`properties` is not an object")
    return found


def _field(key: str, schema: Any, *, required: bool | None) -> FormField:
    if not isinstance(schema, dict):
        raise _refused(key, "its schema is not an object")
    schema = _present(schema)
    _check(key, _is_plain(key), "its name has characters that cannot be shown")
    kind = schema.get("type")
    if kind in ENTERED:
        for text in (key, schema.get("title")):
            _check(key, not (isinstance(text, str) and _asks_for_secret(text)), SECRET_PROBLEM)
    if kind not in TYPES:
        raise _refused(key, f"its type is none of {', '.join(TYPES)}")
    if unknown := CONSTRAINTS.intersection(schema):
        raise _refused(key, f"no form can demand {min(unknown)}")
    title, description = _text(key, schema, "title"), _text(key, schema, "description")
    default = schema.get("default")
    _check(key, kind == "string" or "const" not in schema, "its const is not a text")
    if kind == "boolean":
        _check(key, default is None or isinstance(default, bool), "its default is not a boolean")
        return BooleanField(key=key, title=title, description=description, required=required, default=default)
    if kind in ("number", "integer"):
        low, high = _number(key, schema, "minimum"), _number(key, schema, "maximum")
        number = _number(key, schema, "default")
        if kind == "number":
            return NumberField(
                key=key,
                title=title,
                description=description,
                required=required,
                minimum=low,
                maximum=high,
                default=number,
            )
        _check(key, number is None or number == int(number), "its default is not a whole number")
        return IntegerField(
            key=key,
            title=title,
            description=description,
            required=required,
            minimum=low,
            maximum=high,
            default=None if number is None else int(number),
        )
    if kind == "array":
        items = schema.get("items")
        options = _options(key, items) if isinstance(items, dict) else None
        if options is None:
            raise _refused(key, "its items are not a choice")
        chosen = isinstance(default, list) and all(isinstance(item, str) and _is_plain(item) for item in default)
        _check(key, default is None or chosen, "its default is not a list of texts")
        return MultiselectField(
            key=key,
            title=title,
            description=description,
            required=required,
            options=options,
            min_items=_count(key, schema, "minItems"),
            max_items=_count(key, schema, "maxItems"),
            custom=False,
            default=None if default is None else tuple(default),
        )
    options = _options(key, schema)
    _check(key, schema.get("format") in (None, *_FORMATS), f"its format is none of {', '.join(_FORMATS)}")
    return StringField(
        key=key,
        title=title,
        description=description,
        required=required,
        format=schema.get("format"),
        min_length=_count(key, schema, "minLength"),
        max_length=_count(key, schema, "maxLength"),
        pattern=_pattern(key, schema),
        placeholder=_text(key, schema, "placeholder"),
        default=_text(key, schema, "default"),
        options=options,
        custom=False if options is not None else None,
    )


def _named(schema: Any, named: Any) -> Any:
    """With a schema of `$defs` in the place of its name; also that of the items. One step, so that nothing recurs."""
    if not isinstance(schema, dict) or not isinstance(named, dict):
        return schema
    if isinstance(items := schema.get("items"), dict):
        schema = {**schema, "items": _looked_up(items, named)}
    return _looked_up(schema, named)


def _looked_up(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref")
    found = named.get(name.removeprefix("#/$defs/")) if isinstance(name, str) else None
    if not isinstance(found, dict):
        return schema
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}


def _present(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value that may be absent, which some servers write as a choice between it and null."""
    choices = schema.get("anyOf")
    if "type" in schema or not isinstance(choices, list):
        return schema
    others = [choice for choice in choices if choice != {"type": "null"}]
    if len(others) != 1 or not isinstance(others[0], dict):
        return schema
    return {**others[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


def _options(key: str, schema: Mapping[str, Any]) -> tuple[FormOption, ...] | None:
    """Those of `const` and `enum`, with the names that some versions give them, or of `oneOf` and `anyOf`."""
    if "const" in schema:
        _check(key, isinstance(schema["const"], str), "its const is not a text")
        return (_option(key, schema["const"], schema["const"]),)
    if (values := schema.get("enum")) is not None:
        _check(key, _are_texts(values), "its enum is not a list of texts")
        names = schema.get("enumNames")
        _check(key, names is None or (_are_texts(names) and len(names) == len(values)), "its enumNames do not fit")
        return tuple(_option(key, value, name) for value, name in zip(values, names or values, strict=True))
    choices = schema.get("oneOf", schema.get("anyOf"))
    if choices is None:
        return None
    _check(key, isinstance(choices, list), "its choices are not a list")
    found = []
    for choice in choices:
        value = choice.get("const") if isinstance(choice, dict) else None
        label = choice.get("title", value) if isinstance(choice, dict) else None
        _check(key, isinstance(value, str) and isinstance(label, str), "a choice has no text as `const`")
        found.append(_option(key, str(value), str(label), _text(key, choice, "description")))
    return tuple(found)


def _option(key: str, value: str, label: str, description: str | None = None) -> FormOption:
    _check(key, _is_plain(value), "a choice has characters that cannot be shown")
    return FormOption(value=value, label=printable(label), description=description)


def _text(key: str, schema: Mapping[str, Any], name: str) -> str | None:
    found = schema.get(name)
    _check(key, found is None or isinstance(found, str), f"its {name} is not a text")
    return None if found is None else printable(found)


def _pattern(key: str, schema: Mapping[str, Any]) -> str | None:
    """As it is: values have to match it."""
    found = schema.get("pattern")
    _check(key, found is None or (isinstance(found, str) and _is_plain(found)), "its pattern is not a plain text")
    return found


def _is_plain(text: str) -> bool:
    return printable(text) == text


def _asks_for_secret(text: str) -> bool:
    """`apiKey`, `api_key` and `API key` are the same words."""
    words = " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", " ", text[:MESSAGE_CHARACTERS]).split())
    return SECRETS.search(COUNTS.sub("", words)) is not None


def _number(key: str, schema: Mapping[str, Any], name: str) -> int | float | None:
    found = schema.get(name)
    _check(key, found is None or is_number(found), f"its {name} is not a number")
    return found


def _count(key: str, schema: Mapping[str, Any], name: str) -> int | None:
    found = _number(key, schema, name)
    _check(key, found is None or (found == int(found) and found >= 0), f"its {name} is not a count")
    return None if found is None else int(found)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check(key: str, valid: bool, problem: str) -> None:
    if not valid:
        raise _refused(key, problem)


def _refused(key: str, problem: str) -> ElicitationRefused:
    return ElicitationRefused(f"field {shown(key, 60)!r}: {problem}")
