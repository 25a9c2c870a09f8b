"""The read side of Sessions, one per process: sessions, messages, inputs, activity, tasks and budgets in one object."""

from __future__ import annotations

from holdfast.core.session.stored_activity import StoredActivity
from holdfast.core.session.stored_budgets import StoredBudgets
from holdfast.core.session.stored_inputs import StoredInputs
from holdfast.core.session.stored_start import StoredStarts


class SessionStore(StoredBudgets, StoredActivity, StoredInputs, StoredStarts):
    """Each base class reads one kind of row; all share the database."""
