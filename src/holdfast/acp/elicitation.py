"""Questions of the model and forms in the editor.

An editor that has elicitation shows them as forms. In any other, a question with options becomes a choice like that of
a permission; what cannot be asked at all is answered so that the model reads why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.acp.form_schema import FormSchema, QuestionSchema
from holdfast.acp.requests import ElicitationAnswer, PermissionAnswer
from holdfast.acp.text import bounded, printable, title
from holdfast.acp.translation import call_key
from holdfast.schema.exceptions import InvalidFormAnswer
from holdfast.schema.form import ExternalField, asker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.acp.requests import ClientCapabilities
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.form import Form
    from holdfast.schema.question import Question, QuestionRequest, QuestionTool

    Call = Callable[[str, dict[str, Any]], Awaitable[msgspec.Raw]]
    Note = Callable[[str], Awaitable[None]]

Json = dict[str, Any]
MOST_CHOICES = 20
ATTEMPTS = 3
CANNOT_ASK = (
    "The user's editor cannot show a question with a free answer. Ask it in your answer, and end your turn: the user "
    "replies with the next prompt."
)
CANNOT_FILL_IN = "{title}: this editor cannot show forms, so the request was cancelled. {way}"
ELSEWHERE = "`holdfast serve` with the page, or `holdfast run` in a terminal, can answer such a request."
SIGN_IN = "`holdfast auth login mcp:{server}` in a terminal signs in."


class Elicitation:
    def __init__(
        self, client: AsyncClient, session_id: str, offers: ClientCapabilities, call: Call, note: Note
    ) -> None:
        """`note` shows a line to the person."""
        self._client = client
        self._session_id = session_id
        self._offers = offers
        self._call = call
        self._note = note

    # -- questions -------------------------------------------------------------------------------------------------

    async def ask_questions(self, request: QuestionRequest, cancelling: Callable[[], bool]) -> None:
        """Raises McpError if the editor does not answer."""
        if self._offers.elicits_forms:
            answers = await self._elicited(request)
        else:
            answers = await self._chosen(request)
        if answers is None:
            if not cancelling():
                await self._client.questions.reject(request.session_id, request_id=request.id)
            return
        await self._client.questions.reply(request.session_id, request_id=request.id, answers=answers)

    async def _elicited(self, request: QuestionRequest) -> list[list[str]] | None:
        schema = QuestionSchema(request.questions)
        message = "\n\n".join(bounded(question.question, 2000) for question in request.questions)
        answer = await self._elicit(message, schema.document(), request.tool)
        return schema.answers(answer.content or {}) if answer.action == "accept" else None

    async def _chosen(self, request: QuestionRequest) -> list[list[str]] | None:
        answers: list[list[str]] = []
        for number, question in enumerate(request.questions):
            if not question.options:
                answers.append([CANNOT_ASK])
                continue
            chosen = await self._choice(f"{request.id}/{number}", question)
            if chosen is None:
                return None
            answers.append([chosen])
        return answers

    async def _choice(self, id: str, question: Question) -> str | None:
        options = question.options[:MOST_CHOICES]
        offered = [
            {"optionId": str(number), "name": title(_described(option.label, option.description)), "kind": "allow_once"}
            for number, option in enumerate(options)
        ]
        call = {"toolCallId": id, "title": title(question.question), "kind": "other", "status": "pending"}
        call["content"] = [  # type: ignore[assignment]
            {"type": "content", "content": {"type": "text", "text": bounded(question.question)}}
        ]
        dismiss = {"optionId": "dismiss", "name": "Dismiss, and end the turn", "kind": "reject_once"}
        params = {"sessionId": self._session_id, "toolCall": call, "options": [*offered, dismiss]}
        raw = await self._call("session/request_permission", params)
        try:
            outcome = msgspec.json.decode(raw, type=PermissionAnswer).outcome
        except ValueError:
            return None
        chosen = outcome.option_id if outcome.outcome == "selected" else None
        if chosen is None or not chosen.isdecimal() or int(chosen) >= len(options):
            return None
        return options[int(chosen)].label

    # -- forms -----------------------------------------------------------------------------------------------------

    async def ask_form(self, form: Form, cancelling: Callable[[], bool]) -> None:
        """Raises McpError if the editor does not answer."""
        pages = [field for field in form.fields if isinstance(field, ExternalField)]
        if pages and not (self._offers.elicits_urls and all(page.url.startswith("http") for page in pages)):
            await self._cannot_fill_in(form)
            return
        if len(pages) < len(form.fields) and not self._offers.elicits_forms:
            await self._cannot_fill_in(form)
            return
        visited = await self._visit(form, pages)
        has_fields = len(pages) < len(form.fields)
        answered = visited is not None and await self._fill_in(form, visited, has_fields=has_fields)
        if not answered and not cancelling():
            await self._client.forms.cancel(form.session_id, form_id=form.id)

    async def _visit(self, form: Form, pages: list[ExternalField]) -> Json | None:
        """None if the person did not visit a page."""
        visited: Json = {}
        for page in pages:
            params = {
                **self._scope(form.tool),
                "mode": "url",
                "message": _introduced(form, page.title or form.title),
                "elicitationId": f"{form.id}/{page.key}",
                "url": printable(page.url),
            }
            raw = await self._call("elicitation/create", params)
            if _answer(raw).action != "accept":
                return None
            visited[page.key] = True
        return visited

    async def _fill_in(self, form: Form, visited: Json, *, has_fields: bool) -> bool:
        """Ask until the answer is one of the form. False if the person gave up."""
        schema = FormSchema(form)
        problem = ""
        for _ in range(ATTEMPTS):
            values = dict(visited)
            if has_fields:
                answer = await self._elicit(f"{_introduced(form, form.title)}{problem}", schema.document(), form.tool)
                if answer.action != "accept":
                    return False
                values |= schema.values(answer.content or {})
            try:
                await self._client.forms.reply(form.session_id, form_id=form.id, answer=values)
            except InvalidFormAnswer as error:
                problem = f"\n\n{error}"
            else:
                return True
        return False

    async def _cannot_fill_in(self, form: Form) -> None:
        about = form.metadata or {}
        server = str(about.get("server", ""))
        way = SIGN_IN.format(server=server) if about.get("kind") == "mcp-authorization" else ELSEWHERE
        await self._note(CANNOT_FILL_IN.format(title=title(form.title), way=way))
        await self._client.forms.cancel(form.session_id, form_id=form.id)

    # -- the editor ------------------------------------------------------------------------------------------------

    async def _elicit(self, message: str, schema: Json, tool: QuestionTool | None) -> ElicitationAnswer:
        params = {**self._scope(tool), "mode": "form", "message": message, "requestedSchema": schema}
        return _answer(await self._call("elicitation/create", params))

    def _scope(self, tool: QuestionTool | None) -> Json:
        scope = {"sessionId": self._session_id}
        return scope if tool is None else {**scope, "toolCallId": call_key(tool.message_id, tool.call_id)}


def _introduced(form: Form, text: str) -> str:
    """With who asks, and what of the server's own message there is."""
    about = (form.metadata or {}).get("message")
    parts = (asker(form), bounded(text, 2000), bounded(about, 2000) if isinstance(about, str) else None)
    return "\n\n".join(part for part in parts if part)


def _described(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label


def _answer(raw: msgspec.Raw) -> ElicitationAnswer:
    """What is no answer counts as none."""
    try:
        return msgspec.json.decode(raw, type=ElicitationAnswer)
    except (ValueError, RecursionError):
        return ElicitationAnswer(action="cancel")
