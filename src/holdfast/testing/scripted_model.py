"""A model for tests: it plays replies in order and keeps the requests. It speaks the wire format of a real provider, so
that everything else in the host is what runs in production."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.embedded.blocking import HoldfastSync
from holdfast.embedded.holdfast import Holdfast
from holdfast.llm.errors import LLMError
from holdfast.llm.offline import Call, OfflineResponse, Turn, respond, with_answer
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen
from holdfast.testing.requests import ModelRequest

if TYPE_CHECKING:
    from typing import Unpack

    from holdfast.embedded.settings import HoldfastSettings
    from holdfast.llm.route.transport import HttpRequest

MODEL = "demo/scripted"
SCRIPT_OVER = "the scripted model has no reply to request {number}: {prompt!r}"


class ToolCall:
    """The model calls a tool: `ToolCall("ticket", number=7)`."""

    def __init__(self, tool: str, /, **input: Any) -> None:
        self.tool = tool
        self.input = input


class Failure(Frozen):
    """The provider answers with this HTTP status. 429 and the 500s are tried again, as with a real provider."""

    status: int


class Structured(Frozen):
    """The model answers with this value in the form that the request prescribes. Any value that msgspec encodes."""

    value: Any


Reply = str | ToolCall | Failure | Structured | Sequence[str | ToolCall]
"""A text; a call; a failure; a value; or text and calls of one turn."""
Script = Reply | Callable[[ModelRequest], Reply]
"""A reply, or a function that makes it from the request."""


class ScriptedModel:
    """Give it replies, and give it to a host: `model.host(tmp_path)`. A request without a reply fails."""

    def __init__(self, *replies: Script) -> None:
        self.requests: list[ModelRequest] = []
        """The requests so far, oldest first."""
        self._replies = list(replies)

    def reply(self, *replies: Script) -> None:
        """Add replies to the end of the script."""
        self._replies += replies

    @property
    def remaining(self) -> int:
        """How many replies were not asked for."""
        return len(self._replies) - len(self.requests)

    def host(self, home: str | os.PathLike[str], **settings: Unpack[HoldfastSettings]) -> Holdfast:
        """A host, to be opened with `async with`, whose default model is this one. Its data, its configuration and its
        project, the folder `project`, lie in `home`; it reads nothing else of the user."""
        return Holdfast(_project(home), **self._settings(home, settings))

    def host_sync(self, home: str | os.PathLike[str], **settings: Unpack[HoldfastSettings]) -> HoldfastSync:
        """The same for blocking code, to be opened with `with`."""
        return HoldfastSync(_project(home), **self._settings(home, settings))

    def _settings(self, home: str | os.PathLike[str], given: HoldfastSettings) -> HoldfastSettings:
        own: HoldfastSettings = {
            "data": Path(home) / "data",
            "environment": {"HOME": os.fspath(home), "PATH": os.environ.get("PATH", os.defpath)},
            "transport": self,
        }
        return {**own, **given, "config": {"model": MODEL, **(given.get("config") or {})}}

    async def send(self, request: HttpRequest) -> OfflineResponse:
        """As of a transport of the host."""
        asked = ModelRequest(decode_any(b"".join(request.body)))
        self.requests.append(asked)
        number = len(self.requests)
        if number > len(self._replies):
            raise LLMError("InvalidRequest", SCRIPT_OVER.format(number=number, prompt=asked.prompt[:200]))
        script = self._replies[number - 1]
        return respond(_turn(script(asked) if callable(script) else script, asked), asked.body["model"])

    async def close(self) -> None:
        """As of a transport of the host."""


def _project(home: str | os.PathLike[str]) -> Path:
    project = Path(home) / "project"
    project.mkdir(parents=True, exist_ok=True)
    return project


def _turn(reply: Reply, request: ModelRequest) -> Turn:
    match reply:
        case str():
            return Turn(text=reply)
        case Failure(status=status):
            return Turn(fail=status)
        case Structured(value=value):
            return with_answer(Turn(answer=msgspec.to_builtins(value)), request.body)
        case ToolCall():
            return _turn([reply], request)
    calls = tuple(Call(tool=part.tool, input=part.input) for part in reply if isinstance(part, ToolCall))
    return Turn(text="".join(part for part in reply if isinstance(part, str)) or None, calls=calls or None)
