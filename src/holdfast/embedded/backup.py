"""What the command line needs to back up a database file and to restore one."""

from __future__ import annotations

from holdfast.core.database.backup import BackupInfo as BackupInfo
from holdfast.core.runtime.backups import back_up as back_up
from holdfast.core.runtime.backups import check as check
from holdfast.core.runtime.backups import restore as restore
