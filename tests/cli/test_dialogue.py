"""What counts as an answer, without a process around it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.cli.dialogue import Decision, answer, decide
from holdfast.cli.terminal import Terminal
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import Question, QuestionOption

pytestmark = pytest.mark.anyio


class Typed(Terminal):
    """A person who has decided beforehand; at the end of the lines the input ends."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.said: list[str] = []

    def say(self, text: str = "") -> None:
        self.said.append(text)

    async def ask(self, prompt: str) -> str | None:
        return self._lines.pop(0) if self._lines else None

    def discard_typed(self) -> None:
        pass


def request(*save: str, resource: str = "git push") -> PermissionRequest:
    return PermissionRequest(id="per_1", session_id="ses_1", action="bash", resources=(resource,), save=save or None)


@pytest.mark.parametrize(
    ("save", "lines", "decision"),
    [
        (("git push", "git *"), ["y"], Decision("once")),
        (("git push", "git *"), ["YES"], Decision("once")),
        (("git push", "git *"), ["a"], Decision("always")),
        (("git push", "git *"), ["a1"], Decision("always", save=("git push",))),
        (("git push", "git *"), ["a2"], Decision("always", save=("git *",))),
        (("git push", "git *"), ["a3", "a0", "a-1", "aa", "n"], Decision("reject")),
        (("git push",), ["n  not now "], Decision("reject", "not now")),
        ((), ["a", "always", "y"], Decision("once")),
        ((), [], Decision("reject")),
        ((), ["", "ok", "yes please", "1"], Decision("reject")),
    ],
)
async def test_an_unclear_reply_is_asked_again_and_the_end_of_input_is_a_no(
    save: tuple[str, ...], lines: list[str], decision: Decision
) -> None:
    """TOL-354: what is unclear is asked again, and the end of input is a no."""
    assert await decide(Typed(*lines), request(*save)) == decision


async def test_patterns_are_offered_as_they_are() -> None:
    """Nothing can be approved for good that the request does not offer."""
    with_patterns, without = Typed("y"), Typed("y")
    await decide(with_patterns, request("git push", "git *"))
    await decide(without, request())

    assert any("always allow git *" in line for line in with_patterns.said)
    assert not any("always" in line for line in without.said)


async def test_a_long_request_is_cut_and_says_so() -> None:
    """The choices stay in sight."""
    person = Typed("n")
    await decide(person, request(resource="\n".join(f"line {number}" for number in range(1000))))

    assert len(person.said) < 60
    assert any("960 more lines" in line for line in person.said)


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"plugin": "p", "tool": "t", "input": '{"a": 1}'}, ["the tool bash of the plugin p", '{"a": 1}']),
        ({"server": "s", "tool": "t", "input": '{"a": 1}'}, ["the tool bash of the MCP server s", '{"a": 1}']),
        ({"server": "s", "resource": "note://\u202eone"}, ["a resource of the MCP server s", "note://\\u202eone"]),
        (
            {"server": "s", "maxTokens": 5, "asks": "user: Hello\nthere"},
            ["of at most 5 tokens", "user: Hello", "there"],
        ),
        ({"server": "s"}, ["permission to bash", "git push"]),
    ],
)
async def test_what_a_stranger_wants_is_shown(metadata: dict[str, object], shown: list[str]) -> None:
    """MCP-291, MCP-310, TOL-411: the arguments, the address, or what the model is asked."""
    person = Typed("y")
    await decide(person, replace(request(), metadata=metadata))
    for text, line in zip(shown, person.said, strict=False):
        assert text in line


def question(*, multiple: bool | None = None, custom: bool | None = None) -> Question:
    options = tuple(QuestionOption(label=label, description="") for label in ("Red", "Deep blue"))
    return Question(question="Which?", header="Colour", options=options, multiple=multiple, custom=custom)


@pytest.mark.parametrize(
    ("asked", "lines", "answered"),
    [
        (question(), ["1"], ("Red",)),
        (question(), ["deep blue"], ("Deep blue",)),
        (question(), ["7"], ("7",)),
        (question(), ["red, or so"], ("red, or so",)),
        (question(), ["", "2"], ("Deep blue",)),
        (question(multiple=True), ["2, 1, 2"], ("Deep blue", "Red")),
        (question(multiple=True), ["red, deep blue"], ("Red", "Deep blue")),
        (question(multiple=True), ["red, or so"], ("red, or so",)),
        (question(custom=False), ["green", "3", "1,2", "", "2"], ("Deep blue",)),
        (question(custom=False, multiple=True), ["1,3", "1,2"], ("Red", "Deep blue")),
    ],
)
async def test_a_question_takes_what_it_offers(asked: Question, lines: list[str], answered: tuple[str, ...]) -> None:
    """By number or name; in other words only where it says so."""
    assert await answer(Typed(*lines), [asked]) == (answered,)


async def test_the_end_of_input_dismisses_all_questions() -> None:
    """An answer to the first alone is none."""
    assert await answer(Typed("1"), [question(), question()]) is None
