"""The list of all event types, from which storing, decoding, publishing and the public stream are derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.schema import live_event as live
from holdfast.schema import mcp, pty
from holdfast.schema import session_event as ev
from holdfast.schema import task_event as task
from holdfast.schema.budget_event import BudgetSet
from holdfast.schema.event import Definition
from holdfast.schema.fork_event import LineageShortened, SessionForked
from holdfast.schema.turn_event import RecoveryDecided, TurnAbandoned, TurnAnswered, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.schema.record import Record


class Manifest:
    """Indexes of the definitions: all stored versions for decoding, the latest for publishing."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self.stored: dict[str, Definition] = {}
        self.latest: dict[str, Definition] = {}
        for definition in definitions:
            self._add(definition)
        self.of_payload: dict[type[Record], Definition] = {item.payload: item for item in self.latest.values()}
        self.public_types = frozenset(key for key, item in self.stored.items() if item.public)

    def _add(self, definition: Definition) -> None:
        if definition.version is not None and definition.version < 1:
            raise ValueError(f"{definition.type}: a version is a positive integer")
        if (definition.version is None) != (definition.aggregate is None):
            raise ValueError(f"{definition.type}: a durable event names both a version and its aggregate field")
        if definition.durable:
            if definition.stored_type in self.stored:
                raise ValueError(f"{definition.stored_type} is defined twice")
            self.stored[definition.stored_type] = definition
        if not definition.written:
            return
        current = self.latest.get(definition.type)
        if current is not None and current.version == definition.version:
            raise ValueError(f"{definition.type} is defined twice")
        if current is None or (definition.version or 0) > (current.version or 0):
            self.latest[definition.type] = definition


ATTRIBUTED = frozenset(
    (
        "session.created",
        "session.updated",
        "session.deleted",
        *(
            f"session.next.{name}"
            for name in (
                "forked",
                "agent.switched",
                "model.switched",
                "moved",
                "prompt.admitted",
                "shell.started",
                "compaction.started",
                "compaction.undone",
                "revert.staged",
                "revert.cleared",
                "revert.committed",
                "input.withdrawn",
                "input.delivery.changed",
                "instruction.entry.put",
                "instruction.entry.removed",
                "turn.abandoned",
                "recovery.decided",
                "budget.set",
                "permission.replied",
                "question.replied",
                "question.rejected",
                "form.replied",
                "form.cancelled",
            )
        ),
    )
)
"""Types of events that somebody causes with a request."""


def _session(
    name: str, payload: type[Record], *, version: int = 1, public: bool = True, written: bool = True
) -> Definition:
    # Private events are not announced, except those with the whole Session record, which clients know.
    return Definition(
        type=name,
        payload=payload,
        version=version,
        aggregate="session_id",
        public=public,
        written=written,
        announced=public or not name.startswith("session.next."),
        attributed=name in ATTRIBUTED,
    )


def _first_of_session(created: ev.SessionCreated) -> int | None:
    """A fork's own events follow the history it shares, so that one order holds for both."""
    return created.info.fork.through_seq + 1 if created.info.fork is not None else None


