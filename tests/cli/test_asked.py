"""What `holdfast run` is asked while it works: by a person at a terminal, or with nobody there."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, Server, finish, frame

from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolError, ToolPart, UserMessage

SCRIPTED = ("run", "--model", "demo/scripted", "go")
TOUCH = {"tool": "bash", "input": {"command": "touch made.txt", "description": "make a file"}}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a rose"},
        {"label": "Blue", "description": "like the sea"},
    ],
}


@pytest.fixture
def asking(holdfast: Machine) -> Machine:
    """The model wants to run a command, for which the configuration asks; then it is content."""
    holdfast.configure(permission={"bash": "ask"})
    holdfast.script({"text": "I try.", "calls": [TOUCH]}, {"text": "Good."})
    return holdfast


def settlement(machine: Machine, session_id: str) -> ToolCompleted | ToolError:
    """Of the one tool call."""
    _, messages = machine.look(session_id)
    calls = [
        part
        for message in messages
        if isinstance(message, AssistantMessage)
        for part in message.content
        if isinstance(part, ToolPart)
    ]
    assert len(calls) == 1
    state = calls[0].state
    assert isinstance(state, ToolCompleted | ToolError)
    return state


# -- permissions -------------------------------------------------------------------------------------------------


def test_without_a_terminal_a_request_is_denied_at_once(asking: Machine) -> None:
    """TOL-354, CLI-020: with a reason that the model and the person can read, and an exit code of its own."""
    ran = asking(*SCRIPTED)
    denied = settlement(asking, ran.session)

    assert (ran.code, ran.out) == (4, "I try.\nGood.\n")
    assert not (asking.project / "made.txt").exists()
    assert isinstance(denied, ToolError)
    assert "nobody" in denied.error.message
    assert denied.error.message in ran.err


def test_without_a_terminal_everything_can_be_allowed(asking: Machine) -> None:
    """TOL-354: a policy that answers otherwise is explicit."""
    ran = asking(*SCRIPTED, "--yes")

    assert (ran.code, ran.out) == (0, "I try.\nGood.\n")
    assert (asking.project / "made.txt").exists()


@pytest.mark.parametrize(("more", "made"), [((), False), (("--yes",), True)])
def test_through_a_server_it_is_the_same(
    asking: Machine, serve: Callable[..., Server], more: tuple[str, ...], made: bool
) -> None:
    """TOL-354: the server would wait; the run, which nobody can answer, does not."""
    url = serve("--no-auth").url
    ran = asking(*SCRIPTED, "--attach", url, *more)

    assert (ran.code, ran.out) == (0 if made else 4, "I try.\nGood.\n")
    assert (asking.project / "made.txt").exists() == made
    assert ("terminal" in ran.err) != made


def test_a_person_allows_it_once(asking: Machine) -> None:
    """Only this call: the next run asks again."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("permission to bash")
    person.wait_for("touch made.txt")
    person.wait_for("your answer:")
    assert not (asking.project / "made.txt").exists()
    person.type("y\n")
    ran = person.leave()

    assert (ran.code, ran.out) == (0, "I try.\nGood.\n")
    assert (asking.project / "made.txt").exists()
    assert "another client" not in ran.err
    assert "nobody" in asking(*SCRIPTED).err


def test_a_person_allows_one_of_the_patterns_for_good(asking: Machine) -> None:
    """The one that was chosen, among those that were offered."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("a2        always allow touch *")
    person.wait_for("your answer:")
    person.type("a2\n")
    assert person.leave().code == 0
    asking.script({"calls": [{"tool": "bash", "input": {"command": "touch other.txt", "description": "again"}}]})

    assert asking(*SCRIPTED).code == 0
    assert (asking.project / "other.txt").exists()


def test_a_person_says_no_and_why(asking: Machine) -> None:
    """CLI-020: the model reads it and goes on; the exit code says that something was denied."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.type("n write it by hand\n")
    ran = person.leave()
    rejected = settlement(asking, ran.session)

    assert (ran.code, ran.out) == (4, "I try.\nGood.\n")
    assert isinstance(rejected, ToolError)
    assert "write it by hand" in rejected.error.message
    assert not (asking.project / "made.txt").exists()


