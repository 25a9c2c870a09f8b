"""Writes without waiting for the disk. A sync protects from a loss of power, which no test has: what a killed process
wrote stays. A commit waits for it 1 ms and more, and it is a sixth of the processor time of a test with a Session."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.core.database import sqlite

SYNCHRONOUS = sqlite.SYNCHRONOUS
"""The setting of the product."""


Set = Callable[[object, str, object], None]
"""`setattr`, or that of a fixture, which undoes it."""


def leave_out_syncs(set: Set) -> None:
    """In this process."""
    set(sqlite, "SYNCHRONOUS", "synchronous=off")
    set(os, "fsync", _check_descriptor)


def sync_commits(set: Set) -> None:
    """For tests that observe the syncs of SQLite."""
    set(sqlite, "SYNCHRONOUS", SYNCHRONOUS)


def _check_descriptor(descriptor: int) -> None:
    os.fstat(descriptor)
