"""Whose files are these? Real files; other owners only where this runs as root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdfast.core.filesystem.ownership import calling_user, foreign, foreign_owner

ME = os.getuid()
as_root = pytest.mark.skipif(ME != 0, reason="only root can give files away")
STRANGER, OTHER_GROUP = 12_345, 23_456


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir(mode=0o755)
    made.chmod(0o755)
    return made


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o500, 0o1777, 0o3777])
def test_a_file_that_only_the_user_can_change_is_the_users(folder: Path, mode: int) -> None:
    """CAT-172: also a folder such as /tmp, in which others cannot touch what is there."""
    folder.chmod(mode)
    assert foreign(folder, uid=ME) is None


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702, 0o2777])
def test_a_file_that_everyone_can_change_is_foreign(folder: Path, mode: int) -> None:
    """CAT-172: folders and files."""
    folder.chmod(mode)
    assert foreign(folder, uid=ME) == "can be changed by every user"
    assert foreign_owner(folder, uid=ME) is None
    file = folder / "AGENTS.md"
    file.touch()
    file.chmod(mode & 0o777 | 0o1000)
    assert foreign(file, uid=ME) == "can be changed by every user"


def test_a_missing_file_is_not_foreign(tmp_path: Path) -> None:
    """CAT-172: whoever wants to read it will find out."""
    assert foreign(tmp_path / "nothing", uid=ME) is None
    assert foreign_owner(tmp_path / "nothing", uid=ME) is None


def test_a_link_is_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    """CAT-172."""
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o777)
    assert foreign(tmp_path / "link", uid=ME) is not None


def test_another_users_file_is_foreign(folder: Path) -> None:
    """CAT-172: seen by somebody else; root's files are the system's."""
    somebody = ME + 1 if ME else 4_321
    expected = None if ME == 0 else f"is owned by user {ME}"
    assert foreign(folder, uid=somebody) == expected
    assert foreign(folder, uid=somebody, sudo_uid=ME) == expected  # only root is asked under another name


@as_root
def test_a_strangers_file_is_foreign_to_root_too(folder: Path) -> None:
    """CAT-172: unless that is who called sudo."""
    os.chown(folder, STRANGER, -1)
    assert foreign(folder, uid=0) == foreign_owner(folder, uid=0) == f"is owned by user {STRANGER}"
    assert foreign(folder, uid=0, sudo_uid=STRANGER) is None
    assert foreign(folder, uid=0, sudo_uid=STRANGER + 1) is not None
    assert foreign(folder, uid=STRANGER) is None
    assert foreign(folder, uid=STRANGER + 1) is not None


@as_root
def test_a_group_may_write_if_it_is_the_users_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-172: many systems give each user a group; a shared one could change the files."""
    folder.chmod(0o775)
    assert foreign(folder, uid=0) is None
    os.chown(folder, -1, OTHER_GROUP)
    assert foreign(folder, uid=0) == f"can be changed by group {OTHER_GROUP}"
    account = pwd.struct_passwd(("me", "x", STRANGER, OTHER_GROUP, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account if uid == STRANGER else _unknown(uid))
    os.chown(folder, STRANGER, OTHER_GROUP)
    assert foreign(folder, uid=STRANGER) is None
    import grp

    shared = grp.struct_group(("shared", "x", OTHER_GROUP, ["me", "colleague"]))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: shared)
    assert foreign(folder, uid=STRANGER) == f"can be changed by group {OTHER_GROUP}"


def _unknown(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


@pytest.mark.parametrize(
    ("value", "found"),
    [("1000", 1000), ("0", 0), ("", None), ("-1", None), ("me", None), ("٣", None), ("9" * 11, None)],
)
def test_the_caller_of_sudo_is_a_user_id_or_nobody(value: str, found: int | None) -> None:
    """CAT-172: a number, or nobody."""
    assert calling_user({"SUDO_UID": value}) == found
    assert calling_user({}) is None
