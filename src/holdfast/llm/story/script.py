"""The words of the story: the prompts of the person, and what the model does about each, turn by turn."""

from __future__ import annotations

from typing import Any

from holdfast.llm.offline import Call, Turn

FIX = "Splitting 10.00 between three people gives 9.99 in total. Find out why, and fix it."
KEEP_SIGNATURE = "Keep the signature of `split`: the shop calls it."
ADD_TEST = "When that works, add a test for a bill of one cent."
LOOK_ELSEWHERE = "Does anything else here lose cents? Let a subagent look."
SEARCH = "Find every place in this project that divides or rounds an amount. Say for each whether cents can get lost."
RELEASE_NOTE = "Explain the fix in one sentence, for the release notes."
WEIGHTS = "How would you split a bill by weights, for people who had more? Only describe it."
CHANGELOG = "Good. Add the fix to CHANGELOG.md."
FRACTIONS = "Would it be simpler with Python's fractions?"
DECIMALS = "Try amounts as Decimal instead of cents."
RELEASE = "Prepare release 1.1: let a subagent tag it."
TAG = "Create the git tag v1.1 on the newest commit."
CURRENCY = "Receipts should show a currency."
DOCUMENT = "Write a longer README for people who have never seen this package."

SLOW = 0.015
"""Seconds between two words of the answers in whose middle a process is killed."""

TODOS = ("Read the code and its tests", "See the error happen", "Fix `split`", "Run the tests again")

READ_FIRST = Turn(
    reasoning="The amounts are in cents, so 10.00 is 1000. 1000 divided by 3 is 333, remainder 1. Three times 333 is "
    "999: exactly one cent is missing. I suspect an integer division, but I read the code before I believe that.",
    text="I read the code and its tests before I change anything.",
)

ASK_WHO_PAYS = Turn(
    text="`1000 // 3` is 333, and the remainder of one cent belongs to nobody. It has to go to somebody, and the code "
    "does not say to whom.",
)

EXPLAINED = """\
The cent is back. `split` divided and dropped the remainder; now the remainder is handed out, one cent each, to the \
first people.

| bill | people | before | now |
| ---: | ---: | --- | --- |
| 10.00 | 3 | 3.33, 3.33, 3.33 | **3.34**, 3.33, 3.33 |
| 0.05 | 2 | 0.02, 0.02 | **0.03**, 0.02 |

```python
share, left = divmod(total, people)
return [share + 1] * left + [share] * (people - left)
```

The signature is the same, so the shop needs no change. All tests pass."""

SEARCHED = """\
Two places divide or round an amount:

- `bill/split.py`: `divmod`, and the remainder is handed out. Nothing gets lost.
- `bill/receipt.py`, `with_tip`: `round(total * percent / 100)`. The tip is rounded once and added to the total as a \
whole number of cents. Nothing gets lost."""

BY_WEIGHTS = """\
Give each person a weight, and hand out the cents by the method of largest remainders. First, every person gets the \
whole cents of the exact share, which is the total times the weight divided by the sum of all weights. That leaves \
fewer cents than there are people. Then the people with the largest remainders get one cent more each, until none is \
left. The sum is the total again, whatever the weights are, and nobody is more than one cent away from the exact \
share. Ties go to whoever comes first, as in `split`."""

LONGER_README = """\
The package answers one question: who pays how much? It has two functions. The first one, `split`, divides an amount \
between people and never loses a cent on the way. The second one, `with_tip`, adds a tip to an amount. Amounts are \
whole numbers of cents everywhere, because binary fractions cannot hold most amounts exactly, and nobody wants to \
explain to a guest why ten divided by three is not ten any more. A receipt lists the share of each guest on a line \
of its own, and below them the total, which is the sum of exactly these lines."""

NOTES_TEXT = """\
## Objective
Bills that are split between people must add up to the total again.

## Important Details
- Amounts are whole numbers of cents.
- The cents that remain go to the first people: the person decided this.
- The signature of `split` stays, because the shop calls it.

## Work State
### Completed
- `bill/split.py` hands out the remainder; tests for it and for a bill of one cent pass.
- `bill/receipt.py` was searched: it loses nothing.
### Active
- none
### Blocked
- none

## Next Move
1. Add the fix to CHANGELOG.md.

## Relevant Files
- bill/split.py
- tests/test_split.py"""

NOTES = Turn(text=NOTES_TEXT)
STRANGER = Turn(
    text="I only know the story of `holdfast demo`, and it does not go on from here. `holdfast auth login PROVIDER` "
    "connects a real model, and the model of this Session can be changed at any time.",
)


def _calls(turn: Turn, *calls: Call) -> Turn:
    return Turn(text=turn.text, reasoning=turn.reasoning, calls=calls)


def _call(tool: str, **input: Any) -> Call:
    return Call(tool=tool, input=input)


def _todos(done: int, active: bool = True) -> Call:
    states = ["completed"] * done + ["in_progress"] * active + ["pending"] * len(TODOS)
    todos = zip(TODOS, states, strict=False)
    return _call("todowrite", todos=[{"content": it, "status": state, "priority": "high"} for it, state in todos])


