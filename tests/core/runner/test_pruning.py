"""Old tool results that give way before anything is summarised."""

from __future__ import annotations

import pytest
from tests.conftest import MODEL
from tests.core.runner.test_lowering import HERE, assistant, completed, tool

from holdfast.core.runner.lowering import PRUNE_OVER, lower, prunable, pruned
from holdfast.core.runner.pruning import KEEP_TOKENS, WORTH_TOKENS, prune_point
from holdfast.core.session.store import SessionStore
from holdfast.core.session.stored_messages import StoredMessage
from holdfast.llm import request as llm
from holdfast.schema.codec import encode
from holdfast.schema.session_message import TextContent, ToolProvider

pytestmark = pytest.mark.anyio

LONG = "x" * (PRUNE_OVER + 1)


def test_only_long_results_of_our_own_tools_give_way() -> None:
    """SES-165: a short placeholder at lowering time. The call stays; what a provider executed goes back as it came."""
    ours = assistant(tool(completed((TextContent(text=LONG),))))
    short = assistant(tool(completed((TextContent(text="y"),))))
    hosted = assistant(tool(completed((TextContent(text=LONG),)), ToolProvider(executed=True)))

    call, answer = lower([pruned(ours)], HERE)
    (part,) = answer.content
    assert isinstance(part, llm.ToolResultPart)
    assert LONG not in str(part.result.value)
    assert str(len(LONG)) in str(part.result.value)
    assert call == lower([ours], HERE)[0]
    assert pruned(short) == short
    assert pruned(hosted) == hosted
    assert (prunable(short), prunable(hosted)) == (0, 0)
    assert prunable(ours) == 1


class Rows(SessionStore):
    def __init__(self, sizes: list[int]) -> None:
        self._rows = [
            StoredMessage(seq, f"msg_{seq}", _wire(size), "ses_1", "ses_1") for seq, size in enumerate(sizes, start=1)
        ]

    async def active_history(self, session_id: str, checkpoint_seq: int = -1) -> list[StoredMessage]:
        return self._rows


def _wire(size: int) -> bytes:
    return encode(assistant(tool(completed((TextContent(text="x" * size),))), model=MODEL))


async def test_the_newest_results_stay_and_little_is_not_worth_it() -> None:
    """SES-165: deterministic: all but a recent window, from one point on, and only if it saves enough."""
    window, much = 4 * KEEP_TOKENS, 4 * WORTH_TOKENS + 2 * PRUNE_OVER
    assert await prune_point(Rows([much, window + PRUNE_OVER, 10]), "ses_1", -1) is None
    assert await prune_point(Rows([much, window + 2 * PRUNE_OVER, 10]), "ses_1", -1) == 1
    assert await prune_point(Rows([much, much, window + 2 * PRUNE_OVER]), "ses_1", -1) == 2
    assert await prune_point(Rows([much, much, window + 2 * PRUNE_OVER]), "ses_1", 2) is None
    assert await prune_point(Rows([PRUNE_OVER, window + 2 * PRUNE_OVER]), "ses_1", -1) is None
