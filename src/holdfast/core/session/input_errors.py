"""The errors of inputs: prompts, synthetic inputs and what is attached to them. Nothing happened when one is raised.

MessageNotFound
└── InputNotFound           no such input in that Session
Conflict
├── PromptConflict          the message id is already used for something else
├── PromptWithdrawn         the message id belonged to a prompt that was withdrawn
├── InboxFull               too many inputs are pending
├── InputNotPending         the input was already promoted
└── DeliveryUnchanged       the input already has this delivery
InvalidRequest
├── AttachmentRefused       a file of a prompt is missing, broken, empty or too large
├── FormatRefused           the schema of a prompt's format cannot be used
├── PromptTooLarge          a prompt exceeds a limit
└── PromptOptionRefused     an option of a prompt cannot be honoured
Refused (core/database/errors.py): for internal use, handled where the commit was made
└── MessageIdInUse          the message id is already used
HoldfastError
└── LifecycleConflict       an input cannot be promoted as requested (internal)
"""

from __future__ import annotations

from holdfast.core.database.errors import Refused
from holdfast.schema.exceptions import Conflict, HoldfastError, InvalidRequest, MessageNotFound


class InputNotFound(MessageNotFound):
    """No such input in that Session."""

    code = "Session.InputNotFoundError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(session_id, message_id)
        self.args = (f"No such input in this Session: {message_id}",)


class PromptConflict(Conflict):
    """The message id is already used for something else."""

    code = "Session.PromptConflictError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message id {message_id} already belongs to another prompt or message", resource=message_id)
        self.session_id = session_id
        self.message_id = message_id


class PromptWithdrawn(Conflict):
    """A withdrawn prompt never runs, so its id gives no receipt any more."""

    code = "Session.PromptWithdrawnError"

    def __init__(self, session_id: str, message_id: str) -> None:
        message = f"The prompt {message_id} was withdrawn and will not run. Send it again with another id."
        super().__init__(message, resource=message_id)
        self.session_id = session_id
        self.message_id = message_id


class InboxFull(Conflict):
    """Too many inputs are pending."""

    code = "Session.InboxFullError"

    def __init__(self, session_id: str, limit: int) -> None:
        message = f"The Session already has {limit} pending inputs; wait, or withdraw some"
        super().__init__(message, resource=session_id)
        self.session_id = session_id
        self.limit = limit


class InputNotPending(Conflict):
    """The input was already promoted, so it cannot be withdrawn."""

    code = "Session.InputNotPendingError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Input {message_id} was already promoted", resource=message_id)
        self.session_id = session_id
        self.message_id = message_id


class DeliveryUnchanged(Conflict):
    """A pending input already has the delivery that it is to be changed to."""

    code = "Session.DeliveryUnchangedError"

    def __init__(self, session_id: str, message_id: str, delivery: str) -> None:
        super().__init__(f"Input {message_id} already has the delivery `{delivery}`", resource=message_id)
        self.session_id = session_id
        self.message_id = message_id


class AttachmentRefused(InvalidRequest):
    """A file cannot be attached; the whole prompt was refused."""

    code = "Session.AttachmentRefusedError"

    def __init__(self, session_id: str, index: int, name: str, reason: str) -> None:
        message = f"{name[:200]} cannot be attached: {reason}. The prompt was not admitted."
        super().__init__(message, kind="Payload", field=f"prompt.files[{index}]")
        self.session_id = session_id
        self.index = index


class FormatRefused(InvalidRequest):
    """The schema of a prompt's format cannot be used; the whole prompt was refused."""

    code = "Session.FormatRefusedError"

    def __init__(self, session_id: str, problem: str) -> None:
        message = f"The JSON Schema in `format` cannot be used: {problem}. The prompt was not admitted."
        super().__init__(message, kind="Payload", field="prompt.format.schema")
        self.session_id = session_id


class PromptTooLarge(InvalidRequest):
    """A prompt exceeds a limit."""

    code = "Session.PromptTooLargeError"

    def __init__(self, session_id: str, field: str, part: str, limit: int, *, unit: str = "bytes") -> None:
        message = f"The prompt is too large and was not admitted: {part} may have at most {limit} {unit}"
        super().__init__(message, kind="Payload", field=field)
        self.session_id = session_id
        self.limit = limit


class PromptOptionRefused(InvalidRequest):
    """An option of a prompt cannot be honoured; the prompt was not admitted."""

    code = "Session.PromptOptionRefusedError"

    def __init__(self, session_id: str, option: str, reason: str) -> None:
        super().__init__(f"{reason}. The prompt was not admitted.", kind="Payload", field=f"prompt.{option}")
        self.session_id = session_id
        self.option = option


class MessageIdInUse(Refused):
    """The message id is already used."""


class LifecycleConflict(HoldfastError):
    """The record of an input differs from its promotion."""

    code = "SessionInput.LifecycleConflict"

    def __init__(self, id: str) -> None:
        super().__init__(f"Input {id} cannot be promoted: its record differs")
        self.id = id
