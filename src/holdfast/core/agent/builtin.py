"""The built-in agents, which configuration can change or disable.

`build`, `plan` and `general` have no system text of their own: they get the text of the model's family. Plan mode has
its own Context Source."""

from __future__ import annotations

import os
import stat
from os.path import relpath
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.permission.protected import PROTECTED, READ_RULES
from holdfast.schema.permission import Effect, Rule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.agent.draft import AgentDraft
    from holdfast.core.config.environment import Directories
    from holdfast.schema.agent import Agent, AgentMode

EXPLORE_SYSTEM = """\
You search a code base and report what is there. You cannot change anything.

Begin broad, with names and patterns, then read the parts that matter. Answer with findings: absolute paths with line \
numbers, the few lines that carry the answer, and what you looked for without finding. Say plainly what you infer \
rather than saw. Do not write reports into files."""

COMPACTION_SYSTEM = """\
You condense a conversation between a user and a software engineer so that the work can go on without the original. \
Keep what was asked, what was decided and why, what has been done, which files matter and what comes next. Keep \
constraints that the user stated in the user's own words. Answer none of the questions in it, and invent nothing."""

TITLE_SYSTEM = """\
You name conversations. Answer with one line of at most fifty characters that says what the user wants, in the user's \
language, without quotation marks or a closing period. Keep technical terms, numbers and file names as they are. Never \
answer the message itself."""

SUMMARY_SYSTEM = """\
You say what was done in a conversation, in two or three sentences of the kind that stand in a change description. \
Write in the first person, name the outcome rather than the steps, and add nothing that did not happen."""


def builtin_agents(directories: Directories, directory: Path) -> Callable[[AgentDraft], None]:
    """The transform that adds the agents. `directory` is the Location's; paths of plans are relative to it."""
    outside = _outside(directories)
    base = (
        _rule("allow", "*"),
        _rule("ask", "sandbox_escape"),
        *outside,
        _rule("deny", "question"),
        *READ_RULES,
        *(_rule("ask", "edit", pattern) for pattern in PROTECTED),
    )
    nothing = _rule("deny", "*")

    def transform(draft: AgentDraft) -> None:
        def add(id: str, rules: tuple[Rule, ...], *, mode: AgentMode = "primary", **fields: object) -> None:
            draft.update(id, lambda agent: _filled(agent, mode=mode, permissions=rules, **fields))

        add("build", (*base, _allow("question")), description=_BUILD)
        add("plan", (*base, *_planning(directories, directory)), description=_PLAN)
        alone = (_rule("deny", "todowrite"), _rule("deny", "subagent"))
        add("general", (*base, *alone), mode="subagent", description=_GENERAL)
        looking = map(_allow, ("grep", "glob", "webfetch", "websearch", "read"))
        explore = (nothing, *looking, *outside, _rule("deny", "subagent"))
        add("explore", explore, mode="subagent", description=_EXPLORE, system=EXPLORE_SYSTEM)
        add("compaction", (nothing,), hidden=True, system=COMPACTION_SYSTEM)
        add("title", (nothing,), hidden=True, system=TITLE_SYSTEM)
        add("summary", (nothing,), hidden=True, system=SUMMARY_SYSTEM)

    return transform


_BUILD = "Works on the project with every tool"
_PLAN = "Works out a plan and changes nothing but plan files"
_GENERAL = (
    "Works on a task of several steps and reports its result. For work that would fill this conversation with detail, "
    "and for parts that can be done side by side"
)
_EXPLORE = (
    "Searches the code base and reports what it finds; changes nothing. For questions that need many searches; say how "
    "thoroughly it should look"
)


def _filled(agent: Agent, **fields: object) -> Agent:
    """Sets the fields, but keeps a system text and description that an earlier transform set."""
    kept = {name: value for name, value in fields.items() if name not in ("system", "description")}
    words = {name: fields[name] for name in fields.keys() - kept.keys() if getattr(agent, name) is None}
    return msgspec.structs.replace(agent, **kept, **words)


def _outside(directories: Directories) -> tuple[Rule, ...]:
    rules = [_rule("ask", "external_directory"), _rule("allow", "external_directory", f"{directories.tool_output}/*")]
    if _is_ours(directories.tmp):
        rules.append(_rule("allow", "external_directory", f"{directories.tmp}/*"))
    return tuple(rules)


def _is_ours(folder: Path) -> bool:
    """Whether no other user can have created files there. The directory for temporary files is shared by all users."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False  # another user could create it first
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _planning(directories: Directories, directory: Path) -> tuple[Rule, ...]:
    plans = (f"{directories.plans}/*.md", f"{relpath(directories.plans, directory)}/*.md")
    return (
        _allow("question"),
        _rule("allow", "external_directory", f"{directories.plans}/*"),
        _rule("ask", "bash"),
        _rule("deny", "edit"),
        _rule("deny", "sandbox_escape"),
        _rule("allow", "edit", ".opencode/plans/*.md"),
        # Files outside the Location are named by absolute path, files inside by relative path.
        *(_rule("allow", "edit", pattern) for pattern in plans),
    )


def _allow(action: str) -> Rule:
    return _rule("allow", action)


def _rule(effect: Effect, action: str, resource: str = "*") -> Rule:
    return Rule(action=action, resource=resource, effect=effect)