SESSION_DEFINITIONS: tuple[Definition, ...] = (
    replace(_session("session.created", ev.SessionCreated, public=False), begins_at=_first_of_session),
    _session("session.updated", ev.SessionUpdated, public=False),
    _session("session.deleted", ev.SessionDeleted, public=False),
    _session("session.next.forked", SessionForked, public=False),
    _session("session.next.lineage.shortened", LineageShortened, public=False),
    _session("session.next.agent.switched", ev.AgentSwitched),
    _session("session.next.model.switched", ev.ModelSwitched),
    _session("session.next.moved", ev.Moved),
    _session("session.next.prompt.admitted", ev.PromptAdmitted),
    _session("session.next.prompted", ev.Prompted),
    _session("session.next.context.updated", ev.ContextUpdated),
    _session("session.next.synthetic", ev.Synthetic),
    _session("session.next.shell.started", ev.ShellStarted),
    _session("session.next.shell.ended", ev.ShellEnded),
    _session("session.next.step.started", ev.StepStarted),
    _session("session.next.step.ended", ev.StepEnded, version=2),
    _session("session.next.step.failed", ev.StepFailed, version=2),
    _session("session.next.text.started", ev.TextStarted),
    _session("session.next.text.ended", ev.TextEnded),
    _session("session.next.reasoning.started", ev.ReasoningStarted),
    _session("session.next.reasoning.ended", ev.ReasoningEnded),
    _session("session.next.tool.input.started", ev.ToolInputStarted),
    _session("session.next.tool.input.ended", ev.ToolInputEnded),
    _session("session.next.tool.called", ev.ToolCalled),
    _session("session.next.tool.progress", ev.ToolProgress),
    _session("session.next.tool.success", ev.ToolSuccess),
    _session("session.next.tool.failed", ev.ToolFailed),
    _session("session.next.retried", ev.Retried),
    _session("session.next.compaction.started", ev.CompactionStarted),
    _session("session.next.compaction.ended", ev.CompactionEnded, version=2),
    # Written by earlier versions, with the same fields.
    _session("session.next.compaction.ended", ev.CompactionEnded, version=1, written=False),
    _session("session.next.compaction.failed", ev.CompactionFailed),
    _session("session.next.revert.staged", ev.RevertStaged),
    _session("session.next.revert.cleared", ev.RevertCleared),
    _session("session.next.revert.committed", ev.RevertCommitted),
    _session("session.next.input.withdrawn", ev.InputWithdrawn, public=False),
    _session("session.next.input.delivery.changed", ev.InputDeliveryChanged, public=False),
    _session("session.next.attachment.stored", ev.AttachmentStored, public=False),
    _session("session.next.instruction.discovered", ev.InstructionDiscovered, public=False),
    _session("session.next.instruction.entry.put", ev.InstructionEntryPut, public=False),
    _session("session.next.instruction.entry.removed", ev.InstructionEntryRemoved, public=False),
    _session("session.next.turn.dispatched", TurnDispatched, public=False),
    _session("session.next.turn.answered", TurnAnswered, public=False),
    _session("session.next.turn.abandoned", TurnAbandoned, public=False),
    _session("session.next.recovery.decided", RecoveryDecided, public=False),
    _session("session.next.activity.ended", ev.ActivityEnded, public=False),
    _session("session.next.activity.suspended", ev.ActivitySuspended, public=False),
    _session("session.next.snapshot.captured", ev.SnapshotCaptured, public=False),
    _session("session.next.compaction.undone", ev.CompactionUndone, public=False),
    _session("session.next.usage.recorded", ev.UsageRecorded, public=False),
    _session("session.next.todos.replaced", ev.TodosReplaced, public=False),
    _session("session.next.budget.set", BudgetSet, public=False),
    _session("session.next.task.started", task.TaskStarted, public=False),
    _session("session.next.task.moved", task.TaskMoved, public=False),
    _session("session.next.permission.asked", ev.PermissionAsked, public=False),
    _session("session.next.permission.replied", ev.PermissionReplied, public=False),
    _session("session.next.request.taken", ev.RequestTaken, public=False),
    _session("session.next.question.asked", ev.QuestionAsked, public=False),
    _session("session.next.question.replied", ev.QuestionReplied, public=False),
    _session("session.next.question.rejected", ev.QuestionRejected, public=False),
    _session("session.next.form.asked", ev.FormAsked, public=False),
    _session("session.next.form.replied", ev.FormReplied, public=False),
    _session("session.next.form.cancelled", ev.FormCancelled, public=False),
)

LIVE_DEFINITIONS: tuple[Definition, ...] = (
    Definition(type="session.next.text.delta", payload=live.TextDelta),
    Definition(type="session.next.reasoning.delta", payload=live.ReasoningDelta),
    Definition(type="session.next.tool.input.delta", payload=live.ToolInputDelta),
    Definition(type="session.next.compaction.delta", payload=live.CompactionDelta),
    Definition(type="session.next.shell.delta", payload=live.ShellDelta),
    Definition(type="todo.updated", payload=live.TodoUpdated),
    Definition(type="session.status", payload=live.SessionStatus),
    Definition(type="session.idle", payload=live.SessionIdle),
    Definition(type="session.compacted", payload=live.SessionCompacted),
    Definition(type="session.tree.connected", payload=live.TreeConnected),
    Definition(type="session.error", payload=live.SessionError),
    Definition(type="permission.v2.asked", payload=live.PermissionAskedLive),
    Definition(type="permission.v2.replied", payload=live.PermissionRepliedLive),
    Definition(type="question.v2.asked", payload=live.QuestionAskedLive),
    Definition(type="question.v2.replied", payload=live.QuestionRepliedLive),
    Definition(type="question.v2.rejected", payload=live.QuestionRejectedLive),
    Definition(type="form.created", payload=live.FormCreatedLive),
    Definition(type="form.replied", payload=live.FormRepliedLive),
    Definition(type="form.cancelled", payload=live.FormCancelledLive),
    Definition(type="pty.created", payload=pty.PtyCreated),
    Definition(type="pty.updated", payload=pty.PtyUpdated),
    Definition(type="pty.exited", payload=pty.PtyExited),
    Definition(type="pty.deleted", payload=pty.PtyDeleted),
    Definition(type="file.edited", payload=live.FileEdited),
    Definition(type="catalog.updated", payload=live.CatalogUpdated),
    Definition(type="integration.updated", payload=live.IntegrationUpdated),
    Definition(type="integration.connection.updated", payload=live.IntegrationConnectionUpdated),
    Definition(type="reference.updated", payload=live.ReferenceUpdated),
    Definition(type="mcp.status.changed", payload=mcp.McpStatusChanged),
    Definition(type="mcp.resources.changed", payload=mcp.McpResourcesChanged),
    Definition(type="plugin.added", payload=live.PluginAdded),
    Definition(type="models-dev.refreshed", payload=live.ModelsDevRefreshed),
    Definition(type="server.connected", payload=live.ServerConnected),
    Definition(type="global.disposed", payload=live.GlobalDisposed),
)

MANIFEST = Manifest((*SESSION_DEFINITIONS, *LIVE_DEFINITIONS))
