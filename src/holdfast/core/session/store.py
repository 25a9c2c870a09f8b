"""The read side of Sessions, one per process: sessions, messages, inputs and activity in one object."""

from __future__ import annotations

from holdfast.core.session.stored_activity import Blocked as Blocked
from holdfast.core.session.stored_activity import Dispatch as Dispatch
from holdfast.core.session.stored_activity import ResumableCall as ResumableCall
from holdfast.core.session.stored_activity import StoredActivity
from holdfast.core.session.stored_inputs import StoredInputs
from holdfast.core.session.stored_messages import OpenCall as OpenCall
from holdfast.core.session.stored_messages import StoredMessage as StoredMessage
from holdfast.core.session.stored_sessions import Direction as Direction
from holdfast.core.session.stored_sessions import Order as Order
from holdfast.core.session.stored_sessions import SessionAnchor as SessionAnchor
from holdfast.core.session.stored_sessions import SessionAtBoundary as SessionAtBoundary
from holdfast.core.session.stored_sessions import SessionFilter as SessionFilter
from holdfast.core.session.stored_sessions import StoredSessions


class SessionStore(StoredSessions, StoredActivity, StoredInputs):
    """Each base class reads one kind of row; all share the database."""
