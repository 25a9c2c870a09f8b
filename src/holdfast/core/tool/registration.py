"""One tool under one name: its definition for the model, and the execution of calls with validated input and output."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.tool.codec import NotJson, SchemaMismatch, codec_of, json_value
from holdfast.core.tool.output import OutputNotSaved
from holdfast.core.tool.preview import pretty
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext, ToolFailure
from holdfast.llm.request import ToolDefinition
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.call_permission import CallPermission
    from holdfast.core.tool.codec import JsonCodec
    from holdfast.schema.session_message import ToolContent

NAME = pattern(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
MEDIA_PARTS = 16
MEDIA_BYTES = 20 * 1024 * 1024

NO_AUTHORIZER = "Permission denied: nothing here checks permissions"
INVALID_INPUT = "Invalid tool input: {detail}"
INVALID_OUTPUT = "Invalid tool output: {detail}"
UNENCODABLE = "Tool returned a value that cannot be encoded as JSON"
TOO_MUCH_MEDIA = f"Tool returned more media than {MEDIA_PARTS} files or {MEDIA_BYTES // 1024 // 1024} MiB"

log = logging.getLogger(__name__)


class RegistrationError(HoldfastError):
    """A tool cannot be registered under this name. No tool of the same call was registered."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class Registration:
    """Compared by identity: a call runs only on the registration that was advertised to the model."""

    def __init__(self, name: str, tool: Tool[Any, Any], permission: CallPermission | None = None) -> None:
        """`permission` checks the calls of a tool that does not check them itself."""
        if NAME.fullmatch(name) is None:
            raise RegistrationError(name, f"Invalid tool name: {name}")
        try:
            self._input = codec_of(tool.input)
            self._output = codec_of(tool.output)
            self._structured = codec_of(tool.structured_type) if tool.structured_type is not None else None
        except TypeError as error:
            raise RegistrationError(name, f"Invalid types of tool {name}: {error}") from error
        if self._input.schema.get("type", "object") != "object":
            raise RegistrationError(name, f"Invalid types of tool {name}: the input must be an object")
        self._tool = tool
        self.name = name
        self._permission = permission
        self.action = name if permission is not None or tool.action is None else tool.action
        self.read_only = tool.read_only
        self.grace = tool.grace
        self.other_names = tool.other_names
        self.definition = ToolDefinition(
            name=name,
            description=tool.description,
            input_schema=self._input.schema,
            output_schema=_advertised_output(tool, self._output, self._structured),
        )

    async def execute(self, arguments: Any, context: ToolContext, authorizer: Authorizer | None = None) -> CallOutput:
        """Decode the input, check the permission, execute, validate the output. Raises ToolFailure for expected
        failures; other exceptions propagate. Without an authorizer, a tool whose calls need a check does not run."""
        try:
            given = self._input.decode(arguments)
        except SchemaMismatch as error:
            raise ToolFailure(INVALID_INPUT.format(detail=error)) from error
        if self._permission is not None:
            if authorizer is None:
                raise ToolFailure(NO_AUTHORIZER)
            await self._permission.check(self.name, self._tool, given, arguments, context, authorizer)
        result = await self._tool.execute(given, context)
        if isinstance(result, CallOutput):
            return result
        try:
            value = self._output.encode(result)
        except NotJson:
            value = result  # the tool's `content` may still turn it into text
        except SchemaMismatch as error:
            raise ToolFailure(INVALID_OUTPUT.format(detail=error)) from error
        return self._project(given, value)

    def _project(self, given: Any, value: Any) -> CallOutput:
        tool = self._tool
        content: tuple[ToolContent, ...] = (TextContent(text=value),) if isinstance(value, str) else ()
        if tool.content is not None:
            content = tuple(tool.content(given, value))
        _check_media(content)
        structured = self._storable(self._structure(given, value), content)
        paths = tuple(tool.output_paths(given, value)) if tool.output_paths is not None else ()
        return CallOutput(structured if isinstance(structured, dict) else {"value": structured}, content, paths)

    def _structure(self, given: Any, value: Any) -> Any:
        if self._tool.structured is None:
            return value
        structured = self._tool.structured(given, value)
        try:
            return self._structured.encode(structured) if self._structured is not None else json_value(structured)
        except NotJson:
            return structured
        except SchemaMismatch as error:
            raise ToolFailure(INVALID_OUTPUT.format(detail=error)) from error

    def _storable(self, structured: Any, content: tuple[ToolContent, ...]) -> Any:
        """A value that the event log can encode. With content, an unencodable value becomes empty: the model reads the
        content only."""
        try:
            encode(structured)
        except UnicodeEncodeError:
            return decode_any("".join(pretty(structured)))  # replaces lone surrogates
        except (TypeError, ValueError, RecursionError) as error:
            log.error("tool %s: %s", self.definition.name, OutputNotSaved("encode", error))
            if not content:
                raise ToolFailure(UNENCODABLE) from error
            return {}
        return structured


def _advertised_output(tool: Tool[Any, Any], output: JsonCodec, structured: JsonCodec | None) -> dict[str, Any] | None:
    if structured is not None:
        return structured.schema
    return output.schema if tool.structured is None and output.schema else None


def _check_media(content: Iterable[ToolContent]) -> None:
    files = [part for part in content if isinstance(part, FileContent)]
    if len(files) > MEDIA_PARTS or sum(_decoded_size(part.uri) for part in files) > MEDIA_BYTES:
        raise ToolFailure(TOO_MUCH_MEDIA)


def _decoded_size(uri: str) -> int:
    """The size of a `data:` URI's content; 0 for other URIs."""
    start = uri.find(",") + 1
    if not uri.startswith("data:") or not start:
        return 0
    size = len(uri) - start
    return size * 3 // 4 - uri.count("=", -2) if uri[:start].endswith(";base64,") else size
