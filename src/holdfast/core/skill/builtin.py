"""The built-in skill: how the runtime is configured. A user's skill of the same name overrides it."""

from __future__ import annotations

from holdfast.core.skill.skill import EmbeddedSource, Skill

CUSTOMIZE = EmbeddedSource(
    Skill(
        name="customize-opencode",
        description=(
            "Use when the user wants to change how this coding agent itself is set up: opencode.json, agents, "
            "commands, skills, permissions, providers or plugins. Not for the user's own project."
        ),
        location="/builtin/customize-opencode.md",
        content="""\
# Configuring this agent

## Where configuration lives

- For every project: `~/.config/opencode/opencode.json` (or `.jsonc`). `OPENCODE_CONFIG_DIR` names another directory.
- For one project: `opencode.json` or `opencode.jsonc`, from the project's root down to the working directory, and the
  same files in `.opencode/` directories. What is nearer wins.
- Comments and trailing commas are allowed. `{env:NAME}` and `{file:path}` are replaced by their values.
- Configuration is read when a project is opened: tell the user to start again after a change.

Read the existing file before you edit it, keep what you do not understand, and show the user what you changed.

## Common settings

```jsonc
{
  "model": "provider/model",
  "default_agent": "build",
  "instructions": ["docs/rules.md"],
  "skills": ["./team-skills", "https://example.com/skills/"],
  "references": { "design": { "path": "../design", "description": "Where designs are kept" } }
}
```

## Permissions

An ordered list of rules `{ "action", "resource", "effect" }`; effect is `allow`, `ask` or `deny`, `*` and `?` are
wildcards, and the last rule that matches decides. Put broad rules first and narrow ones after them.

```jsonc
{ "permissions": [
  { "action": "bash", "resource": "*", "effect": "ask" },
  { "action": "bash", "resource": "git status *", "effect": "allow" }
] }
```

## Files in a configuration directory

| what | where | frontmatter |
| --- | --- | --- |
| agent | `agents/<name>.md` | `description`, `mode`, `model`, `permissions`; the body is its system text |
| command | `commands/<name>.md` | `description`, `agent`; the body is the template, `$ARGUMENTS` what was typed |
| skill | `skills/<name>/SKILL.md` | `name`, `description`; the body is what the model reads |

A skill's description decides whether it is ever used: say when to load it, in one or two sentences.
""",
    )
)
