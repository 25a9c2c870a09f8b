"""Calls on the command line: `/command`, `/skill`, `!command`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from tests.cli.conftest import Machine, Ran, Server, finish

from holdfast.schema.prompt import CommandCall
from holdfast.schema.session_message import ShellMessage, UserMessage

Here = Callable[..., Ran]
RUN = ("run", "--model", "demo/echo")


def commands(machine: Machine) -> None:
    both = {"template": "First $1, then $2."}
    look = {"template": "Look.", "agent": "plan", "model": "demo/echo"}
    machine.configure_user(command={"both": both, "look": look, "team/tidy": {"template": "Tidy up."}})


def sent(machine: Machine, ran: Ran) -> UserMessage:
    message = machine.look(ran.session)[1][0]
    assert isinstance(message, UserMessage)
    return message


def test_a_slash_calls_a_command(here: Here, holdfast: Machine) -> None:
    """API-478, CAT-078, SES-280: as `--command` does; words of the command line that belong together stay together."""
    commands(holdfast)
    assert here(*RUN, "/both one two").out == here(*RUN, "/both", "one", "two").out == "First one, then two.\n"
    assert here(*RUN, "--command", "both", "one two", "three").out == "First one two, then three.\n"
    assert here(*RUN, "/team/tidy").out == "Tidy up.\n"
    called = here(*RUN, "/init", "the tests")
    assert called.code == 0
    assert sent(holdfast, called).command == CommandCall(command="init", arguments="the tests")


def test_text_that_is_no_call_is_sent_as_it_is(here: Here) -> None:
    """API-478, API-479: paths, a space before the slash, and everything from standard input."""
    for text in ("/etc/hosts is broken", " /usr is full", "5! is 120", "/ alone"):
        assert here(*RUN, text).out == f"{text}\n"
    for text in ("!touch made", "/init"):
        assert here(*RUN, "-", given=text).out == f"{text}\n"


def test_an_unknown_call_is_a_usage_error(here: Here) -> None:
    """API-478, CAT-232: similar names, how to send it as text, and no session."""
    ran = here(*RUN, "/reviw", "main")
    assert (ran.code, ran.out) == (2, "")
    assert "no command reviw" in ran.err
    assert "similar: review" in ran.err
    assert "a space before it" in " ".join(ran.err.split())
    assert here(*RUN, "!").code == 2
    assert json.loads(here("sessions", "--json").out) == []


def test_calls_take_the_options_that_fit_them(here: Here, holdfast: Machine) -> None:
    """API-478, API-479, API-489: files belong to a command; options of a prompt do not."""
    commands(holdfast)
    called = here(*RUN, "/look", "--file", str(holdfast.project / "hello.txt"))
    assert called.code == 0, called.err
    assert [file.name for file in sent(holdfast, called).files or ()] == [str(holdfast.project / "hello.txt")]
    for call in ("/look", "!true"):
        ran = here(*RUN, call, "--system", "Be brief.")
        assert ran.code == 2
        assert "--system" in ran.err
    assert here(*RUN, "!true", "--file", str(holdfast.project / "hello.txt")).code == 2
    assert here(*RUN, "/etc/hosts is broken", "--system", "Be brief.").code == 0


def test_a_skill_is_called_with_a_slash(here: Here, holdfast: Machine) -> None:
    """API-478, CAT-082."""
    file = holdfast.home / "config" / "opencode" / "skill" / "bake" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: bake\ndescription: How to bake\nslash: true\n---\nBake it.\n", encoding="utf-8")
    ran = here(*RUN, "/bake a loaf")
    message = sent(holdfast, ran)

    assert ran.code == 0
    assert message.text == "a loaf"
    assert [item.name for item in message.skills or ()] == ["bake"]
    assert "Bake it." in (message.skills or ())[0].text


def test_what_a_command_sets_comes_before_the_options(here: Here, holdfast: Machine) -> None:
    """API-478, SES-281: and a line says so; the Session keeps what the options chose."""
    commands(holdfast)
    ran = here(*RUN, "--agent", "build", "/look")
    session, (message, *_) = holdfast.look(ran.session)

    assert "the command look sets the agent plan" in ran.err
    assert isinstance(message, UserMessage)
    assert message.options is not None
    assert (message.options.agent, session.agent) == ("plan", "build")


def test_an_exclamation_mark_runs_a_command(here: Here, holdfast: Machine) -> None:
    """API-479, SES-284: its output on standard output, its status as the exit code, a message in the session."""
    good = here(*RUN, "!echo one; echo two")
    assert (good.code, good.out) == (0, "one\ntwo\n")
    bad = here(*RUN, "-q", "!echo half; exit 7")
    assert (bad.code, bad.out) == (7, "half\n")
    silent = here(*RUN, "-q", "!exit 3")
    assert (silent.code, silent.out) == (3, "")
    again = here("run", "--session", good.session, "!pwd")
    assert again.out == f"{holdfast.project}\n"
    session, messages = holdfast.look(good.session)

    assert [message.exit for message in messages if isinstance(message, ShellMessage)] == [0, 0]
    lines = [json.loads(line) for line in here("run", "--session", session.id, "--json", "!true").out.splitlines()]
    assert lines[0]["type"] == "session"
    assert {"session.next.shell.started", "session.next.shell.ended"} <= {
        line["event"]["type"] for line in lines if line["type"] == "event"
    }


def test_a_denied_command_is_told(here: Here, holdfast: Machine) -> None:
    """API-479, SES-285: nobody is there to ask; `--yes` allows it."""
    holdfast.configure_user(permission={"bash": "ask"})
    denied = here(*RUN, "!touch made.txt")
    assert denied.code == 4
    assert "was not run" in denied.complaint
    assert not (holdfast.project / "made.txt").exists()
    assert here(*RUN, "--yes", "!touch made.txt").code == 0
    assert (holdfast.project / "made.txt").exists()


def test_calls_work_with_a_server(here: Here, holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-478, API-479: with `--attach` and with one that is found."""
    commands(holdfast)
    server = serve("--no-auth")
    attached = ("--attach", server.url)
    assert here(*RUN, *attached, "/both one two").out == "First one, then two.\n"
    assert here(*RUN, *attached, "--command", "both", "one", "two").out == "First one, then two.\n"
    ran = here(*RUN, *attached, "!echo out; exit 3")
    assert (ran.code, ran.out) == (3, "out\n")
    assert here(*RUN, "/team/tidy").out == "Tidy up.\n"
    assert here(*RUN, *attached, "/absent").code == 2


