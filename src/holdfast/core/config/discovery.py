"""Which files and folders configure a Location, low to high. Only looks upwards and at known names, so its cost does
not depend on the size of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.core.config.document import DOT, Directory
from holdfast.core.config.environment import config_home, directories, switched_on, user_path
from holdfast.core.config.text_file import Unreadable, read_text
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMES = ("opencode.json", "opencode.jsonc")


class Candidate(Frozen):
    """A file that counts if it exists. Most do not, so its path is made when it does."""

    folder: Path
    name: str
    origin: Literal["user", "project"]
    required: bool = False

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def read(self, limit: int) -> str | Unreadable | None:
        try:
            text = read_text(f"{self.folder}/{self.name}", limit)
        except Unreadable as error:
            return error
        return Unreadable("does not exist") if text is None and self.required else text


def discover(directory: Path, root: Path, environment: Mapping[str, str]) -> Iterator[Candidate | Directory]:
    """What is a project's has the origin `project` here; whether it is trusted is found out when it is read."""
    chosen = choices_file(environment)
    yield Candidate(chosen.parent, chosen.name, "user")
    home = config_home(environment)
    yield from (Candidate(home, name, "user") for name in NAMES)
    yield Directory(home, "user")
    if named := environment.get("OPENCODE_CONFIG"):
        path = user_path(named, environment)
        yield Candidate(path.parent, path.name, "user", required=True)
    folders = project_folders(directory, root, environment)
    for folder in folders:
        yield from (Candidate(folder, name, "project") for name in NAMES)
    for folder in folders:
        if os.path.isdir(f"{folder}/{DOT}") and not _same(dot := folder / DOT, home):
            yield from (Candidate(dot, name, "project") for name in NAMES)
            yield Directory(dot, "project")


def choices_file(environment: Mapping[str, str]) -> Path:
    """What the user chose in a dialogue, in the form of a configuration file. Everything they wrote counts more."""
    return directories(environment).state / "choices.json"


def _same(folder: Path, home: Path) -> bool:
    try:
        return os.path.samefile(folder, home)
    except OSError:
        return False


def project_folders(directory: Path, root: Path, environment: Mapping[str, str]) -> list[Path]:
    """From the project's root down to the Location, both without symbolic links; none if it lies elsewhere."""
    if switched_on(environment, "OPENCODE_DISABLE_PROJECT_CONFIG"):
        return []
    home, directory, root = (Path(os.path.realpath(path)) for path in (config_home(environment), directory, root))
    folders = [directory, *directory.parents]
    if directory == home or root not in folders:
        return []
    return [folder for folder in reversed(folders[: folders.index(root) + 1]) if folder != home]
