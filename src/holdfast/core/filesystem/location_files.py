"""The files of one Location for its tools: path resolution under the current settings, changes, read fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.editor_files import EditorFiles, UnsavedFiles
from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.filesystem.location_path import NO_OWN_FOLDERS, Access, LocationPaths, Target
from holdfast.core.filesystem.locks import PROCESS_LOCKS, FileLocks
from holdfast.core.filesystem.mutation import FileMutations
from holdfast.core.filesystem.read_fingerprints import ReadFingerprints
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from holdfast.core.filesystem.own_folders import OwnFolders


class FileSettings(Frozen):
    external_paths: Literal["ask", "deny"] = "ask"
    """Whether paths outside the Location need approval or are refused."""
    binary_files: Literal["refuse", "base64"] = "refuse"
    image: ImageLimits = ImageLimits()
    output_lines: int = 2000
    output_bytes: int = 50 * 1024
    """The limits of Model Tool Output, which a page must fit."""
    line_endings: Literal["as_given", "as_before"] = "as_given"
    """Whether `write` converts LF content to CRLF for a file that has only CRLF line endings."""
    stale_guard: bool = False
    patch_moves: bool = True
    patch_atomic: bool = False


class LocationFiles:
    def __init__(
        self,
        directory: Path,
        *,
        settings: Callable[[], FileSettings] = FileSettings,
        managed: Callable[[Path], bool] = lambda path: False,
        references: Callable[[], Mapping[str, Path]] = dict,
        on_edit: Callable[[Path], None] = lambda path: None,
        locks: FileLocks = PROCESS_LOCKS,
        editor: EditorFiles | None = None,
        own: OwnFolders = NO_OWN_FOLDERS,
    ) -> None:
        self.paths = LocationPaths(directory, managed=managed, references=references, own=own)
        self.root = self.paths.root
        self.settings = settings
        self.mutations = FileMutations(locks=locks, on_edit=on_edit)
        self.fingerprints = ReadFingerprints()
        self.unsaved = UnsavedFiles(editor, on_edit, self.root)

    def resolve(
        self, path: str, access: Access = "read", *, kind: Literal["file", "directory"] = "file", follow: bool = True
    ) -> Target:
        """See `LocationPaths.resolve`; raises `PathError`."""
        external = self.settings().external_paths
        return self.paths.resolve(path, access, kind=kind, follow=follow, external=external)
