"""Expected failures of file operations.

FileError
├── PathError          the path is malformed, or leads where this Location has no access
├── TargetMissing      the file does not exist
├── TargetExists       a file to be created already exists
├── StaleContent       the file does not have the expected content
├── WrongKind          the path is a directory, pipe, socket or device
├── ReadOnlyFile       the file's mode forbids writing
├── FileTooLarge       the file is larger than the caller's limit
├── NotText            the content is in no encoding that can be written back exactly
└── Unencodable        new text has a character that the file's encoding lacks
"""

from __future__ import annotations

from typing import Literal

from holdfast.schema.exceptions import HoldfastError

PathReason = Literal[
    "malformed",
    "special_path",
    "relative_escape",
    "location_escape",
    "external_denied",
    "non_directory_ancestor",
    "link_loop",
    "inaccessible",
    "read_only_reference",
    "own_folder",
]

PATH_REASONS: dict[PathReason, str] = {
    "malformed": "the path is empty, too long or malformed",
    "special_path": "paths of the system's own file systems and devices are never used",
    "relative_escape": "the path leads outside the working directory",
    "location_escape": "the path leads outside the working directory through a link",
    "external_denied": "the path is outside the working directory",
    "non_directory_ancestor": "a part of the path is not a directory",
    "link_loop": "its links lead in a circle",
    "inaccessible": "a part of the path cannot be entered",
    "read_only_reference": "a reference is read-only",
    "own_folder": "it belongs to Holdfast itself, whose files no tool may use; look at it outside of Holdfast",
}


class FileError(HoldfastError):
    """The message is a clause that a tool appends to its own message."""


class PathError(FileError):
    def __init__(self, path: str, reason: PathReason) -> None:
        super().__init__(PATH_REASONS[reason])
        self.path = path
        self.reason = reason


class TargetMissing(FileError):
    def __init__(self, path: str) -> None:
        super().__init__("it does not exist")
        self.path = path


class TargetExists(FileError):
    def __init__(self, path: str) -> None:
        super().__init__("it already exists")
        self.path = path


class StaleContent(FileError):
    def __init__(self, path: str) -> None:
        super().__init__("it changed in the meantime")
        self.path = path


class WrongKind(FileError):
    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"it is a {kind}, not a file")
        self.path = path
        self.kind = kind


class ReadOnlyFile(FileError):
    def __init__(self, path: str) -> None:
        super().__init__("it is read-only")
        self.path = path


class FileTooLarge(FileError):
    def __init__(self, path: str, limit: int) -> None:
        super().__init__(f"it is larger than {limit} bytes")
        self.path = path


class NotText(FileError):
    """The caller chooses the message; a full sentence if it is shown alone."""


class Unencodable(FileError):
    def __init__(self, encoding: str, character: str) -> None:
        super().__init__(f"its encoding, {encoding}, has no {character!r}")
