"""Short lines about what subagents do, for `holdfast run`: below the call that gave them work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.cli.output import brief, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.tree import TreeTotal

MARK = "  ┊ "


class _Child:
    def __init__(self, depth: int, agent: str = "subagent") -> None:
        self.depth = depth
        self.agent = agent
        self.said = ""
        """Its last text since it was idle."""


class ChildLines:
    """Takes the events of descendants of one Session."""

    def __init__(self) -> None:
        self._children: dict[str, _Child] = {}

    @property
    def any(self) -> bool:
        """Whether there was a child."""
        return bool(self._children)

    def lines(self, session_id: str, kind: str, data: dict[str, Any]) -> Iterator[str]:
        child = self._children.setdefault(session_id, _Child(1))
        text = self._text(child, kind.removeprefix("session.next."), data)
        if text is not None:
            yield f"{MARK * child.depth}{one_line(child.agent)} {text}"

    def _text(self, child: _Child, kind: str, data: dict[str, Any]) -> str | None:
        match kind:
            case "session.created":
                above = self._children.get(data["info"].get("parentID", ""))
                child.depth = above.depth + 1 if above is not None else 1
                child.agent = data["info"].get("agent") or child.agent
                return f": {brief(data['info']['title'])} ({data['info']['id']})"
            case "step.started":
                child.agent = data["agent"]
            case "text.ended":
                child.said = data["text"]
            case "tool.called":
                values = (value for value in data["input"].values() if isinstance(value, str | int | float))
                return f"> {data['tool']} {brief(' '.join(map(str, values)))}".rstrip()
            case "tool.failed" | "step.failed" | "retried":
                return f"! {brief(data['error']['message'])}"
            case "session.idle":
                said, child.said = child.said, ""
                return f"= {brief(said)}" if said else None
        return None


def totals_line(total: TreeTotal) -> str:
    """What a tree used."""
    tokens = total.tokens
    used = f"{tokens.input:,} in, {tokens.output:,} out, {tokens.cache.read:,} from cache"
    return f"{total.sessions} sessions, ${total.cost:.4f}, tokens: {used}"
