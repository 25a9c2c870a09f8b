"""Secrets of the runtime's own process stay out of reach of the commands that it runs."""

from __future__ import annotations

import secrets

from tests.cli.conftest import ColdMachine, Machine

MACHINE = ColdMachine
KEY = f"sk-canary-{secrets.token_hex(8)}"
"""Of this run alone: the command sees the processes of other tests too."""
LOOK = "for f in /proc/$PPID/environ /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done > seen.txt 2>/dev/null; true"


def test_commands_cannot_read_keys_from_the_process(holdfast: Machine) -> None:
    """TOL-222, TOL-402: not from `/proc`, also when the runtime runs as root."""
    holdfast.environment |= {"OPENAI_API_KEY": KEY, "OPENCODE_SERVER_PASSWORD": KEY, "SOME_TOKEN": KEY, "PLAIN": "seen"}
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": LOOK}}]}, {"text": "done"})
    ran = holdfast("run", "--model", "demo/scripted", "go")
    assert ran.code == 0, ran
    seen = (holdfast.project / "seen.txt").read_text(encoding="utf-8", errors="replace")
    assert f"HOME={holdfast.home}" in seen
    assert KEY not in seen


def test_commands_cannot_read_other_variables_either(holdfast: Machine) -> None:
    """TOL-402, TOL-555: a secret does not always have the name of one. Proxies are passed on without a password."""
    proxy = f"http://person:{KEY}@proxy.example.org:3128"
    holdfast.environment |= {"DATABASE_URL": f"postgres://u:{KEY}@h/d", "SENTRY_DSN": KEY, "HTTPS_PROXY": proxy}
    look = f'{LOOK}; echo "$HTTPS_PROXY" > proxy.txt'
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": look}}]}, {"text": "done"})
    assert holdfast("run", "--model", "demo/scripted", "go").code == 0
    seen = (holdfast.project / "seen.txt").read_text(encoding="utf-8", errors="replace")
    assert f"HOME={holdfast.home}" in seen
    assert KEY not in seen
    assert (holdfast.project / "proxy.txt").read_text(encoding="utf-8") == "http://proxy.example.org:3128\n"
    holdfast.configure_user(holdfast={"environment": ["HTTPS_PROXY"]})
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": look}}]}, {"text": "done"})
    assert holdfast("run", "--model", "demo/scripted", "go").code == 0
    assert (holdfast.project / "proxy.txt").read_text(encoding="utf-8") == f"{proxy}\n"
