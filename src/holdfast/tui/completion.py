"""What can complete the word before the cursor: after `@` files, references and agents, after a leading `/` commands.

Pure: the application asks the server for candidates and gives them to `Completion.offer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_SHOWN = 8
MOST_OFFERED = 50
QUERY_CHARACTERS = 200

Kind = Literal["mention", "command"]


class Trigger(NamedTuple):
    """A word that can be completed."""

    kind: Kind
    start: int
    """Where its text begins, behind `@` or `/`."""
    query: str


class Candidate(NamedTuple):
    text: str
    """What is inserted in place of the query."""
    detail: str = ""
    """What it is, such as `agent`, or what a command does."""
    opens: bool = False
    """A folder: after it the completion goes on."""


def trigger(text: str, cursor: int) -> Trigger | None:
    """The word before the cursor, if it can be completed."""
    before = text[:cursor]
    if before.startswith("/") and not any(character.isspace() for character in before):
        return Trigger("command", 1, before[1 : 1 + QUERY_CHARACTERS])
    start = before.rfind("@") + 1
    if not start or (start > 1 and not (before[start - 2].isspace() or before[start - 2] in "([{\"'")):
        return None
    query = before[start:]
    if any(character.isspace() for character in query) or len(query) > QUERY_CHARACTERS:
        return None
    return Trigger("mention", start, query)


def score(query: str, text: str) -> int | None:
    """How well a text has the letters in order, better at the start of words and side by side. None: it has not."""
    if not query:
        return 0
    wanted, found = query.casefold(), text.casefold()
    if (place := found.find(wanted)) >= 0:
        at_start = place == 0 or not found[place - 1].isalnum()
        name = found.rfind("/") + 1
        return 1000 - len(found) + (500 if at_start else 0) + (200 if place >= name else 0)
    total, place = 0, -1
    for letter in wanted:
        at = found.find(letter, place + 1)
        if at < 0:
            return None
        if at == place + 1:
            total += 5
        elif at == 0 or not found[at - 1].isalnum():
            total += 8
        place = at
    return total - len(found) // 8


def ranked(query: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that match, best first; equal ones stay in their order."""
    scored = [(found, one) for one in candidates if (found := score(query, one.text)) is not None]
    return [one for _, one in sorted(scored, key=lambda pair: -pair[0])][:MOST_OFFERED]


class Completion:
    """The open list of candidates."""

    def __init__(self) -> None:
        self.trigger: Trigger | None = None
        self.candidates: Sequence[Candidate] = ()
        self.selected = 0
        self._dismissed: tuple[Kind, int] | None = None

    @property
    def open(self) -> bool:
        return self.trigger is not None and bool(self.candidates)

    def follow(self, text: str, cursor: int) -> Trigger | None:
        """The text or the cursor has changed. Returns the trigger for which candidates are wanted, if it is new."""
        found = trigger(text, cursor)
        if found is None:
            self.trigger, self.candidates, self._dismissed = None, (), None
            return None
        if (found.kind, found.start) == self._dismissed:
            return None
        if found == self.trigger:
            return None
        if self.trigger is None or (found.kind, found.start) != self.trigger[:2]:
            self.candidates = ()
        self.trigger = found
        return found

    def offer(self, asked: Trigger, candidates: Sequence[Candidate]) -> bool:
        """Show the answer to `asked`, unless the person has typed on. Returns whether anything changed."""
        if asked != self.trigger:
            return False
        self.candidates = tuple(candidates[:MOST_OFFERED])
        self.selected = 0
        return True

    def move(self, by: int) -> None:
        if self.candidates:
            self.selected = (self.selected + by) % len(self.candidates)

    @property
    def is_typed(self) -> bool:
        """Whether the selected candidate is what was typed already."""
        return self.trigger is not None and self.candidates[self.selected].text == self.trigger.query

    def dismiss(self) -> None:
        """Close the list until another word is begun."""
        if self.trigger is not None:
            self._dismissed = (self.trigger.kind, self.trigger.start)
        self.trigger, self.candidates = None, ()

    def accept(self, text: str, cursor: int) -> tuple[str, int]:
        """The text with the selected candidate, and the place of the cursor."""
        assert self.trigger is not None
        chosen = self.candidates[self.selected]
        head = text[: self.trigger.start] + chosen.text
        tail = text[cursor:]
        if chosen.opens:
            self.trigger, self.candidates = None, ()
            return head + tail, len(head)
        if not tail.startswith((" ", "\n")):
            head += " "
        else:
            tail = tail[1:] if tail.startswith(" ") else tail
            head += " "
        self.trigger, self.candidates = None, ()
        return head + tail, len(head)

    def window(self, height: int) -> tuple[int, Sequence[Candidate]]:
        """The part of the list with the selected candidate that fits, and the place of its first."""
        height = max(1, min(height, MOST_SHOWN))
        first = max(0, min(self.selected - height // 2, len(self.candidates) - height))
        return first, self.candidates[first : first + height]
