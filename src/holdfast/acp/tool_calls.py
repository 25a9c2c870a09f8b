"""A tool call as an editor shows it: its kind, a title, the files it is about, what it changes and what it returned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.acp.diffs import hunks
from holdfast.acp.text import bounded, printable, title
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.schema.session_message import ToolContent

Json = dict[str, Any]

KINDS = {
    "read": "read",
    "glob": "search",
    "grep": "search",
    "edit": "edit",
    "write": "edit",
    "apply_patch": "edit",
    "apply_subagent": "edit",
    "bash": "execute",
    "webfetch": "fetch",
    "websearch": "fetch",
    "todowrite": "think",
    "skill": "read",
    "subagent": "think",
}
TITLED_BY = ("description", "command", "path", "pattern", "url", "query", "name", "skill", "prompt")
"""The inputs that say best what a call does, in this order."""
MOST_DIFFS = 100
IMAGE_CHARACTERS = 8 * 1024 * 1024
RAW_CHARACTERS = 16 * 1024
"""Of each text in the raw input or output of a call."""
RAW_ITEMS = 200
RAW_DEPTH = 8


class ToolView(Frozen):
    """Makes what is shown of the calls of one Session. `who` is the agent, for a subagent."""

    directory: str
    who: str | None = None

    def kind(self, tool: str) -> str:
        return KINDS.get(tool, "other")

    def title(self, tool: str, given: Json) -> str:
        about = next((value for key in TITLED_BY if isinstance(value := given.get(key), str) and value), "")
        plain = about if tool == "bash" else f"{tool} {about}".rstrip()
        return title(f"{self.who}: {plain}" if self.who else plain)

    def locations(self, given: Json, files: Iterable[str] = ()) -> list[Json]:
        path = given.get("path")
        named = [path] if isinstance(path, str) and path else []
        places: dict[str, Json] = {}
        for name in (*named, *files):
            absolute = self.absolute(name)
            places.setdefault(absolute, {"path": printable(absolute)})
        offset = given.get("offset")
        if named and isinstance(offset, int) and not isinstance(offset, bool) and offset > 0:
            places[self.absolute(named[0])]["line"] = offset
        return list(places.values())[:MOST_DIFFS]

    def absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.directory, path))

    def planned(self, tool: str, given: Json, before: str | None = None) -> list[Json]:
        """What a call would do, as far as its input says. `before` is the present content of the file."""
        path = given.get("path")
        if tool == "edit" and isinstance(path, str) and isinstance(given.get("newString"), str):
            old = given.get("oldString")
            return [self._diff(path, old if isinstance(old, str) else "", given["newString"])]
        if tool == "write" and isinstance(path, str) and isinstance(given.get("content"), str):
            return [self._diff(path, before, given["content"])]
        for key in ("patchText", "diff", "command", "prompt", "url", "query"):
            if isinstance(text := given.get(key), str) and text:
                language = "diff" if key in ("patchText", "diff") else "sh" if key == "command" else ""
                return [text_content(fenced(text, language))]
        return []

    def changes(self, structured: Json) -> list[Json]:
        """The diffs of a call that has changed files."""
        found: list[Json] = []
        for name, patch in changed_files(structured):
            for old, new in hunks(patch):
                if len(found) < MOST_DIFFS:
                    found.append(self._diff(name, old, new))
        return found

    def _diff(self, path: str, old: str | None, new: str) -> Json:
        diff = {"type": "diff", "path": printable(self.absolute(path)), "newText": bounded(new)}
        return diff if old is None else {**diff, "oldText": bounded(old)}


def changed_files(structured: Json) -> list[tuple[str, str]]:
    """Names and patches of the files that a call has changed."""
    files = structured.get("files")
    return [
        (str(file["file"]), file["patch"] if isinstance(file.get("patch"), str) else "")
        for file in (files if isinstance(files, list) else ())
        if isinstance(file, dict) and "file" in file
    ]


def result_content(content: Sequence[ToolContent]) -> list[Json]:
    """What the model reads of a result: texts and images."""
    found: list[Json] = []
    for item in content:
        if isinstance(item, TextContent):
            found.append(text_content(bounded(item.text)))
        elif isinstance(item, FileContent):
            found.append({"type": "content", "content": file_block(item.uri, item.mime, item.name)})
    return found


def file_block(uri: str, mime: str, name: str | None) -> Json:
    """A file as a block of content: an image as such, anything else as a link."""
    head, _, data = uri.partition(";base64,")
    if head.startswith("data:") and mime.startswith("image/") and data and len(data) <= IMAGE_CHARACTERS:
        return {"type": "image", "data": data, "mimeType": mime}
    shown = printable(name or "file")
    link = "about:blank" if uri.startswith("data:") else printable(uri)
    return {"type": "resource_link", "name": shown, "uri": link, "mimeType": printable(mime)}


def text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """The text as a code block, whatever is in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{bounded(text)}\n{fence}"


def raw_value(value: Any, depth: int = 0) -> Any:
    """A bounded copy of a value of a model or a tool."""
    if isinstance(value, str):
        return bounded(value, RAW_CHARACTERS)
    if depth >= RAW_DEPTH:
        return None
    if isinstance(value, dict):
        return {printable(str(key))[:200]: raw_value(item, depth + 1) for key, item in list(value.items())[:RAW_ITEMS]}
    if isinstance(value, list | tuple):
        return [raw_value(item, depth + 1) for item in value[:RAW_ITEMS]]
    return value if isinstance(value, bool | int | float) else None
