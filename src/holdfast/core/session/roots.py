"""The directories that a node serves, and their labels. A label names the volume that is mounted there: the same path
with another label has other files.

A root is text, in options, in the user's configuration and in the rows of nodes: `/srv/projects`, or
`team-a=/srv/projects`. Nodes of versions without labels read the second form as a directory that no Session has.

A Session keeps its label as the workspace of its Location: `wrk:team-a`. No other workspace says anything of nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.location import Location
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LABEL_LIMIT = 64
LABELLED_LIMIT = 100
"""Roots of one node that have a label: they are written with every report of the node."""
WORKSPACE = "wrk:"
_PATHS = ("/", "./", "../", "~/")
"""How the text of a root begins that has no label, even if it has an equals sign."""
_LABEL = pattern(rf"[A-Za-z0-9][A-Za-z0-9._/-]{{0,{LABEL_LIMIT - 1}}}")
_EXPECTED = (
    f"expected up to {LABEL_LIMIT} letters, digits and ._/- that begin with a letter or digit, as in team-a/disk1"
)


def usable_roots(
    texts: Iterable[str], *, expand: Callable[[str], Path] = Path, relative: bool = False
) -> tuple[str, ...]:
    """The roots with the real paths of their directories. A path without a label may be `relative`. Raises ValueError
    with a reason."""
    found: dict[str, None] = {}
    labels: dict[str, str] = {}
    for text in texts:
        label, given = _split(text)
        if label is not None and _LABEL.fullmatch(label) is None:
            raise ValueError(f"{label[: LABEL_LIMIT + 1]!r} in {text[:200]!r} is no label; {_EXPECTED}")
        path = expand(given)
        if not path.is_absolute() and (label is not None or not relative):
            raise ValueError(f"{str(path)[:200]!r} is no absolute path")
        directory = os.path.realpath(path)
        if label is None:
            found[directory] = None
            continue
        if labels.setdefault(directory, label) != label:
            raise ValueError(f"{directory} has two labels, {labels[directory]} and {label}; a directory has one")
        found[f"{label}={directory}"] = None
    if len(labels) > LABELLED_LIMIT:
        raise ValueError(f"there are {len(labels)} directories with a label; at most {LABELLED_LIMIT} are possible")
    return tuple(found)


def label_of(location: Location) -> str | None:
    workspace = location.workspace_id or ""
    label = workspace.removeprefix(WORKSPACE)
    return label if label != workspace and _LABEL.fullmatch(label) is not None else None


def label_at(directory: str, roots: Iterable[str]) -> str | None:
    """The label of the innermost labelled root that has the directory."""
    found = [(len(root), label) for label, root in map(_split, roots) if label is not None and _has(root, directory)]
    return max(found)[1] if found else None


def labelled(location: Location, roots: Iterable[str]) -> Location:
    """The Location with the label that its directory has below these roots, unless it names a workspace."""
    if location.workspace_id is not None or (label := label_at(location.directory, roots)) is None:
        return location
    return Location(directory=location.directory, workspace_id=f"{WORKSPACE}{label}")


def serve(roots: Iterable[str], location: Location) -> bool:
    """Whether a node with these roots executes Sessions of the Location. One without a label needs a root without."""
    roots = tuple(roots)
    if (label := label_of(location)) is not None:
        return label_at(location.directory, roots) == label
    return any(own is None and _has(root, location.directory) for own, root in map(_split, roots))


def have(roots: Iterable[str], directory: str) -> bool:
    """Whether the directory is below one of these roots, whatever their labels."""
    return any(_has(root, directory) for _, root in map(_split, roots))


def _split(root: str) -> tuple[str | None, str]:
    label, equals, directory = root.partition("=")
    return (None, root) if not equals or root.startswith(_PATHS) else (label, directory)


def _has(root: str, directory: str) -> bool:
    return directory == root or directory.startswith(root.rstrip("/") + "/")
