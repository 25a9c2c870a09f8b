"""Finds the files and folders that configure a Location, lowest priority first. It only checks known names in parent
directories, so its cost does not depend on the size of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.core.config.document import DOT, Directory
from holdfast.core.config.environment import config_home, directories, is_enabled, user_path
from holdfast.core.config.text_file import Unreadable, read_private_text, read_text
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMES = ("opencode.json", "opencode.jsonc")


class CandidateFile(Frozen):
    """A configuration file that may exist. Most do not, so its Path is built only on demand."""

    folder: Path
    name: str
    origin: Literal["user", "project"]
    required: bool = False
    private: bool = False
    """Whether it is a file of this program, which must belong to this user alone."""
    preset: bool = False

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def read(self, limit: int) -> str | Unreadable | None:
        try:
            if self.private:
                text = read_private_text(self.path, limit)
            else:
                text = read_text(f"{self.folder}/{self.name}", limit)
        except Unreadable as error:
            return error
        return Unreadable("does not exist") if text is None and self.required else text


def discover(directory: Path, root: Path, environment: Mapping[str, str]) -> Iterator[CandidateFile | Directory]:
    """Project files get the origin `project`; whether they are trusted is decided when they are read."""
    chosen = choices_file(environment)
    yield CandidateFile(chosen.parent, chosen.name, "user", private=True, preset=True)
    home = config_home(environment)
    yield from (CandidateFile(home, name, "user") for name in NAMES)
    yield Directory(home, "user")
    if named := environment.get("OPENCODE_CONFIG"):
        path = user_path(named, environment)
        yield CandidateFile(path.parent, path.name, "user", required=True)
    folders = project_folders(directory, root, environment)
    for folder in folders:
        yield from (CandidateFile(folder, name, "project") for name in NAMES)
    for folder in folders:
        if os.path.isdir(f"{folder}/{DOT}") and not _same(dot := folder / DOT, home):
            yield from (CandidateFile(dot, name, "project") for name in NAMES)
            yield Directory(dot, "project")


def choices_file(environment: Mapping[str, str]) -> Path:
    """Settings that the user chose interactively, as a configuration file with the lowest priority."""
    return directories(environment).state / "choices.json"


def _same(folder: Path, home: Path) -> bool:
    try:
        return os.path.samefile(folder, home)
    except OSError:
        return False


def project_folders(directory: Path, root: Path, environment: Mapping[str, str]) -> list[Path]:
    """The directories from the project's root down to the Location, with symbolic links resolved. Empty if the Location
    is outside the root."""
    if is_enabled(environment, "OPENCODE_DISABLE_PROJECT_CONFIG"):
        return []
    home, directory, root = (Path(os.path.realpath(path)) for path in (config_home(environment), directory, root))
    folders = [directory, *directory.parents]
    if directory == home or root not in folders:
        return []
    return [folder for folder in reversed(folders[: folders.index(root) + 1]) if folder != home]