def test_a_person_interrupts_a_command(holdfast: Machine) -> None:
    """API-479, SES-288: Ctrl-C ends it with its processes."""
    process = holdfast.start(*RUN, "!echo $$ > pid; echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    message = holdfast.look(ran.session)[1][-1]

    assert ran.code == 130
    assert isinstance(message, ShellMessage)
    assert message.time.completed is not None
    assert "interrupted" in message.output


def test_a_command_that_lost_its_process_is_closed_by_the_next_drain(holdfast: Machine) -> None:
    """SES-288, SES-287: what is recorded says so; nothing is run again, and the conversation goes on."""
    process = holdfast.start(*RUN, "!echo x >> ran; echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.kill()
    session = finish(process).session
    ran = holdfast("run", "--session", session, "and now")
    messages = holdfast.look(session)[1]

    assert (ran.code, ran.out) == (0, "and now\n")
    assert isinstance(messages[0], ShellMessage)
    assert messages[0].time.completed is not None
    assert "lost" in messages[0].output
    assert (holdfast.project / "ran").read_text() == "x\n"
    assert holdfast.healthy()


def test_help_tells_of_calls(here: Here) -> None:
    """API-478, API-479."""
    text = " ".join(here("run", "--help").out.split())
    assert '"/init"' in text
    assert "'!git status'" in text
