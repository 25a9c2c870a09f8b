"""What is wrong with a bundle.

BundleInvalid   400  the file is no bundle, is damaged, or was made to harm
BundleConflict  409  the store has a Session with the same id and other events
"""

from __future__ import annotations

from holdfast.schema.exceptions import Conflict, InvalidRequest


class BundleInvalid(InvalidRequest):
    def __init__(self, problem: str) -> None:
        super().__init__(f"The bundle cannot be used: {problem}. Nothing was imported.", kind="Body")


class BundleConflict(Conflict):
    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was imported.", resource="session")
