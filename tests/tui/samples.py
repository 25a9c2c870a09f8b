"""Entries for tests, as a server would send them."""

from __future__ import annotations

from typing import Any

from holdfast.client.call import Page
from holdfast.schema.model import ModelRef
from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    Entry,
    MarkEntry,
    RenderedCall,
    RenderedFile,
    RenderedPart,
    RenderedReasoning,
    RenderedText,
    ShellEntry,
    UserEntry,
)
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_message import Time, ToolTime
from holdfast.schema.view import Block, BlockKind, Entries

NOW = 1_800_000_000_000
"""In milliseconds since the epoch."""
ANSWER = """The bug is in `parse_args`: it drops the **last** argument when the line ends with a space.

## What I changed
1. `split_line` keeps empty fields only inside quotes.
2. A regression test with *three* kinds of white space:
   - a tab
   - a non-breaking space
3. The docstring says so now.

```python
def split_line(line: str) -> list[str]:
    \"\"\"Fields of a line, without empty ones at its end.\"\"\"
    return [field for field in line.split(" ") if field]  # quotes come first
```

> Note: this changes what `--strict` reports.

| case | before | after |
|------|:------:|------:|
| `a b ` | 1 field | 2 fields |
| `"a "` | 1 field | 1 field |

See [the issue](https://example.com/issues/12) for more.
"""
PATCH = """--- a/src/parser.py
+++ b/src/parser.py
@@ -10,7 +10,8 @@ def parse_args(line: str) -> list[str]:
     if not line:
         return []
-    fields = line.split(" ")[:-1]
+    fields = [field for field in line.split(" ") if field]
+    log.debug("%d fields", len(fields))
     return fields
 
 
"""


def time(begun: int = 0, took: int | None = 1_000) -> Time:
    return Time(created=NOW + begun, completed=None if took is None else NOW + begun + took)


def user(seq: int, text: str, **fields: Any) -> UserEntry:
    return UserEntry(id=f"msg_u{seq}", seq=seq, time=time(), text=text, **fields)


def answer(seq: int, *parts: RenderedPart, **fields: Any) -> AssistantEntry:
    fields = {"finish": "stop", "time": time(took=None if fields.get("open") else 12_300), **fields}
    return AssistantEntry(id=f"msg_a{seq}", seq=seq, parts=parts, **fields)


def text(content: str, id: str = "t1", *, open: bool = False) -> RenderedText:
    return RenderedText(id=id, text=content, open=open)


def reasoning(content: str, id: str = "r1", *, open: bool = False) -> RenderedReasoning:
    return RenderedReasoning(id=id, text=content, open=open, time=time(took=None if open else 3_200))


def call(name: str, title: str = "", id: str = "c1", **fields: Any) -> RenderedCall:
    took = fields.pop("took", 12)
    status = fields.pop("status", "completed")
    ended = NOW + took if status in ("completed", "error") else None
    when = ToolTime(created=NOW, ran=NOW, completed=ended)
    return RenderedCall(id=id, name=name, title=title, status=status, time=when, **{"body": True, **fields})


def block(message_id: str, part_id: str, *, kind: BlockKind = "text", **fields: Any) -> Block:
    return Block(message_id=message_id, part_id=part_id, kind=kind, index=0, **fields)


def page(*entries: Entry, next: str | None = None) -> Page[Entry]:
    """The newest first, as they are asked for."""
    return Page(items=list(reversed(entries)), next=next)


def entries(seq: int, *given: Entry) -> Entries:
    return Entries(seq=seq, entries=given)


def story() -> list[Entry]:
    """A bit of everything."""
    model = ModelRef(id="claude-fable-4", provider_id="anthropic")
    tokens = Tokens(input=12_000, output=1_830, reasoning=0, cache=CacheTokens(read=11_000, write=500))
    step: dict[str, Any] = {"model": model, "agent": "build", "finish": "tool-calls"}
    file = RenderedFile(name="trace.log", mime="text/plain")
    return [
        user(1, "The last argument is lost when a line ends with a space.\nFind out why and fix it.", files=(file,)),
        answer(
            2,
            reasoning("The parser splits at spaces.\n\nI should look at *its tests* first."),
            text("I'll look at the parser and its tests first."),
            call("read", "src/parser.py", "c1", outcome="120 lines"),
            call("grep", "def parse_", "c2", outcome="4 matches"),
            **step,
        ),
        answer(
            3,
            call(
                "bash",
                "python -m pytest tests/test_parser.py -x",
                "c3",
                outcome="exit 1",
                took=2_340,
                peek="E   AssertionError: assert ['a'] == ['a', 'b']\n1 failed, 41 passed in 2.1s",
            ),
            **step,
        ),
        MarkEntry(id="m4", seq=4, time=time(), kind="model", title="anthropic/claude-fable-4"),
        MarkEntry(
            id="m5", seq=5, time=time(), kind="context", title="The model was told what changed around it", text="x"
        ),
        answer(
            6,
            call("edit", "src/parser.py", "c4", additions=2, deletions=1),
            call("task", "Look for other callers of split_line", "c5", child_id="ses_child", took=48_000),
            **step,
        ),
        ShellEntry(id="s7", seq=7, time=time(), command="git status -s", text=" M src/parser.py\n", exit=0),
        user(8, "Add a test too, please", delivery="steer"),
        answer(9, text(ANSWER), model=model, tokens=tokens, cost=0.0231, finish="stop"),
        CompactionEntry(id="k10", seq=10, time=time(), reason="auto", text="Earlier: the parser was fixed."),
        MarkEntry(id="m11", seq=11, time=time(), kind="interrupted", title="Interrupted by a person"),
        user(12, "/review main", command="/review main"),
        answer(
            13,
            reasoning("Let me see what changed on this branch", "r9", open=True),
            call("bash", "npm run build", "c6", status="running"),
            call("edit", "src/quoting.py", "c7", status="waiting", request_id="per_1"),
            open=True,
            finish=None,
        ),
    ]
