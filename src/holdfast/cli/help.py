"""The help of `holdfast`: commands grouped by use, with examples, and a suggestion for a mistyped command."""

from __future__ import annotations

import click

GROUPS: dict[str, tuple[str, ...]] = {
    "Work": ("run", "attach", "acp"),
    "Look": ("sessions", "usage", "context", "web"),
    "Set up": ("auth", "models", "agents", "commands", "skills", "mcp", "config", "trust", "completion"),
    "Serve": ("serve", "token", "audit"),
    "Maintain": (
        "doctor",
        "export",
        "import",
        "verify",
        "traces",
        "retention",
        "backup",
        "restore",
        "migrate",
        "demo",
    ),
}
OTHERS = "Other commands"
EXAMPLES = (
    ('holdfast run "Fix the failing test"', "one prompt, its answer on standard output"),
    ('git diff | holdfast run -c "Review this"', "go on with the newest session of this directory"),
    ("holdfast sessions --search test", "find a session by its title"),
)
SIMILAR = 3
NAME_CHARACTERS = 200


class HelpfulGroup(click.Group):
    """Names the nearest commands when one does not exist."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = name[:1] == "-" or context.resilient_parsing or self.get_command(context, name) is not None
        if not known:
            raise click.UsageError(_unknown(name, self.list_commands(context), context.command_path), context)
        return super().resolve_command(context, args)


class GroupedCommands(HelpfulGroup):
    """Lists its commands by use, in the order of `GROUPS`, and examples after them."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(context)
        grouped = {heading: [name for name in group if name in names] for heading, group in GROUPS.items()}
        grouped[OTHERS] = [name for name in names if not any(name in group for group in GROUPS.values())]
        column = max(map(len, names), default=0)
        for heading, group in grouped.items():
            rows = [(name.ljust(column), self._summary(context, name, formatter.width - column - 6)) for name in group]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example, meaning in EXAMPLES:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {meaning}\n")

    def _summary(self, context: click.Context, name: str, limit: int) -> str:
        command = self.get_command(context, name)
        return command.get_short_help_str(limit) if command is not None else ""


def _unknown(name: str, names: list[str], program: str) -> str:
    """What is wrong, and what was probably meant: a command, or a prompt."""
    from difflib import get_close_matches

    from holdfast.cli.output import brief, visible

    if len(name.split()) > 1:
        prompt = f'; `{program} run "…"` sends a prompt' if "run" in names else ""
        return f"{brief(visible(name), 60)!r} is not a command{prompt}."
    near = get_close_matches(name[:NAME_CHARACTERS], names, n=SIMILAR)
    meant = " or ".join(f"`{program} {each}`" for each in near)
    way_out = f"Did you mean {meant}?" if near else f"`{program} --help` lists the commands."
    return f"No such command {brief(visible(name), 60)!r}. {way_out}"
