"""What can go wrong with a file, as expected failures.

    FileError
    ├── PathError          the path leads where this Location has no authority, or nowhere
    ├── TargetMissing      nothing is there
    ├── TargetExists       an exclusive creation found something there
    ├── StaleContent       the bytes are not the expected ones
    ├── WrongKind          a directory, pipe, socket or device stands there
    ├── ReadOnlyFile       its mode forbids writing
    ├── FileTooLarge       more bytes than the caller takes
    └── NotText            the bytes are in no encoding that could be written back

The message of each is a clause that a tool may put behind its own words.
"""

from __future__ import annotations

from typing import Literal

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


class FileError(Exception):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class PathError(FileError):
    def __init__(self, path: str, reason: PathReason) -> None:
        super().__init__(path, PATH_REASONS[reason])
        self.reason = reason


class TargetMissing(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "it does not exist")


class TargetExists(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "it already exists")


class StaleContent(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "it changed in the meantime")


class WrongKind(FileError):
    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path, f"it is a {kind}, not a file")
        self.kind = kind


class ReadOnlyFile(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "it is read-only")


class FileTooLarge(FileError):
    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, f"it is larger than {limit} bytes")


class NotText(FileError):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
