"""Checks file ownership: a file is trusted only if no other user could have created or changed it.

Trusted owners are the current user, root and, for root under sudo, the user who called sudo."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import TYPE_CHECKING

from holdfast.private_files import calling_user as calling_user
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = 0
OWNED = "is owned by user {}"
WORLD_WRITABLE = "can be changed by every user"
GROUP_WRITABLE = "can be changed by group {}"


def foreign(path: str | os.PathLike[str], *, uid: int, sudo_uid: int | None = None) -> str | None:
    """Why a file or folder is not trusted, or None. Follows links. Costs one `stat`; the user database is read only for
    group-writable files.

    A folder with the sticky bit (such as /tmp) passes: others may add files there but not replace the user's, so the
    caller must check the file as well. An inaccessible path is not foreign: reading it will fail."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _foreign_owner(status, uid, sudo_uid) or _foreign_writers(status, uid, sudo_uid)


def foreign_owner(path: str | os.PathLike[str], *, uid: int, sudo_uid: int | None = None) -> str | None:
    """Like `foreign`, but checks the owner only: what git calls dubious ownership."""
    try:
        return _foreign_owner(os.stat(path), uid, sudo_uid)
    except OSError:
        return None


class Owners(Frozen):
    """The users whose files may instruct or configure this process."""

    uid: int
    sudo_uid: int | None = None

    @classmethod
    def here(cls, environment: Mapping[str, str]) -> Owners:
        return cls(os.getuid(), calling_user(environment))

    def refusal(self, *found: os.stat_result | str) -> str | None:
        """Why a file and the folders it depends on must not be used, or None."""
        for one in found:
            if isinstance(one, str):
                reason = foreign(one, uid=self.uid, sudo_uid=self.sudo_uid)
            else:
                owner = _foreign_owner(one, self.uid, self.sudo_uid)
                reason = owner or _foreign_writers(one, self.uid, self.sudo_uid)
            if reason is not None:
                return reason
        return None


def _foreign_owner(status: os.stat_result, uid: int, sudo_uid: int | None) -> str | None:
    return None if status.st_uid in _trusted(uid, sudo_uid) else OWNED.format(status.st_uid)


def _foreign_writers(status: os.stat_result, uid: int, sudo_uid: int | None) -> str | None:
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return WORLD_WRITABLE
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, _trusted(uid, sudo_uid)):
        return GROUP_WRITABLE.format(status.st_gid)
    return None


def _trusted(uid: int, sudo_uid: int | None) -> set[int]:
    return {uid, ROOT, sudo_uid} if uid == ROOT and sudo_uid is not None else {uid, ROOT}


def _is_private_group(gid: int, users: set[int]) -> bool:
    """Whether all members are trusted. Many systems give each user a private group, and a umask that lets it write."""
    if gid == ROOT:
        return True
    accounts = []
    for user in users:
        try:
            accounts.append(pwd.getpwuid(user))
        except KeyError:
            continue  # a container may run under a uid without an account
    try:
        members = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        members = set()
    return any(account.pw_gid == gid for account in accounts) and members <= {account.pw_name for account in accounts}
