"""Handlers of `protocol/questions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.server.asking import asking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.question import QuestionRequest
    from holdfast.server.types import ApiCall


async def list_requests(call: ApiCall) -> Sequence[QuestionRequest]:
    async with call.services as services:
        return await services.questions.list()


async def list(call: ApiCall) -> Sequence[QuestionRequest]:
    async with call.services as services:
        return await services.questions.of_tree(call.params.session_id)


async def reply(call: ApiCall) -> None:
    async with asking(call) as (services, session):
        await services.questions.reply(session.id, call.params.request_id, call.payload.answers)


async def reject(call: ApiCall) -> None:
    async with asking(call) as (services, session):
        await services.questions.reject(session.id, call.params.request_id)