def _question(question: str, header: str, *options: tuple[str, str]) -> Call:
    offered = [{"label": label, "description": description} for label, description in options]
    return _call("question", questions=[{"question": question, "header": header, "options": offered}])


def _edit(path: str, old: str, new: str) -> Call:
    return _call("edit", path=path, oldString=old, newString=new)


RUN_TESTS = _call("bash", command="./run-tests")
DIVIDES = "    share = total // people\n    return [share] * people\n"
HANDS_OUT = "    share, left = divmod(total, people)\n    return [share + 1] * left + [share] * (people - left)\n"
LAST_TEST = "        self.assertEqual(sum(split(1000, 3)), 1000)\n"
ONE_CENT = (
    LAST_TEST + "\n    def test_one_cent_is_paid_by_one_person(self) -> None:\n"
    "        self.assertEqual(split(1, 2), [1, 0])\n"
)

REPLIES: dict[str, tuple[Turn, ...]] = {
    FIX: (
        _calls(
            READ_FIRST,
            _todos(0),
            _call("read", path="bill/split.py"),
            _call("grep", pattern=r"split\(", include="*.py"),
        ),
        Turn(
            reasoning="`total // people` drops the remainder, as I thought. A test for it must fail now.",
            calls=(_todos(1), RUN_TESTS),
        ),
        _calls(
            ASK_WHO_PAYS,
            _question(
                "Who pays the cents that remain?",
                "Remaining cents",
                ("The first people", "One cent more for each of the first ones, until none is left"),
                ("The last person", "All of them at the end of the list"),
            ),
        ),
        Turn(
            text="Then the first people pay one cent more each.",
            calls=(_edit("bill/split.py", DIVIDES, HANDS_OUT), _todos(3)),
        ),
        Turn(calls=(RUN_TESTS,)),
        Turn(calls=(_todos(len(TODOS), active=False),)),
        Turn(text=EXPLAINED),
    ),
    ADD_TEST: (
        Turn(
            text="One cent between two people: one of them pays it.",
            calls=(_edit("tests/test_split.py", LAST_TEST, ONE_CENT),),
        ),
        Turn(calls=(RUN_TESTS,)),
        Turn(text="The test is there, and all of them pass."),
    ),
    LOOK_ELSEWHERE: (
        Turn(
            text="I let a subagent search, so that its reading does not fill this conversation.",
            calls=(
                _call(
                    "subagent",
                    agent="explore",
                    description="look for lost cents",
                    prompt=SEARCH,
                    model="demo/story-mini",
                ),
            ),
        ),
        Turn(text="No. Only `split` lost cents. The tip in `bill/receipt.py` is rounded once, which is right."),
    ),
    SEARCH: (
        Turn(
            reasoning="I search for divisions and for `round`, then I read what I find.",
            calls=(
                _call("grep", pattern=r"//|round\(|divmod\(", include="*.py"),
                _call("read", path="bill/receipt.py"),
            ),
        ),
        Turn(text=SEARCHED),
    ),
    RELEASE_NOTE: (
        Turn(text="Shares of a bill now add up to the total: cents that remain are paid by the first people."),
    ),
    WEIGHTS: (Turn(text=BY_WEIGHTS, pace=SLOW),),
    CHANGELOG: (
        Turn(
            text="The project asks before this file is edited. You see the change before it is made.",
            calls=(
                _edit(
                    "CHANGELOG.md",
                    "## Unreleased\n",
                    "## Unreleased\n\n- Fixed: shares add up to the bill. The first people pay what remains.\n",
                ),
            ),
        ),
        Turn(text="The fix is in the changelog. Nothing else is left to do."),
    ),
    FRACTIONS: (
        Turn(
            text="No. `Fraction(1000, 3)` is exact, but in the end people pay whole cents, and the same question comes "
            "back: who pays the one that remains? Whole cents and `divmod` say it directly.",
        ),
    ),
    DECIMALS: (
        Turn(
            text="I change the type first.",
            calls=(
                _edit(
                    "bill/receipt.py", "total: int, percent: int) -> int", "total: Decimal, percent: int) -> Decimal"
                ),
            ),
        ),
        Turn(text="That would also change what the shop gets. I would rather go back to cents."),
    ),
    RELEASE: (
        Turn(
            text="A subagent makes the tag.",
            calls=(
                _call("subagent", agent="general", description="tag the release", prompt=TAG, model="demo/story-mini"),
            ),
        ),
        Turn(text="The release is tagged."),
    ),
    TAG: (
        Turn(text="The project asks before a tag is made.", calls=(_call("bash", command="git tag v1.1"),)),
        Turn(text="The tag v1.1 is on the newest commit."),
    ),
    CURRENCY: (
        Turn(
            text="One thing decides how this is built.",
            calls=(
                _question(
                    "Can one bill have several currencies?",
                    "Currencies",
                    ("No", "A bill has one currency; a receipt prints it once"),
                    ("Yes", "Every amount carries its currency"),
                ),
            ),
        ),
        Turn(text="Understood. I would begin with `bill/receipt.py`."),
    ),
    DOCUMENT: (Turn(text=LONGER_README, pace=SLOW),),
}
"""The turns that follow a prompt, in order."""

REFUSED = frozenset({LOOK_ELSEWHERE})
"""The first request for these prompts is refused, because the provider is busy."""
