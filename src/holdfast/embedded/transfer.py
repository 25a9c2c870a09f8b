"""What the command line needs to move Sessions to another store."""

from __future__ import annotations

from holdfast.core.database.errors import TransferDiffers as TransferDiffers
from holdfast.core.database.transfer.transfer import Progress as Progress
from holdfast.core.runtime.transfers import Cancelled as Cancelled
from holdfast.core.runtime.transfers import Migrated as Migrated
from holdfast.core.runtime.transfers import cancel as cancel
from holdfast.core.runtime.transfers import migrate as migrate
