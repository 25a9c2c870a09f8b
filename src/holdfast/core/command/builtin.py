"""The built-in commands, which configuration can replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.command.command import CommandDraft

INIT_DESCRIPTION = "guided AGENTS.md setup"
REVIEW_DESCRIPTION = "review changes [commit|branch|pr], defaults to uncommitted"

INIT = """\
Write or improve `AGENTS.md` for the project in {directory}: what an agent must know to work here, and nothing that it \
would find out by itself at once.

$ARGUMENTS

Look first. Read the README, the build and test configuration, the continuous integration, and existing instructions \
for agents or contributors (`AGENTS.md`, `CLAUDE.md`, `.cursorrules`, `.github/copilot-instructions.md`). Then put \
down, as far as it is true of this repository:

- the commands that build, lint and test it, and how to run one single test; try them before you write them down
- what the parts are and how they depend on each other, where that takes more than one file to see
- conventions that differ from what is usual, with the place where each can be seen
- traps: generated files, required services, an order that matters, things that look right and are not

Keep it compact: every line has to be specific to this repository and verified in it. No general advice, no list of \
files, nothing invented. If an `AGENTS.md` exists, improve it in place: keep what is still true, correct what is not, \
and do not start over. Where the repository does not answer a question that matters, ask it."""

REVIEW = """\
Review changes of the project in {directory} and report what you find. Change nothing.

What to review: $ARGUMENTS

- nothing named: what is not committed yet, staged or not, and new files
- a commit: what that commit changes
- a branch: what it changes since it left the branch that you are on
- a pull request, by number or address: its description and its changes

Read the surrounding code before you judge a change; a diff alone misleads. Look for wrong behaviour first: broken \
edge cases, lost errors, races, unsafe input, contracts of callers that no longer hold, new behaviour without a test. \
Follow the conventions of this code base, not your own taste, and say nothing about style that a tool checks.

Report each finding with file and line, what happens and when, how sure you are, and the smallest change that would \
help. Order them by weight. If there is nothing to report, say so."""


def builtin_commands(project: Path) -> Callable[[CommandDraft], None]:
    def transform(draft: CommandDraft) -> None:
        # Not `format`: the templates contain other braces.
        init, review = (text.replace("{directory}", str(project)) for text in (INIT, REVIEW))
        draft.update("init", lambda found: msgspec.structs.replace(found, template=init, description=INIT_DESCRIPTION))
        draft.update(
            "review",
            lambda found: msgspec.structs.replace(found, template=review, description=REVIEW_DESCRIPTION, subtask=True),
        )

    return transform
