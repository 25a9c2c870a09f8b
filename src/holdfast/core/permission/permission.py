"""Permissions of one Location: judging what an agent wants to do, asking a person where the rules say so, and
remembering what was approved for good.

Invariants
- Rules and saved approvals are read anew at each evaluation; the agent is the one that the caller names, for as long
  as the request waits.
- An approval covers what was shown: one call, or patterns that the request offered. A configured deny beats it, also
  one that was added while the request waited.
- A saved approval holds for a directory and its owner, whatever a repository there claims to be.
- An unknown agent is denied everything."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.permission import rules as policy
from holdfast.core.permission.approval_key import NOBODY, approval_key
from holdfast.core.permission.errors import (
    NOBODY_TO_ASK,
    TOO_MANY_WAIT,
    DeniedByPerson,
    DeniedByRule,
    DeniedWithFeedback,
    InvalidSave,
    PermissionNotFound,
)
from holdfast.core.permission.requests import Kind, Requests, TooManyRequests, Unreachable
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import PermissionAskedLive, PermissionRepliedLive
from holdfast.schema.permission import PermissionRequest, Reply, SavedApproval
from holdfast.schema.record import Record
from holdfast.schema.session_event import PermissionAsked, PermissionReplied

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.event.publisher import Publisher
    from holdfast.core.permission.rules import Authority
    from holdfast.core.project.project import Project
    from holdfast.schema.location import Location
    from holdfast.schema.permission import Effect, PermissionSource

Unattended = Literal["wait", "deny", "allow"]
"""What becomes of an `ask`: wait for a person, or answer in their place because none will come."""

MET = 1_000

log = logging.getLogger(__name__)


class PermissionAnswer(Record):
    """How a request's answer is stored."""

    reply: Reply
    message: str | None = None
    cause: str | None = None


class Wish(Frozen):
    """What an agent wants to do. `save` are the patterns that a person may approve for good."""

    session_id: str
    agent: str
    action: str
    resources: Sequence[str]
    save: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    source: PermissionSource | None = None
    id: str | None = None


class Asked(Frozen):
    id: str
    effect: Effect


class _ApprovalRow(Frozen):
    id: str
    project_id: str
    action: str
    resource: str
    owner: int | None

    def approval(self) -> SavedApproval:
        return SavedApproval(id=self.id, project_id=self.project_id, action=self.action, resource=self.resource)


