"""Tools called as a turn does, an authorizer that records what it was asked, and the file tools of a directory."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast.core.filesystem.location_files import FileSettings, LocationFiles
from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.scope import Scope
from holdfast.core.tool.builtin.apply_patch import apply_patch_tool
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.builtin.edit import edit_tool
from holdfast.core.tool.builtin.read import read_tool
from holdfast.core.tool.builtin.write import write_tool
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext, ToolFailure
from holdfast.schema.session_message import TextContent

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Asked(NamedTuple):
    action: str
    resources: tuple[str, ...]
    save: tuple[str, ...]
    metadata: Mapping[str, Any] = {}


class Recorder:
    """Allows everything but the denied actions; `meanwhile` runs while a person would think."""

    def __init__(self, *denied: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[Asked] = []
        self.denied = denied
        self.meanwhile = meanwhile

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked.append(Asked(action, tuple(resources), tuple(save), metadata or {}))
        if action in self.denied:
            raise Denied(f"Permission denied: {action} {', '.join(resources)}")
        self.meanwhile()

    @property
    def actions(self) -> list[str]:
        return [asked.action for asked in self.asked]


class Outcome(NamedTuple):
    structured: dict[str, Any]
    text: str
    media: list[dict[str, Any]]


class FileTools:
    """The file tools of one directory; `recorder` holds what they asked for."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.settings = FileSettings(**settings)
        self.recorder = Recorder()
        self.files = LocationFiles(root, settings=lambda: self.settings)

    def tool(self, name: str) -> Tool[Any, Any]:
        makers: dict[str, Callable[..., Tool[Any, Any]]] = {
            "read": read_tool,
            "write": write_tool,
            "edit": edit_tool,
            "apply_patch": apply_patch_tool,
        }
        return makers[name](self.files, self.recorder)

    async def call(self, name: str, context: ToolContext = CONTEXT, **arguments: Any) -> Outcome:
        return await run(self.tool(name), context, **arguments)

    async def refusal(self, name: str, **arguments: Any) -> str:
        with pytest.raises(ToolFailure) as refused:
            await self.call(name, **arguments)
        return str(refused.value)


async def run(tool: Tool[Any, Any], context: ToolContext = CONTEXT, **arguments: Any) -> Outcome:
    given = msgspec.convert(arguments, tool.input)
    value = msgspec.to_builtins(await tool.execute(given, context))
    structured = tool.structured(given, value) if tool.structured else value
    parts = [msgspec.to_builtins(part) for part in tool.content(given, value)] if tool.content else []
    structured = msgspec.json.decode(msgspec.json.encode(structured))
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    return Outcome(structured, text, [part for part in parts if part["type"] == "file"])


def tree(folder: Path) -> dict[str, Any]:
    """Everything below a folder: content, mode, link text."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        mode = path.lstat().st_mode
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = (oct(mode), path.read_bytes() if path.stat().st_size < 1 << 20 else path.stat().st_size)
        else:
            found[name] = oct(mode)
    return found


def caller(name: str, tool: Tool[Any, Any]) -> Callable[..., Awaitable[CallOutput]]:
    """The tool through the registry, with arguments as JSON."""
    registry = ToolRegistry()
    registry.register({name: tool}, Scope())

    async def call(**arguments: Any) -> CallOutput:
        return await registry.materialize(()).execute(name, arguments, CONTEXT)

    return call


def texts(output: CallOutput) -> list[str]:
    return [part.text for part in output.content if isinstance(part, TextContent)]
