"""Reading the configuration of a repository that a command may have written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.core.process.sandbox.git_configuration import UnreadableSettings, read_settings

PLAIN = r"""# a comment
[core]
	repositoryformatversion = 0
	bare
	worktree = "../a b" ; where
[remote "origin \"x\" \\ [y]"]
	url = https://example.org/x.git
; another
[branch "main"]
	merge = refs/heads/"ma"in # tail
	description = a\tb\\c "; d"
[Filter "LFS"]
	Clean = git-lfs clean -- %f
"""

UNCERTAIN = {
    "a value that continues": "[core]\n\tbare = fal\\\nse\n",
    "a setting beside its section": "[core] fsmonitor = x\n",
    "an old subsection": "[remote.origin]\n\turl = x\n",
    "a quote that does not end": '[core]\n\tworktree = "x\n',
    "an unknown escape": "[core]\n\tworktree = \\x\n",
    "a byte order mark": "\ufeff[core]\n\tbare = true\n",
    "a NUL character": "[core]\n\tbare = true\0\n",
    "no section": "bare = true\n",
}


def test_settings_are_read_as_git_reads_them(tmp_path: Path) -> None:
    """TOL-551: keys, subsections, quotes, escapes and comments."""
    file = tmp_path / "config"
    file.write_text(PLAIN, encoding="utf-8")
    listed = subprocess.run(("git", "config", "-z", "--file", file, "--list"), capture_output=True, check=True).stdout
    expected = [os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0")[:-1]]
    read = {setting.key.replace('\\"', '"').replace("\\\\", "\\"): setting.value for setting in read_settings(file)}
    assert read == {key: value or "true" for key, _, value in expected}


@pytest.mark.parametrize("name", UNCERTAIN)
def test_a_file_that_git_could_read_otherwise_is_not_read(tmp_path: Path, name: str) -> None:
    """TOL-551: it counts as naming programs."""
    file = tmp_path / "config"
    file.write_text(UNCERTAIN[name], encoding="utf-8", newline="")
    with pytest.raises(UnreadableSettings):
        read_settings(file)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """TOL-551."""
    os.mkfifo(tmp_path / "config")
    with pytest.raises(UnreadableSettings):
        read_settings(tmp_path / "config")
    assert read_settings(tmp_path / "absent") == ()


def test_only_listed_settings_are_harmless(tmp_path: Path) -> None:
    """TOL-551: a setting that names a program, or is not known, is not."""
    file = tmp_path / "config"
    harmless = (
        "remote.a.url=https://x/y",
        "remote.a.b.c.url=../y",
        "branch.x.remote=a",
        "core.bare=true",
        "color.ui=1",
    )
    executing = (
        *("core.fsmonitor=x", "core.hookspath=x", "core.sshcommand=x", "core.editor=x", "core.pager=x", "alias.st=!x"),
        *("include.path=x", "includeif.onbranch:m.path=x", "filter.a.clean=x", "diff.external=x", "merge.a.driver=x"),
        *("remote.a.uploadpack=x", "remote.a.vcs=x", "remote.e.url=ext::sh -c x", "submodule.a.update=!x"),
        *("credential.helper=x", "url.x.insteadof=y", "gpg.program=x", "hook.a.command=x", "remote.url.proxy=x"),
    )
    for text in (*harmless, *executing):
        key, _, value = text.partition("=")
        subprocess.run(("git", "config", "--file", file, key, value), check=True)
    settings = read_settings(file)
    assert {f"{setting.key}={setting.value}" for setting in settings if setting.harmless} == set(harmless)
    assert len(settings) == len(harmless) + len(executing)
