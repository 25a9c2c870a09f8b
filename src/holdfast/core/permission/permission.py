"""Permissions of one Location: evaluates what an agent wants to do, and asks a person where the rules say so.

Invariants
- Rules and saved approvals are read at each evaluation. The caller names the agent, which does not change while the
  request waits. The agents of ancestors of the Session are those of the moment.
- An approval covers what was shown: one call, or patterns that the request offered. A configured deny overrides it,
  even if it was added while the request waited. The floor of a tool is approved for one call.
- No rule, project, plugin or tool lowers what the user denies or asks: these rules are fences (core/agent/configured).
- An unknown agent is denied everything."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.permission import rules as policy
from holdfast.core.permission.approvals import SavedApprovals
from holdfast.core.permission.errors import (
    NOBODY_ANSWERS,
    NOBODY_TO_ASK,
    TOO_MANY_WAIT,
    DeniedByPerson,
    DeniedByRule,
    DeniedWithFeedback,
    InvalidSave,
    PermissionNotFound,
    denied_above,
)
from holdfast.core.permission.requests import Requests, TooManyRequests, Unreachable
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import PermissionAskedLive, PermissionRepliedLive
from holdfast.schema.permission import PermissionRequest, Reply
from holdfast.schema.record import Record
from holdfast.schema.session_event import PermissionAsked, PermissionReplied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.database.unit import Statement
    from holdfast.core.permission.authority import Authorities
    from holdfast.core.permission.requests import RequestServices
    from holdfast.core.permission.rules import Authority
    from holdfast.core.project.project import Project
    from holdfast.schema.permission import Effect, PermissionSource

Unattended = Literal["wait", "deny", "allow"]
"""What happens to an `ask`: it waits for a person, or is answered at once because nobody will come."""

FLOOR = "approval"
"""The key in the metadata of a request that says that the tool itself demands an approval of each such call."""
EXACT_ONLY = "exact"
"""The key in the metadata of a request that says that no saved pattern covers it."""

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
    terms: policy.Terms = policy.ORDINARY
    source: PermissionSource | None = None
    owner: str | None = None
    """The process whose caller waits, where no tool call does."""
    id: str | None = None


class Asked(Frozen):
    id: str
    effect: Effect


class Permissions(Requests[PermissionRequest, PermissionAnswer]):
    kind = "permission"
    request_type = PermissionRequest
    answer_type = PermissionAnswer
    deleted = PermissionAnswer(reply="reject", cause="interrupted")
    saved_beats_narrower_ask = False
    """Whether a saved approval also covers what a narrower rule asks for."""

    def __init__(self, services: RequestServices, project: Project, authorities: Authorities) -> None:
        super().__init__(services)
        self.saved = SavedApprovals(services.database, services.ids, services.clock, project)
        self.authorities = authorities

    async def assert_allowed(self, wish: Wish) -> None:
        """Return when the call is allowed, however long a person takes to decide. Raises DeniedByRule,
        DeniedWithFeedback or DeniedByPerson."""
        effect = await self._effect(wish)
        if effect == "deny":
            raise await self._denied(wish)
        if effect == "ask":
            await self._wait_for_approval(wish)

    async def ask(self, wish: Wish) -> Asked:
        """Evaluate without waiting. Only the effect `ask` makes a request."""
        effect = await self._effect(wish)
        request = await self._request(wish)
        if effect != "ask":
            return Asked(request.id, effect)
        try:
            if self.unattended != "wait":
                return Asked(request.id, await self._answer_unattended(request, wish))
            await self.open(request, self._asked(request, wish))
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
        before: Sequence[Statement] = (),
    ) -> None:
        """Answer a request of this Location, whichever process made it. `save` selects offered patterns; without it,
        `always` saves those without a star, or all if each has one. `before` becomes part of the commit."""
        await self.detached(self._reply(session_id, request_id, reply, message, save, before))

    async def get(self, session_id: str, request_id: str) -> PermissionRequest:
        found = await self.find(session_id, request_id)
        if found is None:
            raise PermissionNotFound(request_id)
        return found.request

    # -- the kind of request -------------------------------------------------------------------------------------

    def live_request(self, request: PermissionRequest) -> PermissionAskedLive:
        return PermissionAskedLive(**{name: getattr(request, name) for name in PermissionRequest.__struct_fields__})

    def live_answer(self, request: PermissionRequest, answer: PermissionAnswer) -> PermissionRepliedLive:
        return PermissionRepliedLive(
            session_id=request.session_id, request_id=request.id, reply=answer.reply, ancestors=request.ancestors
        )

    def interrupted(self, request: PermissionRequest) -> PermissionReplied:
        return self._replied(request, "reject", "interrupted")

    def call_of(self, request: PermissionRequest) -> tuple[str, str] | None:
        return (request.source.message_id, request.source.call_id) if request.source else None

    def same(self, one: PermissionRequest, other: PermissionRequest) -> bool:
        return (one.action, one.resources) == (other.action, other.resources)

    # -- evaluation ----------------------------------------------------------------------------------------------

    async def _effect(self, wish: Wish) -> Effect:
        authority = await self._authority(wish)
        if not wish.resources:
            raise ValueError(f"{wish.action}: a permission needs at least one resource")
        return await self._evaluate(authority, wish.action, wish.resources, wish.save, wish.terms)

    async def _evaluate(
        self,
        authority: Authority,
        action: str,
        resources: Sequence[str],
        save: Sequence[str] | None,
        terms: policy.Terms = policy.ORDINARY,
    ) -> Effect:
        effect = policy.configured(authority.rules, action, resources, authority.fences, terms)
        if effect != "ask":
            return effect
        return policy.effective(
            authority.rules,
            await self.saved.here(),
            action,
            resources,
            fences=authority.fences,
            whole=policy.whole_of(action, save),
            terms=terms,
            saved_beats_narrower_ask=self.saved_beats_narrower_ask,
        )

    async def _authority(self, wish: Wish) -> Authority:
        return await self.authorities.of(wish.session_id, wish.agent)

    async def _denied(self, wish: Wish, *, reason: str | None = None) -> DeniedByRule:
        authority = await self._authority(wish)
        rules, fences = authority.rules, authority.fences
        named = (*wish.resources, *wish.terms.suspected)
        denied = [name for name in named if policy.evaluate(rules, wish.action, name, fences) == "deny"]
        applicable = policy.applicable(rules, await self.saved.here(), wish.action, fences)
        if reason is None and authority.above:
            ancestor = self.authorities.denying(wish.agent, authority, wish.action, wish.resources)
            reason = denied_above(ancestor) if ancestor is not None else None
        return DeniedByRule(wish.action, denied or wish.resources, applicable, reason=reason)

    # -- asking and answering ------------------------------------------------------------------------------------

    async def _wait_for_approval(self, wish: Wish) -> None:
        request = await self._request(wish)
        try:
            if self.unattended != "wait":
                if await self._answer_unattended(request, wish) == "deny":
                    raise await self._denied(wish, reason=NOBODY_TO_ASK)
                return
            if await self._would_hang(request, wish):
                log.warning("%s of Session %s was denied: %s", wish.action, wish.session_id, NOBODY_ANSWERS)
                await self._settle_by_policy(request, wish, "reject", NOBODY_ANSWERS)
                raise await self._denied(wish, reason=NOBODY_ANSWERS)
            answer = await self.wait(request, self._asked(request, wish))
        except TooManyRequests as error:
            raise await self._denied(wish, reason=TOO_MANY_WAIT) from error
        except Unreachable as error:
            raise DeniedByPerson(request.id) from error
        if answer.reply == "reject":
            raise DeniedWithFeedback(answer.message) if answer.message else DeniedByPerson(request.id)
        authority = await self._authority(wish)
        if policy.configured(authority.rules, wish.action, wish.resources, authority.fences, wish.terms) == "deny":
            raise await self._denied(wish)

    async def _request(self, wish: Wish) -> PermissionRequest:
        return PermissionRequest(
            id=wish.id or self._ids.of("per"),
            session_id=wish.session_id,
            action=wish.action,
            resources=tuple(wish.resources),
            save=tuple(wish.save) or None,
            metadata=_metadata(wish),
            source=wish.source,
            ancestors=await self.authorities.ancestors.ids(wish.session_id),
        )

    def _asked(self, request: PermissionRequest, wish: Wish) -> PermissionAsked:
        return PermissionAsked(
            timestamp=self._clock.now(),
            session_id=request.session_id,
            request=request,
            agent=wish.agent,
            resumable=True if wish.source is not None and wish.source.message_id else None,
            owner=wish.owner,
        )

    async def _answer_unattended(self, request: PermissionRequest, wish: Wish) -> Effect:
        """Recorded like a person's answer, so that people can see it later."""
        if self.unattended == "allow":
            await self._settle_by_policy(request, wish, "once")
            return "allow"
        await self._settle_by_policy(request, wish, "reject", NOBODY_TO_ASK)
        return "deny"

    async def _settle_by_policy(
        self, request: PermissionRequest, wish: Wish, reply: Reply, message: str | None = None
    ) -> None:
        replied = self._replied(request, reply, "policy", message=message)
        answer = PermissionAnswer(reply=reply, message=replied.message, cause=replied.cause)
        await self.settle(request, self._asked(request, wish), replied, answer)

    async def _would_hang(self, request: PermissionRequest, wish: Wish) -> bool:
        """Whether only a preset asks, which the program's author may not know of, and nobody would see the request. A
        rule that says `ask` was written by somebody who means to answer."""
        if self._attended is None or self._attended(request.session_id, request.ancestors or ()):
            return False
        authority, terms = await self._authority(wish), wish.terms.replace(reads=())
        effect = policy.configured(authority.rules, wish.action, wish.resources, authority.fences, terms)
        return effect == "allow" and await self._known(request, ()) is None

    async def _reply(
        self,
        session_id: str,
        request_id: str,
        reply: Reply,
        message: str | None,
        save: Sequence[str] | None,
        before: Sequence[Statement],
    ) -> None:
        found = await self.find(session_id, request_id)
        if found is None:
            raise PermissionNotFound(request_id)
        request = found.request
        patterns = _chosen(request, reply, save)
        replied = self._replied(request, reply, message=(message or "").strip() or None)
        known, local = self.saved.saving(request.action, patterns)
        if not await self.answer(request, replied, before=(*before, *known), local=local):
            raise PermissionNotFound(request_id)
        if reply == "reject":
            await self._deny_others(request.session_id, replied.message)
        elif patterns:
            await self._release_covered()

    async def _deny_others(self, session_id: str, message: str | None) -> None:
        """Deny the Session's other requests with the same message."""
        for other in await self.for_session(session_id):
            await self.answer(other, self._replied(other, "reject", "sibling", message=message))

    async def _release_covered(self) -> None:
        """Allow the requests that saved approvals now cover, each under the rules of its own agent."""
        for one in await self.pending():
            other, agent = one.request, one.agent
            if agent is None:
                continue
            with suppress(SessionNotFound):  # deleted meanwhile
                authority = await self.authorities.of(other.session_id, agent)
                if await self._evaluate(authority, other.action, other.resources, other.save, _terms(other)) == "allow":
                    await self.answer(other, self._replied(other, "always", "saved"))

    def _replied(
        self,
        request: PermissionRequest,
        reply: Reply,
        cause: Literal["sibling", "saved", "policy", "interrupted"] | None = None,
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


def _metadata(wish: Wish) -> dict[str, Any] | None:
    marks = {FLOOR: wish.terms.floor, EXACT_ONLY: wish.terms.exact_only}
    metadata = {**(wish.metadata or {}), **{name: True for name, holds in marks.items() if holds}}
    return metadata or None


def _terms(request: PermissionRequest) -> policy.Terms:
    """The terms of a request that decide whether saved approvals cover it."""
    metadata = request.metadata or {}
    return policy.Terms(floor=metadata.get(FLOOR) is True, exact_only=metadata.get(EXACT_ONLY) is True)


def _chosen(request: PermissionRequest, reply: Reply, save: Sequence[str] | None) -> tuple[str, ...]:
    offered = request.save or ()
    if save is None:
        # Without a selection, no pattern wider than what was shown is approved.
        exact = tuple(pattern for pattern in offered if "*" not in pattern)
        return (exact or offered) if reply == "always" else ()
    chosen = tuple(dict.fromkeys(save))
    if strange := [pattern for pattern in chosen if reply != "always" or pattern not in offered]:
        raise InvalidSave(request.id, strange)
    return chosen