@pytest.mark.parametrize("typed", ["n\n", "\x04"])
def test_a_declined_request_stops_the_turn(asking: Machine, typed: str) -> None:
    """CLI-020: the turn stops there; so does the end of input, which is no consent."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.type(typed)
    ran = person.leave()

    assert (ran.code, ran.out) == (4, "I try.\n")
    assert "Permission denied: bash touch made.txt" in ran.complaint
    assert not (asking.project / "made.txt").exists()
    assert asking.healthy()


@pytest.mark.parametrize("typed", ["maybe\n", "\n"])
def test_an_unclear_answer_is_asked_again(asking: Machine, typed: str) -> None:
    """Nothing counts as consent but consent."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.type(typed)
    person.wait_for("is not a choice. Please enter one of: y, a, a1, a2, n, n REASON")
    person.wait_for("your answer:")
    person.type("n\n")
    person.leave()

    assert not (asking.project / "made.txt").exists()


def test_keys_typed_before_a_question_do_not_answer_it(holdfast: Machine, provider: Provider) -> None:
    """A key pressed while the model was busy must not approve what it asks for next."""
    arguments = '{"command": "touch made.txt", "description": "make a file"}'
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}}

    def call_later(handler: Any) -> None:
        provider.released.wait(10)
        Provider.head(handler)
        handler.wfile.write(frame({"tool_calls": [call]}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    provider.behave = call_later
    holdfast.use_provider(provider.url)
    holdfast.configure(permission={"bash": "ask"})
    person = holdfast.at_terminal("run", "go")
    assert provider.asked.acquire(timeout=PATIENCE)
    person.type("y\n")
    provider.released.set()
    person.wait_for("your answer:")
    person.type("n\n")

    assert person.leave().code == 4
    assert not (holdfast.project / "made.txt").exists()


def test_a_command_cannot_draw_on_the_terminal(holdfast: Machine) -> None:
    """Escape sequences in what is asked for are shown, not obeyed."""
    evil = "touch made.txt #\x1b[2K\x1b[1Aecho harmless\u202e"
    holdfast.configure(permission={"bash": "ask"})
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": evil, "description": "x"}}]})
    person = holdfast.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.type("n\n")
    ran = person.leave()

    assert "\\u001b[2K" in ran.err
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err


def test_with_yes_a_person_is_not_asked(asking: Machine) -> None:
    """Not even at a terminal."""
    ran = asking.at_terminal(*SCRIPTED, "--yes").leave()

    assert (ran.code, ran.out) == (0, "I try.\nGood.\n")
    assert "your answer" not in ran.err
    assert (asking.project / "made.txt").exists()


def test_two_requests_are_asked_one_after_the_other(holdfast: Machine) -> None:
    """Each gets its own answer."""
    holdfast.configure(permission={"bash": "ask"})
    calls = [{"tool": "bash", "input": {"command": f"touch {name}", "description": name}} for name in ("one", "two")]
    holdfast.script({"calls": calls}, {"text": "Good."})
    person = holdfast.at_terminal(*SCRIPTED)
    for _ in range(2):
        person.wait_for("your answer:")
        person.type("y\n")
    ran = person.leave()

    assert (ran.code, ran.out) == (0, "Good.\n")
    assert (holdfast.project / "one").exists()
    assert (holdfast.project / "two").exists()


def test_an_answer_from_elsewhere_ends_the_question(asking: Machine, serve: Callable[..., Server]) -> None:
    """Whoever answers first; the terminal gives up its question."""
    url = serve("--no-auth").url
    person = asking.at_terminal(*SCRIPTED, "--attach", url)
    person.wait_for("session ")
    person.wait_for("your answer:")
    with httpx2.Client(base_url=f"{url}/api") as client:
        waiting = client.get("/permission/request").json()["data"][0]
        path = f"/session/{waiting['sessionID']}/permission/{waiting['id']}/reply"
        assert client.post(path, json={"reply": "once"}).status_code == 204
    ran = person.leave()

    assert (ran.code, ran.out) == (0, "I try.\nGood.\n")
    assert "another client has answered" in ran.err
    assert (asking.project / "made.txt").exists()


def test_interrupting_a_question_ends_the_run(asking: Machine) -> None:
    """Exit code 130, nothing is done, and the session goes on later."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.process.send_signal(signal.SIGINT)
    ran = person.leave()

    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert not (asking.project / "made.txt").exists()
    assert asking.healthy()
    assert asking("run", "--session", ran.session, "more").code == 0


# -- questions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "typed", "answered"),
    [
        ({}, "2\n", ["Blue"]),
        ({}, "green, like grass\n", ["green, like grass"]),
        ({"multiple": True}, "2,1\n", ["Blue", "Red"]),
    ],
)
def test_a_person_answers_a_question(holdfast: Machine, more: dict[str, Any], typed: str, answered: list[str]) -> None:
    """By number, by name or in words of their own."""
    holdfast.script({"calls": [{"tool": "question", "input": {"questions": [{**QUESTION, **more}]}}]}, {"text": "Ah."})
    person = holdfast.at_terminal(*SCRIPTED)
    person.wait_for("Which colour?")
    person.wait_for("your answer:")
    person.type(typed)
    ran = person.leave()
    settled = settlement(holdfast, ran.session)

    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert settled.structured["answers"] == [answered]


def test_a_question_can_be_dismissed(holdfast: Machine) -> None:
    """The end of input stops the turn."""
    holdfast.script({"calls": [{"tool": "question", "input": {"questions": [QUESTION]}}]}, {"text": "Ah."})
    person = holdfast.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    person.type("\x04")
    ran = person.leave()

    assert (ran.code, ran.out) == (1, "")
    assert holdfast.healthy()


def test_through_a_server_a_question_nobody_answers_is_answered_so(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """TOL-354: the model hears that nobody is here, and goes on."""
    holdfast.script({"calls": [{"tool": "question", "input": {"questions": [QUESTION]}}]}, {"text": "Ah."})
    ran = holdfast(*SCRIPTED, "--attach", serve("--no-auth").url)
    settled = settlement(holdfast, ran.session)

    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert "Nobody is here" in settled.structured["answers"][0][0]


# -- commands ----------------------------------------------------------------------------------------------------


COMMAND = {
    "greet": {"template": "Greet $1. Today: !`touch made.txt; echo sunny`. See @hello.txt", "description": "says hello"}
}


def test_a_command_is_expanded_and_sent(holdfast: Machine) -> None:
    """CAT-078, CAT-079, CAT-080: arguments in their places, output of its shell commands, and the file it names."""
    holdfast.configure_user(command=COMMAND)
    ran = holdfast("run", "--model", "demo/echo", "--command", "greet", "Ada")
    sent = holdfast.look(ran.session)[1][0]

    assert ran.code == 0
    assert isinstance(sent, UserMessage)
    assert sent.text.startswith("Greet Ada. Today: ")
    assert "sunny" in sent.text
    assert [file.name for file in sent.files or ()] == ["hello.txt"]


def test_the_shell_of_a_command_needs_permission(holdfast: Machine) -> None:
    """CAT-080, TOL-354: asked for like that of a model; a denial is said in its place."""
    holdfast.configure_user(command=COMMAND, permission={"bash": "ask"})
    denied = holdfast("run", "--model", "demo/echo", "--command", "greet", "Ada")
    text = holdfast.look(denied.session)[1][0]
    assert isinstance(text, UserMessage)
    assert "was not run" in text.text
    assert not (holdfast.project / "made.txt").exists()
    person = holdfast.at_terminal("run", "--model", "demo/echo", "--command", "greet", "Ada")
    person.wait_for("your answer:")
    person.type("y\n")

    assert person.leave().code == 0
    assert (holdfast.project / "made.txt").exists()


def test_an_unknown_command_admits_nothing(holdfast: Machine) -> None:
    """CAT-081: one line, and no session is left behind."""
    ran = holdfast("run", "--model", "demo/echo", "--command", "nonsense", "x")

    assert (ran.code, ran.out) == (2, "")
    assert "nonsense" in ran.complaint
    assert holdfast("sessions").out == ""


def test_a_terminal_that_goes_away_during_a_question_ends_the_run(asking: Machine) -> None:
    """SES-209: nobody waits for an answer that cannot come any more."""
    person = asking.at_terminal(*SCRIPTED)
    person.wait_for("your answer:")
    session = next(line.split()[1] for line in person.shown.splitlines() if line.startswith("session "))
    person.hang_up()
    finish(person.process)

    assert not (asking.project / "made.txt").exists()
    assert isinstance(settlement(asking, session), ToolError)
    assert asking.healthy()


def test_a_command_is_one_of_where_the_session_lives(holdfast: Machine) -> None:
    """CAT-005: not of where the call is made."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    folder = elsewhere / ".opencode" / "command"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Greet $ARGUMENTS.", encoding="utf-8")
    session = holdfast("run", "--model", "demo/echo", "--dir", str(elsewhere), "x").session
    ran = holdfast("run", "--session", session, "--command", "greet", "the moon")

    assert (ran.code, ran.out) == (0, "Greet the moon.\n")
