"""Every endpoint has the role that it needs. A new one is added here by a person who has thought about it."""

from __future__ import annotations

import pytest

from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Envelope, endpoint
from holdfast.schema.access import ROLES, Role, includes

ROLE_OF: dict[Role, str] = {
    "read": """
        health.get location.get events.subscribe sessions.list sessions.active sessions.get sessions.wait
        sessions.context sessions.history sessions.events sessions.message sessions.messages
        permissions.list_requests permissions.list_saved permissions.list permissions.get permissions.preview
        questions.list_requests questions.list forms.list_requests forms.list forms.get forms.state agents.list
        models.list providers.list commands.list skills.list references.list providers.get config.get
        config.report config.effective sandbox.get integrations.list integrations.get
        integrations.attempt_status mcp.list mcp.resources sessions.inbox sessions.instructions sessions.budgets
        sessions.usage sessions.interrupted metrics.read openapi.document sessions.pending sessions.waits
        sessions.outcome sessions.checkpoint sessions.request_context sessions.todos sessions.tree
        sessions.tree_events sessions.overview sessions.find sessions.open_requests system.info sessions.ledger
        sessions.window sessions.timeline sessions.log sessions.log_entry sessions.past sessions.changes
        sessions.rendered sessions.rendered_call sessions.view sessions.export sessions.audit
        system.usage
    """,
    "prompt": """
        sessions.create sessions.switch_agent sessions.switch_model sessions.prompt sessions.command
        sessions.skill sessions.synthetic sessions.compact sessions.stage_revert sessions.clear_revert
        sessions.commit_revert sessions.fork sessions.interrupt sessions.background
        forms.create files.read files.list files.find sessions.cancel_input sessions.steer_input
        sessions.queue_input sessions.put_instruction sessions.remove_instruction sessions.withdraw
        sessions.rename sessions.archive sessions.recover sessions.run sessions.undo_compaction
        sessions.generate sessions.pin
    """,
    "approve": """
        permissions.create permissions.remove_saved permissions.link permissions.reply questions.reply
        questions.reject forms.reply
        forms.cancel
    """,
    "admin": """
        sessions.shell integrations.sign_in_page config.reload integrations.connect_key
        integrations.connect_oauth integrations.attempt_complete integrations.attempt_cancel credentials.update
        credentials.remove mcp.add mcp.remove mcp.connect mcp.disconnect mcp.call mcp.log ptys.list ptys.create
        ptys.get ptys.update ptys.remove ptys.connect_token ptys.connect project_copies.create
        project_copies.remove project_copies.refresh sessions.set_budget sessions.remove_budget sessions.delete
        sessions.move system.doctor sessions.import_bundle tokens.list tokens.create tokens.revoke system.audit
        system.disk sessions.purge
    """,
}

EXECUTES = ("sessions.shell", "ptys.", "mcp.add", "mcp.connect", "mcp.call", "project_copies.", "config.reload")
"""What starts a program of the caller's choice, or of the project's, without asking anybody."""


def test_every_endpoint_has_this_role() -> None:
    """OPS-303."""
    found: dict[str, str] = {f"{each.group}.{each.name}": each.role for each in API}
    assert found == {name: role for role, names in ROLE_OF.items() for name in names.split()}


def test_an_endpoint_without_a_role_cannot_be_declared() -> None:
    """OPS-303."""
    with pytest.raises(TypeError, match="role"):
        endpoint("things.get", "GET /api/thing", "v2.thing.get", "One.")  # type: ignore[call-arg]


def test_only_reading_needs_no_more_than_read() -> None:
    """OPS-303: what the role `read` may send with another method only waits."""
    changing = {each.operation for each in API if each.role == "read" and each.method != "GET"}
    assert changing == {"v2.session.wait", "holdfast.session.outcome"}


def test_what_executes_needs_an_admin() -> None:
    """OPS-303."""
    for each in API:
        if f"{each.group}.{each.name}".startswith(EXECUTES):
            assert each.role == "admin", each.operation


def test_a_stream_of_everything_is_not_for_limited_tokens() -> None:
    """OPS-306: an endpoint that checks projects itself is one of these."""
    checking = {f"{each.group}.{each.name}" for each in API if each.checks_projects}
    assert checking == {"health.get", "openapi.document", "sessions.list", "sessions.create"}
    assert not any(each.checks_projects for each in API if each.envelope is Envelope.STREAM)


def test_roles_are_a_total_order() -> None:
    """OPS-302."""
    assert [[includes(role, needed) for needed in ROLES] for role in ROLES] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
    ]


def test_these_requests_are_recorded() -> None:
    """OPS-312: what an admin changes outside of a Session, and what leaves no event of one."""
    others = {f"{each.group}.{each.name}" for each in API if each.is_recorded and each.role != "admin"}
    assert others == {
        "permissions.link",
        "permissions.remove_saved",
        "sessions.background",
        "sessions.interrupt",
        "sessions.recover",
    }
    silent = {
        f"{each.group}.{each.name}"
        for each in API
        if each.role == "admin" and each.method != "GET" and not each.is_recorded
    }
    assert silent == {
        "ptys.update",
        "sessions.move",
        "sessions.remove_budget",
        "sessions.set_budget",
        "sessions.shell",
    }