class Permissions:
    def __init__(
        self,
        *,
        log: EventLog,
        database: Database,
        ids: Ids,
        clock: Clock,
        location: Location,
        project: Project,
        authority_of: Callable[[str], Authority | None],
        unattended: Unattended = "wait",
        wake: Callable[[str], None] = lambda session_id: None,
        ending: Callable[[], bool] = lambda: False,
        saved_beats_narrower_ask: bool = False,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._project = project
        self._authority_of = authority_of
        self._saved_beats_narrower_ask = saved_beats_narrower_ask
        self._requests = Requests(_PERMISSION, log, database, clock, location, wake, ending)
        self.unattended: Unattended = unattended
        self._met: set[str] = set()

    async def assert_allowed(self, wish: Wish) -> None:
        """Return when the call is allowed, however long a person takes to decide. Raises DeniedByRule,
        DeniedWithFeedback or DeniedByPerson."""
        effect = await self._judge(wish)
        if effect == "deny":
            raise await self._blocked(wish)
        if effect == "ask":
            await self._wait_for_approval(wish)

    async def ask(self, wish: Wish) -> Asked:
        """Evaluate without waiting. Only `ask` leaves a request behind."""
        effect = await self._judge(wish)
        request = self._request(wish)
        if effect != "ask":
            return Asked(request.id, effect)
        try:
            if self.unattended != "wait":
                return Asked(request.id, await self._answer_unattended(request, wish))
            await self._requests.open(request, self._asked(request, wish))
        except (TooManyRequests, Unreachable) as error:
            log.warning("permission request of %s denied: %s", wish.session_id, type(error).__name__)
            return Asked(request.id, "deny")
        return Asked(request.id, "ask")

    async def reply(
        self,
        session_id: str,
        request_id: str,
        reply: Reply,
        *,
        message: str | None = None,
        save: Sequence[str] | None = None,
    ) -> None:
        """Answer a request of this Location, whichever process asked. `save` chooses among the offered patterns;
        without it, `always` saves those without a star, or all if each has one."""
        await self._requests.detached(self._reply(session_id, request_id, reply, message, save))

    async def list(self) -> tuple[PermissionRequest, ...]:
        return await self._pending()

    async def for_session(self, session_id: str) -> tuple[PermissionRequest, ...]:
        return await self._pending(session_id)

    async def get(self, session_id: str, request_id: str) -> PermissionRequest:
        found = await self._requests.find(session_id, request_id)
        if found is None:
            raise PermissionNotFound(request_id)
        return found.request

    async def saved(self) -> tuple[SavedApproval, ...]:
        """Those that hold here."""
        key = approval_key(self._project)
        if key.owner == NOBODY:
            return ()
        place: dict[str, Value] = {"root": key.root, "owner": key.owner}
        rows = await self._database.fetch("permission.of_directory", place, into=_ApprovalRow)
        if any(row.owner is None for row in rows):
            await self._database.submit(Unit(key.root, local=(Statement("permission.bind", place),)))
        return tuple(row.approval() for row in rows)

    async def saved_of_project(self, project_id: str) -> tuple[SavedApproval, ...]:
        """All that were given in directories of a project, to look at."""
        key = {"project_id": project_id}
        return tuple(await self._database.fetch("permission.of_project", key, into=SavedApproval))

    async def remove_saved(self, id: str) -> None:
        """From the next evaluation on. Removing what is not there is no error."""
        await self._database.submit(Unit(id, local=(Statement("permission.remove", {"id": id}),)))

    async def abandon(self, session_id: str, lease: Publisher, keep: Collection[tuple[str, str]] = ()) -> None:
        """At the start of a drain: requests whose process died are history, their calls are never approved. Those of
        the calls in `keep` wait on."""
        await self._requests.abandon(session_id, lease, keep)

    async def settled(self, session_id: str) -> None:
        """Until nothing that was cut off in this Session still looks as if it waited."""
        await self._requests.settled(session_id)

    async def close(self) -> None:
        """Decline everything that was asked here and still waits, unless the process is being shut down."""
        await self._requests.close()

    # -- judging -------------------------------------------------------------------------------------------------

    async def _judge(self, wish: Wish) -> Effect:
        if wish.session_id not in self._met:
            if not await self._database.fetch("session.exists", {"id": wish.session_id}):
                raise SessionNotFound(wish.session_id)
            self._meet(wish.session_id)
        if not wish.resources:
            raise ValueError(f"{wish.action}: a permission needs at least one resource")
        return await self._evaluate(wish.agent, wish.action, wish.resources, wish.save)

    def _meet(self, session_id: str) -> None:
        """It exists, and what runs in it need not ask again: deleting a Session interrupts it first."""
        if len(self._met) >= MET:
            self._met.clear()
        self._met.add(session_id)

    async def _evaluate(self, agent: str, action: str, resources: Sequence[str], save: Sequence[str] | None) -> Effect:
        authority = self._authority(agent)
        effect = policy.configured(authority.rules, action, resources, authority.fences)
        if effect != "ask":
            return effect
        return policy.effective(
            authority.rules,
            await self.saved(),
            action,
            resources,
            fences=authority.fences,
            whole=policy.whole_of(action, save),
            saved_beats_narrower_ask=self._saved_beats_narrower_ask,
        )

    def _authority(self, agent: str) -> Authority:
        return self._authority_of(agent) or policy.DENY_EVERYTHING

    async def _blocked(self, wish: Wish, *, reason: str | None = None) -> DeniedByRule:
        rules, fences = (found := self._authority(wish.agent)).rules, found.fences
        denied = [name for name in wish.resources if policy.evaluate(rules, wish.action, name, fences) == "deny"]
        applicable = policy.applicable(rules, await self.saved(), wish.action, fences)
        return DeniedByRule(wish.action, denied or wish.resources, applicable, reason=reason)

    # -- asking and answering ------------------------------------------------------------------------------------

    async def _wait_for_approval(self, wish: Wish) -> None:
        request = self._request(wish)
        try:
            if self.unattended != "wait":
                if await self._answer_unattended(request, wish) == "deny":
                    raise await self._blocked(wish, reason=NOBODY_TO_ASK)
                return
            answer = await self._requests.wait(request, self._asked(request, wish))
        except TooManyRequests as error:
            raise await self._blocked(wish, reason=TOO_MANY_WAIT) from error
        except Unreachable as error:
            raise DeniedByPerson(request.id) from error
        if answer.reply == "reject":
            raise DeniedWithFeedback(answer.message) if answer.message else DeniedByPerson(request.id)
        authority = self._authority(wish.agent)
        if policy.configured(authority.rules, wish.action, wish.resources, authority.fences) == "deny":
            raise await self._blocked(wish)

    async def _pending(self, session_id: str | None = None) -> tuple[PermissionRequest, ...]:
        return tuple(request for request, _ in await self._requests.pending(session_id))

    def _request(self, wish: Wish) -> PermissionRequest:
        return PermissionRequest(
            id=wish.id or self._ids.of("per"),
            session_id=wish.session_id,
            action=wish.action,
            resources=tuple(wish.resources),
            save=tuple(wish.save) or None,
            metadata=dict(wish.metadata) if wish.metadata is not None else None,
            source=wish.source,
        )

    def _asked(self, request: PermissionRequest, wish: Wish) -> PermissionAsked:
        return PermissionAsked(
            timestamp=self._clock.now(),
            session_id=request.session_id,
            request=request,
            agent=wish.agent,
            resumable=True if wish.source is not None and wish.source.message_id else None,
        )

    async def _answer_unattended(self, request: PermissionRequest, wish: Wish) -> Effect:
        """Recorded like a person's answer, so that it can be seen what was done in their name."""
        allow = self.unattended == "allow"
        reply: Reply = "once" if allow else "reject"
        replied = self._replied(request, reply, "policy", message=None if allow else NOBODY_TO_ASK)
        answer = PermissionAnswer(reply=reply, message=replied.message, cause=replied.cause)
        await self._requests.settle(request, self._asked(request, wish), replied, answer)
        return "allow" if allow else "deny"

    async def _reply(
        self, session_id: str, request_id: str, reply: Reply, message: str | None, save: Sequence[str] | None
    ) -> None:
        found = await self._requests.find(session_id, request_id)
        if found is None:
            raise PermissionNotFound(request_id)
        request = found.request
        patterns = _chosen(request, reply, save)
        replied = self._replied(request, reply, message=(message or "").strip() or None)
        before, local = self._saving(request.action, patterns)
        if not await self._requests.answer(request, replied, before=before, local=local):
            raise PermissionNotFound(request_id)
        if reply == "reject":
            await self._decline_others(session_id, replied.message)
        elif patterns:
            await self._release_covered()

    def _saving(self, action: str, patterns: Sequence[str]) -> tuple[Sequence[Statement], Sequence[Statement]]:
        """The project first: one that got its identity after its Sessions were made may not be stored yet."""
        if not patterns:
            return (), ()
        now, key = self._clock.now(), approval_key(self._project)
        if key.owner == NOBODY:
            log.warning("an approval holds only once: %s is not there any more", key.root)
            return (), ()
        project: dict[str, Value] = {
            "id": self._project.id,
            "worktree": str(self._project.listed_directory),
            "vcs": "git" if self._project.store else None,
            "time_created": now,
        }
        approvals: list[dict[str, Value]] = [
            {
                "id": self._ids.of("psv"),
                "project_id": self._project.id,
                "root": key.root,
                "owner": key.owner,
                "action": action,
                "resource": pattern,
                "timestamp": now,
            }
            for pattern in patterns
        ]
        return [Statement("project.ensure", project)], [Statement("permission.save", row) for row in approvals]

    async def _decline_others(self, session_id: str, message: str | None) -> None:
        """With the same words: what a person said to one of them is said to all, and the turn goes on."""
        for other, _ in await self._requests.pending(session_id):
            await self._requests.answer(other, self._replied(other, "reject", "sibling", message=message))

    async def _release_covered(self) -> None:
        """Whatever the saved approvals now allow, each judged under its own agent."""
        for other, agent in await self._requests.pending():
            if agent is not None and await self._evaluate(agent, other.action, other.resources, other.save) == "allow":
                await self._requests.answer(other, self._replied(other, "always", "saved"))

    def _replied(
        self,
        request: PermissionRequest,
        reply: Reply,
        cause: Literal["sibling", "saved", "policy"] | None = None,
        *,
        message: str | None = None,
    ) -> PermissionReplied:
        return PermissionReplied(
            timestamp=self._clock.now(),
            session_id=request.session_id,
            request_id=request.id,
            reply=reply,
            message=message,
            cause=cause,
        )


def _chosen(request: PermissionRequest, reply: Reply, save: Sequence[str] | None) -> tuple[str, ...]:
    offered = request.save or ()
    if save is None:
        # Nobody chose: more than what was shown is approved only by name.
        exact = tuple(pattern for pattern in offered if "*" not in pattern)
        return (exact or offered) if reply == "always" else ()
    chosen = tuple(dict.fromkeys(save))
    if strange := [pattern for pattern in chosen if reply != "always" or pattern not in offered]:
        raise InvalidSave(request.id, strange)
    return chosen


def _live_asked(request: PermissionRequest) -> PermissionAskedLive:
    return PermissionAskedLive(**{name: getattr(request, name) for name in PermissionRequest.__struct_fields__})


def _live_replied(request: PermissionRequest, answer: PermissionAnswer) -> PermissionRepliedLive:
    return PermissionRepliedLive(session_id=request.session_id, request_id=request.id, reply=answer.reply)


def _cut(request: PermissionRequest, now: int) -> PermissionReplied:
    return PermissionReplied(
        timestamp=now, session_id=request.session_id, request_id=request.id, reply="reject", cause="interrupted"
    )


_PERMISSION = Kind(
    name="permission",
    request=PermissionRequest,
    answer=PermissionAnswer,
    asked=_live_asked,
    answered=_live_replied,
    cut=_cut,
    gone=PermissionAnswer(reply="reject", cause="interrupted"),
    call=lambda request: (request.source.message_id, request.source.call_id) if request.source else None,
    same=lambda one, other: (one.action, one.resources) == (other.action, other.resources),
)
