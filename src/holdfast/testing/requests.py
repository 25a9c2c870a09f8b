"""What a scripted model was asked."""

from __future__ import annotations

from typing import Any

from holdfast.schema.frozen import Frozen


class ModelRequest(Frozen):
    """One request to the model."""

    body: dict[str, Any]
    """The request as it was sent, in the format of OpenAI's Chat Completions."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, without the request's own system text."""
        return [message for message in self.body["messages"] if message["role"] != "system"]

    @property
    def system(self) -> str:
        """The system texts."""
        return "\n".join(_text(message) for message in self.body["messages"] if message["role"] == "system")

    @property
    def prompt(self) -> str:
        """The newest text of the user; empty if there is none."""
        return next((_text(message) for message in reversed(self.messages) if message["role"] == "user"), "")

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools."""
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def tool_results(self) -> list[str]:
        """What the model reads as the results of its calls, oldest first."""
        return [_text(message) for message in self.messages if message["role"] == "tool"]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
