"""Requests of a Session and its subagents that wait for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.cli.attendance import SANDBOX_ESCAPE
from holdfast.cli.session_tools.results import DETAIL_CHARACTERS, OpenRequest, cut
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.form import ExternalField

if TYPE_CHECKING:
    from holdfast.cli.session_tools.arguments import Answer
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.form import Form
    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.question import QuestionRequest

MOST_RESOURCES = 50


async def open_requests(client: AsyncClient, session_id: str) -> list[OpenRequest]:
    permissions = await client.permissions.list(session_id)
    questions = await client.questions.list(session_id)
    forms = await client.forms.list(session_id)
    return [*map(_permission, permissions), *map(_question, questions), *map(_form, forms)]


async def answer(client: AsyncClient, given: Answer) -> None:
    """Raises InvalidRequest for an answer that does not fit the request, and what the client raises."""
    if given.request.startswith("per"):
        await _reply(client, given)
    elif given.request.startswith("que"):
        await _answer(client, given)
    elif given.request.startswith("frm"):
        await _fill_in(client, given)
    else:
        kinds = "a permission request (per_…), question (que_…) or form (frm_…)"
        raise InvalidRequest(f"{given.request[:100]} is not the id of {kinds}")


async def _reply(client: AsyncClient, given: Answer) -> None:
    if given.reply is None or given.answers is not None or given.form is not None or given.dismiss:
        raise InvalidRequest("A permission request is answered with `reply`: once or reject")
    request = await client.permissions.get(given.session, request_id=given.request)
    if request.action == SANDBOX_ESCAPE and given.reply != "reject":
        raise InvalidRequest("Only a person can allow a command to leave the sandbox. `reply` can be reject")
    await client.permissions.reply(given.session, request_id=given.request, reply=given.reply, message=given.message)


async def _answer(client: AsyncClient, given: Answer) -> None:
    if given.reply is not None or given.form is not None or (given.answers is None) != given.dismiss:
        raise InvalidRequest("A question is answered with `answers`, or with `dismiss`")
    if given.answers is None:
        await client.questions.reject(given.session, request_id=given.request)
    else:
        answers = [tuple(chosen) for chosen in given.answers]
        await client.questions.reply(given.session, request_id=given.request, answers=answers)


async def _fill_in(client: AsyncClient, given: Answer) -> None:
    if given.reply is not None or given.answers is not None or (given.form is None) != given.dismiss:
        raise InvalidRequest("A form is answered with `form`, or with `dismiss`")
    if given.form is None:
        await client.forms.cancel(given.session, form_id=given.request)
        return
    form = await client.forms.get(given.session, form_id=given.request)
    if _is_visit(form):
        raise InvalidRequest("Only a person can visit a page. `dismiss` cancels the form")
    await client.forms.reply(given.session, form_id=given.request, answer={**given.form})


def _is_visit(form: Form) -> bool:
    return any(isinstance(field, ExternalField) for field in form.fields)


def _form(form: Form) -> OpenRequest:
    details = encode(form.metadata).decode() if form.metadata else None
    return OpenRequest(
        id=form.id,
        kind="form",
        session=form.session_id,
        title=form.title,
        fields=msgspec.to_builtins(form.fields),
        details=cut(details, DETAIL_CHARACTERS) if details is not None else None,
        only_a_person=_is_visit(form),
    )


def _permission(request: PermissionRequest) -> OpenRequest:
    details = encode(request.metadata).decode() if request.metadata else None
    return OpenRequest(
        id=request.id,
        kind="permission",
        session=request.session_id,
        action=request.action,
        resources=[cut(resource, DETAIL_CHARACTERS) for resource in request.resources[:MOST_RESOURCES]],
        details=cut(details, DETAIL_CHARACTERS) if details is not None else None,
        only_a_person=request.action == SANDBOX_ESCAPE,
    )


def _question(request: QuestionRequest) -> OpenRequest:
    return OpenRequest(
        id=request.id, kind="question", session=request.session_id, questions=msgspec.to_builtins(request.questions)
    )
