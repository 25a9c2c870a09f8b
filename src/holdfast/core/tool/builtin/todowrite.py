"""The `todowrite` tool: replaces the model's todo list."""

import json
from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.database.errors import StorageError
from holdfast.core.session.todo import Todos
from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent
from holdfast.schema.todo import Todo

ACTION = "todowrite"
MOST = 200
CHARACTERS = 2000
FAILED = "Unable to update todos"
SEVERAL_IN_PROGRESS = "Note: more than one todo is in progress. Keep a single one in progress at a time."


class GivenTodo(msgspec.Struct, frozen=True):
    content: Annotated[str, msgspec.Meta(max_length=CHARACTERS, description="What is to be done, briefly")]
    status: Literal["pending", "in_progress", "completed", "cancelled"]
    priority: Literal["high", "medium", "low"]


class TodowriteInput(msgspec.Struct, frozen=True):
    todos: Annotated[tuple[GivenTodo, ...], msgspec.Meta(max_length=MOST, description="The whole list, in order")]


class TodoList(Record):
    todos: tuple[Todo, ...]


def todowrite_tool(todos: Todos, authorizer: Authorizer) -> Tool[TodowriteInput, TodoList]:
    async def execute(given: TodowriteInput, context: ToolContext) -> TodoList:
        await authorizer.allow(context, ACTION, ("*",), save=("*",))
        replacement = tuple(Todo(content=it.content, status=it.status, priority=it.priority) for it in given.todos)
        try:
            await todos.replace(context.session_id, replacement)
        except StorageError as error:
            raise ToolFailure(FAILED) from error
        return TodoList(todos=replacement)

    return Tool(
        read_only=True,
        description=DESCRIPTION,
        input=TodowriteInput,
        output=TodoList,
        execute=execute,
        content=_content,
    )


def _content(given: TodowriteInput, value: dict[str, Any]) -> list[TextContent]:
    shown = [TextContent(text=json.dumps(value["todos"], indent=2, ensure_ascii=False))]
    if sum(todo.status == "in_progress" for todo in given.todos) > 1:
        shown.append(TextContent(text=f"\n\n{SEVERAL_IN_PROGRESS}"))
    return shown


DESCRIPTION = (
    "Replace the todo list of this session. Use it for work of several steps: list them, keep exactly one in progress, "
    "and mark each completed as soon as it is done."
)
