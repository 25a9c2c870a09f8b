"""What System Context refuses.

ContextError
├── InvalidKeyError              a key that does not fit the grammar
├── DuplicateKeyError            two sources of one context share a key
├── DuplicateContributionError   a contribution key that is taken
├── EmptyRenderingError          a renderer said nothing
├── InvalidPluginSourceError     a source that a plugin may not register
├── InitializationBlocked        a first baseline would be incomplete
├── ContextSnapshotDecodeError   the stored snapshot is damaged
└── ContextContention            the epoch kept changing under a turn
"""

from __future__ import annotations

from holdfast.schema.exceptions import HoldfastError, ServiceUnavailable


class ContextError(HoldfastError):
    """System Context was misused, or cannot be established."""


class InvalidKeyError(ContextError):
    """A key that does not fit the grammar."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key!r} is no context key: it must look like `namespace/name`, lower-case ASCII")
        self.key = key


class DuplicateKeyError(ContextError):
    """Two sources of one context share a key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"duplicate context source key: {key}")
        self.key = key


class DuplicateContributionError(ContextError):
    """That contribution key is taken."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Duplicate system context entry key: {key}")
        self.key = key


class EmptyRenderingError(ContextError):
    """A renderer said nothing, which is a defect of its source."""

    def __init__(self, key: str, kind: str) -> None:
        super().__init__(f"{key} rendered an empty {kind}")
        self.key = key
        self.kind = kind


class InvalidPluginSourceError(ContextError):
    """A source that a plugin may not register."""


class InitializationBlocked(ContextError, ServiceUnavailable):
    """A first baseline would be incomplete: required sources are unavailable."""

    code = "SystemContext.InitializationBlocked"

    def __init__(self, keys: tuple[str, ...]) -> None:
        message = f"the system context cannot be established yet, unavailable: {', '.join(keys)}"
        super().__init__(message, service="context")
        self.keys = keys


class ContextSnapshotDecodeError(ContextError):
    """The stored snapshot is damaged."""

    code = "Session.ContextSnapshotDecodeError"

    def __init__(self, session_id: str, details: str) -> None:
        super().__init__(f"the context snapshot of {session_id} cannot be read: {details}")
        self.session_id = session_id
        self.details = details


class ContextContention(ContextError, ServiceUnavailable):
    """The epoch kept changing under a turn."""

    def __init__(self, session_id: str) -> None:
        message = f"the context epoch of {session_id} was changed by someone else while a turn prepared it"
        super().__init__(message, service="context")
        self.session_id = session_id
