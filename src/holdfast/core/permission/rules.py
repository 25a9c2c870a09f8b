"""Evaluates rules. In one list the last rule that matches decides; if none matches, a person is asked, or what the call
itself says happens.

A fence is a further list that can only narrow what the rules allow: where none of its rules matches it has no say, and
of the rules and all fences the strictest verdict counts. So nobody lifts a denial of the user, whoever speaks later."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from holdfast.core.permission.wildcard import has_wildcard, matches
from holdfast.schema.frozen import Frozen
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.schema.permission import Effect, SavedApproval

    Fences: TypeAlias = Sequence[Sequence[Rule]]

WHOLE_ACTIONS = frozenset({"bash"})
"""Actions whose first pattern to save stands for the request as a whole, not for one of its resources. What is saved of
them without a wildcard is such a whole."""
HOME_ACTIONS = frozenset({"external_directory", "read", "edit"})
"""Actions whose resources are paths. Elsewhere, as in a shell command, `~` is just text."""


class Authority(Frozen):
    """What an agent may do."""

    rules: tuple[Rule, ...]
    fences: tuple[tuple[Rule, ...], ...] = ()
    """With what `above` adds to them."""
    above: tuple[AncestorAuthority, ...] = ()


class AncestorAuthority(Frozen):
    """What an agent of an ancestor of the Session may do."""

    session_id: str
    agent: str | None
    """None is the default agent."""
    authority: Authority
    missing: Literal["agent", "session"] | None = None
    """What does not exist any more; then everything is denied."""


class Terms(Frozen):
    """Facts about a call, besides its action and resources, that decide how rules apply to it."""

    unmatched: Effect = "ask"
    """The verdict where no rule of an agent matches."""
    suspected: tuple[str, ...] = ()
    """Resources that the call may have besides those it shows, as a guess: rules that deny one of them count, and rules
    that ask for it by more than `*`."""
    exact_only: bool = False
    """Whether only a saved approval of the whole call counts, and no pattern."""
    floor: bool = False
    """Whether the tool itself demands approval of this call: no rule and no saved approval lowers that."""
    reads: tuple[str, ...] | None = None
    """The files that the call names, if it is proved that it changes nothing. Then `ask-changes` allows it, unless the
    rules about `read` ask for one of the files or deny it."""


ORDINARY = Terms()
UNMATCHED = Rule(action="*", resource="*", effect="ask")
"""The first rule of a fence made of another agent's rules: where none of them matches, that agent would have to ask.
Compared by identity, since a user may write the same rule and mean it."""
DENY_EVERYTHING = Authority((Rule(action="*", resource="*", effect="deny"),))


def evaluate(rules: Sequence[Rule], action: str, resource: str, fences: Fences = (), terms: Terms = ORDINARY) -> Effect:
    met = _deciding_all(rules, action, resource, fences)
    if len(met) == 1 and terms is ORDINARY:
        return _verdict(met[0], terms)
    terms = _checked(terms, rules, fences)
    return strictest((*(_verdict(rule, terms) for rule in met), *(("ask",) if terms.floor else ())))


def _deciding_all(rules: Sequence[Rule], action: str, resource: str, fences: Fences) -> list[Rule | None]:
    """The rule of the list, if any, and those of the fences that have a say."""
    narrowing = (deciding(fence, action, resource) for fence in fences)
    return [deciding(rules, action, resource), *(rule for rule in narrowing if rule is not None)]


def _checked(terms: Terms, rules: Sequence[Rule], fences: Fences) -> Terms:
    """Without the proof that nothing changes, if a file that the call names may not be read unasked."""
    if not terms.reads or configured(rules, "read", terms.reads, fences) == "allow":
        return terms
    return terms.replace(reads=None)


def _verdict(rule: Rule | None, terms: Terms) -> Effect:
    if rule is None or rule is UNMATCHED:
        return terms.unmatched
    if rule.effect == "ask-changes":
        return "ask" if terms.reads is None else "allow"
    return rule.effect


def strictest(effects: Iterable[Effect]) -> Effect:
    found = set(effects)
    return "deny" if "deny" in found else "ask" if "ask" in found else "allow"


def deciding(rules: Sequence[Rule], action: str, resource: str) -> Rule | None:
    """The rule that decides, if any matches."""
    for rule in reversed(rules):
        if matches(rule.action, action) and matches(rule.resource, resource):
            return rule
    return None


def configured(
    rules: Sequence[Rule], action: str, resources: Sequence[str], fences: Fences = (), terms: Terms = ORDINARY
) -> Effect:
    """What rules and fences alone say of all resources together: the strictest."""
    effects = {evaluate(rules, action, resource, fences, terms) for resource in resources}
    return strictest((*effects, *(_suspicion(rules, action, resource, fences) for resource in terms.suspected)))


def _suspicion(rules: Sequence[Rule], action: str, resource: str, fences: Fences) -> Effect:
    """What rules say of a resource that a call may have. A rule for everything says nothing of a guess."""
    met = _deciding_all(rules, action, resource, fences)
    effects: set[Effect] = {_verdict(rule, ORDINARY) for rule in met if rule is not None and rule.resource != "*"}
    return strictest(effects)


def effective(
    rules: Sequence[Rule],
    saved: Sequence[SavedApproval],
    action: str,
    resources: Sequence[str],
    *,
    fences: Fences = (),
    whole: str | None = None,
    terms: Terms = ORDINARY,
    saved_beats_narrower_ask: bool = False,
) -> Effect:
    """What the rules, their fences and a person's saved approvals say of all resources together. `whole` is the
    approval that covers them all; it must be the very same text, not a pattern that matches it.

    An approval turns `ask` into `allow` and never touches a configured `deny`. Nor does it touch a rule that asks for
    something narrower than what was approved, unless told to: approving `*` was not meant for `*.env`. It does not
    lower the floor of a tool, which may have other reasons for this call than for the one that was approved."""
    effect = configured(rules, action, resources, fences, terms)
    if effect != "ask" or terms.floor:
        return effect
    if whole is not None and any(matches(one.action, action) and one.resource == whole for one in saved):
        return "allow"
    terms = _checked(terms, rules, fences)
    if terms.exact_only or any(_suspicion(rules, action, one, fences) == "ask" for one in terms.suspected):
        return "ask"
    patterns = saved if action not in WHOLE_ACTIONS else [one for one in saved if has_wildcard(one.resource)]
    for resource in resources:
        for rule in _deciding_all(rules, action, resource, fences):
            if _verdict(rule, terms) != "ask":
                continue
            asks_for = None if rule is None or saved_beats_narrower_ask else rule.resource
            if not any(_covers(approval, action, resource, asks_for) for approval in patterns):
                return "ask"
    return "allow"


def whole_of(action: str, save: Sequence[str] | None) -> str | None:
    """The pattern that covers a request as a whole, if there is one."""
    return save[0] if save and action in WHOLE_ACTIONS else None


def applicable(
    rules: Iterable[Rule], saved: Iterable[SavedApproval], action: str, fences: Fences = ()
) -> tuple[Rule, ...]:
    """All rules about this action, saved approvals last."""
    approvals = (Rule(action=item.action, resource=item.resource, effect="allow") for item in saved)
    return tuple(rule for rule in (*rules, *chain.from_iterable(fences), *approvals) if matches(rule.action, action))


def wholly_denied(rules: Sequence[Rule], action: str, fences: Fences = ()) -> bool:
    """Whether nothing could ever be allowed: the last rule of a list about this action denies exactly everything."""
    return any(_ends_in_denial(found, action) for found in (rules, *fences))


def _ends_in_denial(rules: Sequence[Rule], action: str) -> bool:
    for rule in reversed(rules):
        if matches(rule.action, action):
            return rule.resource == "*" and rule.effect == "deny"
    return False


def expand_home(rule: Rule, home: str) -> Rule:
    """A configured rule about paths, with `~` or `$HOME` at its front spelled out."""
    if rule.action not in HOME_ACTIONS:
        return rule
    for name, separators in (("~", "/"), ("$HOME", "/\\")):
        rest = rule.resource.removeprefix(name)
        if rest != rule.resource and (not rest or rest[0] in separators):
            return msgspec.structs.replace(rule, resource=home + rest)
    return rule


def _covers(approval: SavedApproval, action: str, resource: str, asks_for: str | None) -> bool:
    if not (matches(approval.action, action) and matches(approval.resource, resource)):
        return False
    return asks_for is None or not _narrower(asks_for, approval.resource)


def _narrower(pattern: str, than: str) -> bool:
    """A star takes a star along, so a pattern that matches another one's text matches all that the other does. Where
    `?` meets `*` this may say yes too often; then a person is asked once more."""
    return pattern != than and matches(than, pattern)
