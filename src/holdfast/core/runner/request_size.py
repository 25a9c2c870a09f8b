"""How large a request is, from what was encoded for it anyway: in all, in parts, and how much of it was sent before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.ledger import RequestBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.request import SystemPart, ToolDefinition

BLOCK = 64 * 1024


class FrameSize(Frozen):
    """Of a request without its conversation, as neutral JSON."""

    characters: int = 0
    system: int = 0
    """This and the others are bytes."""
    tools: int = 0
    baseline: int = 0


def frame_size(system: Sequence[SystemPart], tools: Sequence[ToolDefinition], baseline: str) -> FrameSize:
    texts, definitions = encode(system), encode(tools)
    characters = len(texts.decode()) + len(definitions.decode()) + len("[,]")  # a pair of both
    return FrameSize(characters, len(texts), len(definitions), len(encode(baseline)) if baseline else 0)


class RequestSize(Frozen):
    """Of a request that is ready to be sent."""

    body: Draft
    draft: Draft
    """The body without what is said in this one request alone. Later requests of the conversation extend it."""
    frame: FrameSize

    @property
    def kept(self) -> int:
        return self.draft.kept

    def same_as(self, earlier: Draft, kept: int) -> int:
        """How many bytes the body begins with that an earlier one, `kept` bytes of which count, begins with too. The
        time is that of comparing them, so this is for requests that do not extend the earlier one."""
        if earlier is self.draft:
            return min(kept, self.kept)
        one, other = b"".join(earlier.chunks())[:kept], b"".join(self.draft.chunks())[: self.kept]
        return common_start(one, other)

    def recorded(self, same: int) -> RequestBytes:
        total, frame = self.body.length, self.frame
        system = min(frame.system, total)
        return RequestBytes(
            total=total,
            same=same,
            system=system,
            tools=min(frame.tools, total - system),
            baseline=min(frame.baseline, system),
        )


def common_start(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix."""
    shorter = min(len(one), len(other))
    start = next((at for at in range(0, shorter, BLOCK) if one[at : at + BLOCK] != other[at : at + BLOCK]), shorter)
    low, high = start, min(start + BLOCK, shorter)
    while low < high:
        middle = (low + high + 1) // 2
        if one[start:middle] == other[start:middle]:
            low = middle
        else:
            high = middle - 1
    return low
