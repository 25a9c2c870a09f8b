"""The projections of a Session: one pure function per event type, from payload to named statements.

Rows are added, or one small row is patched; the cost of an event does not depend on the length of turn or Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.activity_projector import ACTIVITY_PROJECTORS
from holdfast.core.session.answer_projector import ANSWER_PROJECTORS
from holdfast.core.session.budget_projector import BUDGET_PROJECTORS
from holdfast.core.session.inbox_projector import INBOX_PROJECTORS
from holdfast.core.session.message_projector import MESSAGE_PROJECTORS
from holdfast.core.session.session_projector import RECORD_PROJECTORS
from holdfast.core.session.task_projector import TASK_PROJECTORS

if TYPE_CHECKING:
    from holdfast.core.event.projection import Projectors

SESSION_PROJECTORS: Projectors = {
    **RECORD_PROJECTORS,
    **INBOX_PROJECTORS,
    **MESSAGE_PROJECTORS,
    **ANSWER_PROJECTORS,
    **ACTIVITY_PROJECTORS,
    **TASK_PROJECTORS,
    **BUDGET_PROJECTORS,
}
