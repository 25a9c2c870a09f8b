"""Who may use the page of the source may not use that of the target."""

from __future__ import annotations

from holdfast.core.database.transfer.tables import COPIED, LEFT


def test_sign_ins_codes_links_and_tokens_are_not_copied() -> None:
    """WEB-012."""
    own = {"page_instance", "page_sign_in", "page_code", "approval_link", "access_token"}
    assert own <= set(LEFT)
    assert not own & {table.name for table in COPIED}
