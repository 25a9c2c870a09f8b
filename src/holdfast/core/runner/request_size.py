"""How large a request is, from what was encoded for it anyway: in all, in parts, and how much of it was sent before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.ledger import RequestBytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.request import SystemPart, ToolDefinition

BLOCK = 64 * 1024


class FrameSize(Frozen):
    """Of a request without its conversation, as neutral JSON. Protocols wrap texts hardly at all, and tools each in its
    own way."""

    characters: int = 0
    system: int = 0
    """This and the next are bytes."""
    baseline: int = 0
    tools: bool = False
    """Whether there are any."""


def frame_size(system: Sequence[SystemPart], tools: Sequence[ToolDefinition], baseline: str) -> FrameSize:
    texts, definitions = encode(system), encode(tools)
    characters = len(texts.decode()) + len(definitions.decode()) + len("[,]")  # a pair of both
    return FrameSize(characters, len(texts), len(encode(baseline)) if baseline else 0, bool(tools))


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
        return min(kept, self.kept, common_start(earlier.chunks(), self.draft.chunks()))

    def recorded(self, same: int) -> RequestBytes:
        """What is around the conversation and no system text is tools, if there are any: controls are short."""
        around, frame = self.body.frame_length, self.frame
        system = min(frame.system, around)
        return RequestBytes(
            total=self.body.length,
            same=same,
            system=system,
            tools=around - system if frame.tools else 0,
            baseline=min(frame.baseline, system),
        )


def common_start(one: Iterable[bytes], other: Iterable[bytes]) -> int:
    """The length of the longest common prefix of two texts in pieces. Nothing behind it is looked at."""
    length = 0
    for left, right in _in_step(one, other):
        if left != right:
            return length + _differ_at(left, right)
        length += len(left)
    return length


def _in_step(one: Iterable[bytes], other: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Both texts in blocks that stand at the same place, as far as the shorter one reaches."""
    ones, others = (piece for piece in one if piece), (piece for piece in other if piece)
    left, right = next(ones, b""), next(others, b"")
    while left and right:
        size = min(len(left), len(right))
        for at in range(0, size, BLOCK):
            end = min(at + BLOCK, size)
            yield left[at:end], right[at:end]
        left, right = left[size:] or next(ones, b""), right[size:] or next(others, b"")


def _differ_at(left: bytes, right: bytes) -> int:
    """The place of the first difference of two blocks of one size that are not equal."""
    low, high = 0, len(left) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
