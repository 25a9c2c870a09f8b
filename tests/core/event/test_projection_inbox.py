"""What admission and promotion do to the inbox and to the transcript."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.event.samples import SES, Story, raw

from holdfast.core.session.input_errors import LifecycleConflict, MessageIdInUse
from holdfast.schema.prompt import AgentAttachment, FileAttachment, Prompt, Source
from holdfast.schema.session_event import (
    InputWithdrawn,
    PromptAdmitted,
    Prompted,
    RevertCommitted,
    ShellStarted,
    Synthetic,
)
from holdfast.schema.session_message import SyntheticMessage, Time, UserMessage

pytestmark = pytest.mark.anyio

SPAN = Source(start=0, end=3, text="@ab")
PROMPT = Prompt(
    text='look at "this" ü\n',
    files=(FileAttachment(uri="file:///a", mime="text/plain", name="a", description="d", source=SPAN),),
    agents=(AgentAttachment(name="plan", source=SPAN),),
)


async def test_an_admission_is_an_inbox_row_and_no_message(story: Story) -> None:
    """EVT-046, EVT-053: the row has the prompt, the delivery and the sequence of the event."""
    committed = await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=PROMPT, delivery="queue")
    receipt = await story.store.admission("msg_1")
    assert receipt is not None
    assert (receipt.admitted_seq, receipt.promoted_seq) == (committed.last, None)
    assert (receipt.prompt, receipt.delivery, receipt.session_id, receipt.time_created) == (PROMPT, "queue", SES, 7)
    assert await story.message_ids() == []


async def test_a_promotion_marks_the_row_and_appends_the_user_message(story: Story) -> None:
    """EVT-046, EVT-057: both carry the promotion's sequence, which is after the admission's; one commit."""
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=PROMPT, delivery="steer")
    committed = await story.tell(Prompted, at=7, message_id="msg_1", prompt=PROMPT, delivery="steer")
    receipt = await story.store.admission("msg_1")
    assert receipt is not None
    assert (receipt.admitted_seq, receipt.promoted_seq) == (1, committed.last) == (1, 2)
    assert await story.message("msg_1") == UserMessage(
        id="msg_1", time=Time(created=7), text=PROMPT.text, files=PROMPT.files, agents=PROMPT.agents
    )
    assert raw(story.database.path, "select seq, type from session_message") == [(2, "user")]


SYNTHETIC = Prompt(text="green", metadata={"run": 7}, description="build")


async def test_a_promoted_synthetic_input_marks_its_row(story: Story) -> None:
    """SES-290: message, row and activity in one commit, with the time of admission."""
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=SYNTHETIC, delivery="steer", type="synthetic")
    committed = await story.tell(
        Synthetic, at=7, message_id="msg_1", text="green", description="build", metadata={"run": 7}, delivery="steer"
    )
    receipt = await story.store.admission("msg_1")
    assert receipt is not None
    assert (receipt.type, receipt.promoted_seq) == ("synthetic", committed.last)
    assert await story.message("msg_1") == SyntheticMessage(
        id="msg_1", time=Time(created=7), session_id=SES, text="green", description="build", metadata={"run": 7}
    )
    assert await story.store.activity(SES) is not None


@pytest.mark.parametrize(
    "difference", [{"text": "red"}, {"description": None}, {"delivery": "queue"}, {"at": 99}], ids=str
)
async def test_a_synthetic_promotion_that_differs_from_its_admission_is_refused(
    story: Story, difference: dict[str, Any]
) -> None:
    """SES-290: the input stays pending."""
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=SYNTHETIC, delivery="steer", type="synthetic")
    same: dict[str, Any] = {"text": "green", "description": "build", "metadata": {"run": 7}, "delivery": "steer"}
    with pytest.raises(LifecycleConflict):
        await story.tell(Synthetic, **{"at": 7, "message_id": "msg_1", **same, **difference})
    assert await story.store.waiting(SES) == {"steer"}


async def test_a_withdrawn_synthetic_input_is_not_promoted(story: Story) -> None:
    """SES-290, SES-045."""
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=SYNTHETIC, delivery="steer", type="synthetic")
    await story.tell(InputWithdrawn, at=8, message_id="msg_1")
    with pytest.raises(LifecycleConflict):
        await story.tell(
            Synthetic,
            at=7,
            message_id="msg_1",
            text="green",
            description="build",
            metadata={"run": 7},
            delivery="steer",
        )


async def test_a_prompt_is_not_promoted_as_a_synthetic_input(story: Story) -> None:
    """SES-290: the kind is part of the record."""
    prompt = Prompt(text="green")
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=prompt, delivery="steer")
    with pytest.raises(LifecycleConflict):
        await story.tell(Synthetic, at=7, message_id="msg_1", text="green", delivery="steer")


async def test_text_that_the_runtime_adds_belongs_to_no_input(story: Story) -> None:
    """SES-293: no row, no activity."""
    await story.tell(Synthetic, at=7, message_id="msg_1", text="by itself")
    assert await story.store.admission("msg_1") is None
    assert await story.store.activity(SES) is None
    assert await story.message_ids() == ["msg_1"]


async def test_a_shell_message_takes_no_id_of_an_input(story: Story) -> None:
    """SES-287."""
    await story.tell(PromptAdmitted, at=7, message_id="msg_1", prompt=PROMPT, delivery="steer")
    with pytest.raises(MessageIdInUse):
        await story.tell(ShellStarted, at=8, message_id="msg_1", call_id="c", command="ls")


async def test_message_order_is_promotion_order(story: Story) -> None:
    """EVT-057: not the order of ids, times or admissions."""
    for number in (1, 2, 3):
        await _admit(story, number)
    for number in (2, 3, 1):
        await story.tell(Prompted, at=number, message_id=f"msg_{number}", prompt=PROMPT, delivery="steer")
    assert await story.message_ids() == ["msg_2", "msg_3", "msg_1"]


DIFFERENCES: list[dict[str, Any]] = [
    {"prompt": Prompt(text="other")},
    {"delivery": "queue"},
    {"at": 99},
]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=["prompt", "delivery", "time"])
async def test_a_promotion_that_differs_from_its_admission_is_refused(story: Story, difference: dict[str, Any]) -> None:
    """EVT-010, EVT-046: the input stays pending and no message appears."""
    await _admit(story, 1)
    fields: dict[str, Any] = {"at": 1, "message_id": "msg_1", "prompt": PROMPT, "delivery": "steer"} | difference
    with pytest.raises(LifecycleConflict):
        await story.tell(Prompted, **fields)
    assert await story.message_ids() == []
    assert await story.store.waiting(SES) == {"steer"}


async def test_an_input_is_promoted_once(story: Story) -> None:
    """EVT-010, EVT-046: a second promotion is refused and changes nothing."""
    await _admit(story, 1)
    await story.tell(Prompted, at=1, message_id="msg_1", prompt=PROMPT, delivery="steer")
    with pytest.raises(LifecycleConflict):
        await story.tell(Prompted, at=1, message_id="msg_1", prompt=PROMPT, delivery="steer")
    receipt = await story.store.admission("msg_1")
    assert receipt is not None
    assert receipt.promoted_seq == 2
    assert await story.log.latest(SES) == 2


async def test_an_input_of_another_session_is_not_promoted_here(story: Story) -> None:
    """EVT-046, EVT-053: the row belongs to its Session; ids are unique across all of them."""
    other = Story(story.database, story.log, "ses_two")
    await other.begin()
    await _admit(other, 1)
    with pytest.raises(LifecycleConflict):
        await story.tell(Prompted, at=1, message_id="msg_1", prompt=PROMPT, delivery="steer")
    with pytest.raises(MessageIdInUse):
        await _admit(story, 1)
    assert await story.log.latest(SES) == 0
    assert await story.store.waiting(SES) == frozenset()


async def test_a_promotion_without_an_admission_makes_both(story: Story) -> None:
    """EVT-046, SES-050: an older log has no admissions; its rows are born promoted."""
    await story.tell(Prompted, at=5, message_id="msg_1", prompt=PROMPT, delivery="steer")
    receipt = await story.store.admission("msg_1")
    assert receipt is not None
    assert (receipt.admitted_seq, receipt.promoted_seq) == (1, 1)
    assert await story.message_ids() == ["msg_1"]


async def test_an_id_of_a_visible_message_cannot_be_admitted(story: Story) -> None:
    """EVT-010, EVT-046: no inbox row appears."""
    await story.note(1)
    with pytest.raises(MessageIdInUse):
        await story.tell(PromptAdmitted, message_id="msg_ses_one_1", prompt=PROMPT, delivery="steer")
    assert await story.store.admission("msg_ses_one_1") is None


async def test_a_committed_revert_forgets_later_inputs(story: Story) -> None:
    """EVT-046, SES-171: rows admitted or promoted after the boundary go, earlier ones stay."""
    for number in (1, 2):
        await _admit(story, number)
    await story.tell(Prompted, at=1, message_id="msg_1", prompt=PROMPT, delivery="steer")
    await _admit(story, 3)
    await story.tell(Prompted, at=2, message_id="msg_2", prompt=PROMPT, delivery="steer")
    await story.tell(RevertCommitted, message_id="msg_1")
    assert raw(story.database.path, "select id from session_input order by id") == [("msg_1",)]
    assert await story.message_ids() == ["msg_1"]


async def _admit(story: Story, number: int) -> None:
    await story.tell(PromptAdmitted, at=number, message_id=f"msg_{number}", prompt=PROMPT, delivery="steer")
