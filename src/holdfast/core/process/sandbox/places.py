"""Paths that a sandbox hides or protects: secrets, and files that other programs execute.

The lists contain common names; secrets elsewhere must be protected by file permissions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SECRETS = tuple(
    """
    .ssh .gnupg .password-store .netrc .git-credentials .config/git/credentials .config/gh .config/hub .config/glab-cli
    .aws .azure .config/gcloud .kube .docker .config/containers .config/helm .vault-token
    .terraform.d/credentials.tfrc.json .npmrc .yarnrc.yml .pypirc .config/pip .cargo/credentials .cargo/credentials.toml
    .gem/credentials .m2/settings.xml .gradle/gradle.properties .config/op .1password .local/share/keyrings
    .local/share/kwalletd .mozilla .config/google-chrome .config/chromium .config/Signal .local/share/opencode
    .claude/.credentials.json .codex/auth.json .config/github-copilot .bash_history .zsh_history .python_history
    .node_repl_history .psql_history .mysql_history .pgpass .my.cnf
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""In the home directory."""
SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-")
SOCKETS = ("/run", "/var/run")
"""Directories with sockets of host services, such as container engines, message buses and agents."""
SOCKETS_EXCEPT = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Programs on NixOS."""
TEMPORARY = ("/tmp", "/var/tmp")

CONFIGURATION = ("opencode.json", "opencode.jsonc", ".opencode", ".envrc")
"""In a project: files that this runtime and direnv read."""
EXECUTED_BY_GIT = ("hooks", "config", "config.worktree", "info", "modules", "worktrees", "commondir", "gitdir")
"""In a git directory: files that name programs, or other directories with such files."""
EXECUTED_AT_LOGIN = tuple(
    """
    .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .gitconfig .config/git
    .config/fish .config/autostart .config/systemd .config/environment.d .local/bin .vimrc .config/nvim .npm-global
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""In the home directory, for users whose project is the home directory."""

_HOOKS_PATH = pattern(r"(?im)^\s*hookspath\s*=\s*(.+?)\s*$")
POINTER_BYTES = 4096


class GitPaths(Frozen):
    """The git directories that a commit in a worktree writes to, and the paths in them and in the worktree that git
    executes."""

    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()


def git_paths(root: Path) -> GitPaths:
    """For the worktree with this root. A `.git` file is used only if the directory it names points back to it: the
    project controls the file and must not be able to choose what becomes writable."""
    marker = root / ".git"
    if marker.is_symlink():
        return GitPaths((), (marker,))
    if not marker.exists():
        return GitPaths()
    if marker.is_dir():
        return GitPaths((marker,), tuple(_executed(marker, root)))
    own = _pointer(marker, "gitdir:")
    if own is None or _pointer(own / "gitdir") != marker:
        return GitPaths((), (marker,))
    common = _pointer(own / "commondir") or own
    if own.parent.parent != common:
        return GitPaths((), (marker,))
    protected = [path for path in _executed(common, root) if path != own.parent]
    siblings = [path for path in own.parent.iterdir() if path != own]
    return GitPaths((common,), (marker, *protected, *siblings, *_executed(own, root)))


def _executed(directory: Path, root: Path) -> Iterator[Path]:
    yield from (directory / name for name in EXECUTED_BY_GIT)
    try:
        text = (directory / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    # Tools such as husky keep hooks in the worktree.
    for named in _HOOKS_PATH.findall(text):
        hooks = Path(os.path.normpath(root / named.strip('"')))
        if hooks != root and hooks.is_relative_to(root):
            yield hooks


def _pointer(file: Path, prefix: str = "") -> Path | None:
    try:
        with file.open(encoding="utf-8") as text:
            pointed = text.read(POINTER_BYTES).removeprefix(prefix).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(os.path.realpath(file.parent / pointed)) if pointed else None


def existing(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """The canonical paths of those that exist, without duplicates and without `/`."""
    found = (os.path.realpath(path) for path in paths if os.path.lexists(path))
    return tuple(dict.fromkeys(Path(path) for path in found if os.path.exists(path) and path != "/"))


def secrets(home: Path) -> tuple[Path, ...]:
    system = [path for path in SYSTEM_SECRETS if os.access(path, os.R_OK)]
    return existing([*(home / name for name in SECRETS), *system])
