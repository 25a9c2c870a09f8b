"""What can go wrong with a file, as expected failures.

FileError
├── PathError          the path leads where this Location has no authority, or nowhere
├── TargetMissing      nothing is there
├── TargetExists       an exclusive creation found something there
├── StaleContent       the bytes are not the expected ones
├── WrongKind          a directory, pipe, socket or device stands there
├── ReadOnlyFile       its mode forbids writing
├── FileTooLarge       more bytes than the caller takes
├── NotText            the bytes are in no encoding that could be written back
└── Unencodable        new text has a character that the file's encoding has not
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
}


class FileError(HoldfastError):
    """The message is a clause that fits behind a tool's own words."""


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
    """The message is the caller's: a whole sentence where it stands alone."""


class Unencodable(FileError):
    def __init__(self, encoding: str, character: str) -> None:
        super().__init__(f"its encoding, {encoding}, has no {character!r}")
