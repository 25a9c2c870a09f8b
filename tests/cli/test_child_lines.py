"""The short lines that `holdfast run` prints about subagents."""

from __future__ import annotations

from typing import Any

from holdfast.cli.child_lines import ChildLines


def test_lines_about_subagents_are_short_and_indented() -> None:
    """API-572: calls, failures and the last text, deeper ones further in."""
    lines = ChildLines()

    def told(session_id: str, kind: str, **data: Any) -> list[str]:
        return list(lines.lines(session_id, kind, data))

    info = {"id": "ses_a", "parentID": "ses_root", "agent": "explore", "title": "look"}
    assert told("ses_a", "session.created", info=info) == ["  ┊ explore : look (ses_a)"]
    info = {"id": "ses_b", "parentID": "ses_a", "agent": "general", "title": "more\x1b[2J"}
    assert told("ses_b", "session.created", info=info) == ["  ┊   ┊ general : more\\u001b[2J (ses_b)"]
    call = {"tool": "read", "input": {"path": "hello.txt", "lines": [1]}}
    assert told("ses_b", "session.next.tool.called", **call) == ["  ┊   ┊ general > read hello.txt"]
    assert told("ses_b", "session.next.tool.failed", error={"message": "no"}) == ["  ┊   ┊ general ! no"]
    assert told("ses_b", "session.next.text.delta", delta="x") == []
    assert told("ses_b", "session.next.text.ended", text="x" * 300) == []
    assert told("ses_b", "session.idle") == [f"  ┊   ┊ general = {'x' * 99}…"]
    assert told("ses_b", "session.idle") == []
    assert told("ses_c", "session.next.step.started", agent="explore") == []
    assert told("ses_c", "session.next.step.failed", error={"message": "gone"}) == ["  ┊ explore ! gone"]
