"""What a Session operation can answer instead of a result.

SessionError
├── SessionNotFound         no such Session
├── MessageNotFound         no such message in that Session, whoever else may own it
├── PromptConflict          that message id already stands for something else
├── InvalidCursor           a page cursor that was not made for this request
├── LifecycleConflict       an input cannot be promoted as asked (internal)
├── ModelNotSelected        no model was chosen and none is available
├── ModelUnavailable        the chosen model is not available here
└── Interrupted             the execution that was waited for was interrupted
"""

from __future__ import annotations


class SessionError(Exception):
    """A Session operation was refused."""

    tag = "Session.Error"


class SessionNotFound(SessionError):
    """No such Session."""

    tag = "Session.NotFoundError"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session not found: {session_id}")
        self.session_id = session_id


class MessageNotFound(SessionError):
    """No such message in that Session."""

    tag = "Session.MessageNotFoundError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message not found: {message_id}")
        self.session_id = session_id
        self.message_id = message_id


class PromptConflict(SessionError):
    """That message id was already used for something else."""

    tag = "Session.PromptConflictError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message id {message_id} already belongs to another prompt or message")
        self.session_id = session_id
        self.message_id = message_id


class InvalidCursor(SessionError):
    """A page cursor that does not fit this request."""

    tag = "InvalidCursorError"

    def __init__(self, message: str = "Invalid cursor") -> None:
        super().__init__(message)


class LifecycleConflict(SessionError):
    """An input whose record says something else than its promotion."""

    tag = "SessionInput.LifecycleConflict"

    def __init__(self, id: str) -> None:
        super().__init__(f"Input {id} cannot be promoted: its record differs")
        self.id = id


class ModelNotSelected(SessionError):
    """There is no model to use."""

    tag = "SessionRunnerModel.ModelNotSelectedError"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "No model is available: set a provider key, or `model` and `provider` in opencode.json, "
            "or choose demo/echo, which needs neither"
        )
        self.session_id = session_id


class ModelUnavailable(SessionError):
    """The chosen model cannot be used here."""

    tag = "SessionRunnerModel.ModelUnavailableError"

    def __init__(self, provider_id: str, model_id: str, reason: str = "") -> None:
        super().__init__(f"Model {provider_id}/{model_id} is not available{': ' if reason else ''}{reason}")
        self.provider_id = provider_id
        self.model_id = model_id


class Interrupted(SessionError):
    """The execution was interrupted."""

    tag = "Session.Interrupted"

    def __init__(self) -> None:
        super().__init__("The execution was interrupted")
