"""Whether a request begins with the bytes of the one before, and if not, why. The dispatch records the cause."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.schema.codec import encode
from holdfast.schema.turn_event import ConversationPrint, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.runner.history import Frame
    from holdfast.core.runner.request_size import RequestSize
    from holdfast.llm.body import Draft
    from holdfast.llm.request import Message
    from holdfast.schema.turn_event import LearnedLimit, PrefixBreak


class Prefix:
    """Of one Session. Starts from what the last dispatch recorded, whichever process made it."""

    def __init__(self, last: TurnDispatched | None, *, reverted: bool) -> None:
        self._last = last
        self._reverted = reverted
        self._frame: Frame | None = None
        self._sent: tuple[Draft, int] | None = None
        """The conversation of the last request that was sent, and how much of it a later one begins with."""
        self._tools: tuple[object, str] = ((), _mark(()))

    def dispatch(
        self,
        frame: Frame,
        session_id: str,
        timestamp: int,
        attempt: int,
        learned: LearnedLimit | None = None,
        conversation: Sequence[Message] | None = None,
        size: RequestSize | None = None,
    ) -> TurnDispatched:
        """The record of a request about to be sent; the next one is compared with it. `conversation` is what plugins
        made of the stored one, if they changed it. `size` is None if nothing is sent."""
        same = frame is self._frame and conversation is None
        if same and self._last is not None and not self._last.last_step and self._last.conversation is None:
            last = replace(self._last, timestamp=timestamp, attempt=attempt, learned=learned)
            self._last = self._sized(last, size, broken=False)
            return self._last
        event = TurnDispatched(
            timestamp=timestamp,
            session_id=session_id,
            agent=frame.agent,
            model=frame.ref,
            attempt=attempt,
            baseline_seq=frame.baseline_seq,
            checkpoint_seq=frame.checkpoint_seq,
            pruned_seq=frame.pruned_seq,
            tools=self._mark_tools(frame.tools),
            system=_mark([_mark_text(part.text) for part in frame.system]),
            controls=_mark((frame.generation, frame.options, frame.http.body, frame.tool_choice)),
            last_step=frame.last_step,
            media_refused=None if frame.media else True,
            learned=learned,
            format=None if frame.output is None else _mark(frame.output),
            hooks=frame.hooks or None,
            conversation=None if conversation is None else _print(conversation),
            broke=None,
        )
        causes = self._causes(event, conversation)
        by = event.hooks or (self._last and self._last.hooks) if "hook" in causes else None
        event = self._sized(event, size, broken=bool(causes))
        self._last, self._reverted, self._frame = event, False, frame
        return replace(event, broke=causes, broke_by=by) if causes else event

    def _sized(self, event: TurnDispatched, size: RequestSize | None, *, broken: bool) -> TurnDispatched:
        """With the size of the request, and how much of it is known to be the beginning of the last one too."""
        kept = self._last.kept if self._last is not None else None
        if size is None:
            return replace(event, bytes=None, kept=None if broken else kept)
        if not broken:
            same = min(kept or 0, size.kept)
        elif self._sent is not None:
            same = size.same_as(*self._sent)
        else:  # another process, or an earlier drain, had the bytes
            same = (
                min(kept or 0, size.draft.before) if self._last is not None and _framed_alike(self._last, event) else 0
            )
        self._sent = (size.draft, size.kept)
        return replace(event, bytes=size.recorded(same), kept=size.kept)

    def _causes(self, now: TurnDispatched, conversation: Sequence[Message] | None) -> tuple[PrefixBreak, ...]:
        last = self._last
        if last is None:
            return ()
        # Agents may share their text, tools and controls; then nothing breaks.
        sent = (now.system, now.tools, now.controls) != (last.system, last.tools, last.controls)
        checks: list[tuple[bool, PrefixBreak]] = [
            (self._reverted, "revert"),
            (now.checkpoint_seq != last.checkpoint_seq, "compaction"),
            (now.baseline_seq != last.baseline_seq, "new epoch"),
            (now.agent != last.agent and sent, "agent switch"),
            (now.model != last.model, "model switch"),
            (now.tools != last.tools, "tool change"),
            (now.last_step or last.last_step, "last step"),
            (now.pruned_seq != last.pruned_seq, "pruning"),
            (now.media_refused != last.media_refused, "media refused"),
            (now.format != last.format, "output format"),
            (_rewritten(last.conversation, conversation), "hook"),
        ]
        causes = tuple(cause for broken, cause in checks if broken)
        if causes or (now.controls == last.controls and now.system == last.system):
            return causes
        return ("hook",) if now.hooks or last.hooks else ("configuration",)

    def _mark_tools(self, tools: object) -> str:
        """The definitions are the same objects from turn to turn, and large."""
        if self._tools[0] is not tools:
            self._tools = (tools, _mark(tools))
        return self._tools[1]


def _framed_alike(one: TurnDispatched, other: TurnDispatched) -> bool:
    """Whether two requests differ in their conversation only."""
    frames = [(item.model, item.system, item.tools, item.controls, item.format) for item in (one, other)]
    return frames[0] == frames[1]


def _rewritten(last: ConversationPrint | None, now: Sequence[Message] | None) -> bool:
    """Whether what plugins made of the conversation does not begin with what they made of it for the last request.
    Where only one of the two requests has a changed conversation, that is not known, and assumed."""
    if last is None or now is None:
        return (last is None) != (now is None)
    return len(now) < last.messages or _print(now[: last.messages]) != last


def _print(conversation: Sequence[Message]) -> ConversationPrint:
    return ConversationPrint(messages=len(conversation), digest=_mark(conversation))


@functools.lru_cache(maxsize=256)
def _mark_text(text: str) -> str:
    """Baselines are long, and the same object from turn to turn."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _mark(value: object) -> str:
    return hashlib.sha256(encode(value)).hexdigest()[:16]
