"""The files in a tool's result, in a form that every later request can hold: images decoded and made to fit, text as
text, anything else a note that names it. A tool's success stays a success."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import Content, Unusable, data_type, examine, is_data_uri, read_data_uri
from holdfast.llm.media import left_out
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from holdfast.core.filesystem.image import ImageLimits
    from holdfast.core.tool.tool import ToolOutput
    from holdfast.schema.session_message import ToolContent

SECONDS = 10.0
"""For each file."""
AT_ONCE = 2


async def normalise_media(output: ToolOutput, limits: ImageLimits, slots: asyncio.Semaphore) -> ToolOutput:
    """`slots` bounds how many results are worked on at once: decoding an image may take hundreds of megabytes."""
    if not any(isinstance(item, FileContent) for item in output.content):
        return output
    async with slots:
        return output.replace(content=tuple([await _normalised(item, limits) for item in output.content]))


async def _normalised(item: ToolContent, limits: ImageLimits) -> ToolContent:
    if not isinstance(item, FileContent):
        return item
    name = item.name or item.mime
    try:
        async with asyncio.timeout(SECONDS):
            content = await asyncio.to_thread(_examined, item, name, limits)
    except Unusable as error:
        return TextContent(text=left_out(name, str(error)))
    except TimeoutError:
        return TextContent(text=left_out(name, f"it could not be read within {SECONDS:g} s"))
    match content.kind:
        case "text":
            return TextContent(text=f"[file: {name}]\n{content.value}")
        case "data":
            return FileContent(uri=f"data:{content.mime};base64,{content.value}", mime=content.mime, name=item.name)
        case _:
            return TextContent(text=left_out(name, content.value))


def _examined(item: FileContent, name: str, limits: ImageLimits) -> Content:
    if not is_data_uri(item.uri):
        raise Unusable("a tool's file must be a data: URI")
    return examine(read_data_uri(item.uri), data_type(item.uri), name, limits).content
